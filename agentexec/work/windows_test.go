package work

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/proc"
	"pushd/agentexec/task"
	"pushd/policy"
)

// life is a run in a bubble: what it shows, and when.
type life struct {
	open, succeeded, worked atomic.Bool
	jump                    atomic.Int64
}

func (l *life) signs() signs {
	return signs{
		open: l.open.Load, succeeded: l.succeeded.Load,
		probe: func(open bool) bool { return l.worked.Load() && open },
	}
}

func TestWindows(t *testing.T) {
	for name, c := range map[string]struct {
		live func(l *life, p *task.Pulse)
		stop policy.Stop
		says string
		at   time.Duration
	}{
		"nothing at all": {
			func(*life, *task.Pulse) {}, policy.StopFirstOutput, "first_output", 2 * time.Minute,
		},
		"one word and silence": {
			func(_ *life, p *task.Pulse) { p.Bump(time.Now()) }, policy.StopInactivity, "window inactivity", 10 * time.Minute,
		},
		"a tool that is silent for ever": {
			func(l *life, p *task.Pulse) { p.Bump(time.Now()); l.open.Store(true) }, policy.StopInactivity, "window open_tool", 45 * time.Minute,
		},
		"a tool that is silent for 30 minutes": {
			func(l *life, p *task.Pulse) {
				p.Bump(time.Now())
				l.open.Store(true)
				time.Sleep(30 * time.Minute)
				p.Bump(time.Now())
				l.open.Store(false)
			}, policy.StopInactivity, "window inactivity", 40 * time.Minute,
		},
		"a tool whose tree works for hours": {
			func(l *life, p *task.Pulse) { p.Bump(time.Now()); l.open.Store(true); l.worked.Store(true) }, policy.StopCeiling, "ceiling", 4 * time.Hour,
		},
		"work without a tool that shows only time used": {
			func(l *life, p *task.Pulse) { p.Bump(time.Now()); l.worked.Store(true) }, policy.StopInactivity, "window inactivity", 10 * time.Minute,
		},
		"success that lingers": {
			func(l *life, p *task.Pulse) { p.Bump(time.Now()); l.succeeded.Store(true) }, policy.StopLinger, "linger", 15 * time.Second,
		},
		"chatter for ever": {
			func(l *life, p *task.Pulse) {
				for range 5 * 3600 {
					p.Bump(time.Now())
					time.Sleep(time.Second)
				}
			}, policy.StopCeiling, "ceiling", 4 * time.Hour,
		},
		"a sleep of the computer": {
			func(l *life, p *task.Pulse) {
				p.Bump(time.Now())
				time.Sleep(time.Minute)
				l.jump.Store(int64(8 * time.Hour))
			}, policy.StopInactivity, "window inactivity", 10 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := &life{}, &task.Pulse{}
				begun := time.Now()
				go c.live(l, p)
				stop, says := attend(context.Background(), make(chan struct{}), Windows{}.WithDefaults(), p, l.signs(),
					func() time.Time { return time.Now().Add(time.Duration(l.jump.Load())) })
				require.Equal(t, c.stop, stop)
				require.Contains(t, says, c.says)
				require.InDelta(t, c.at.Seconds(), time.Since(begun).Seconds(), 11)
				time.Sleep(2 * time.Hour) // let it end
			})
		})
	}
}

// An action of a server that allows less silence than the profile is vouched for.
func TestVouching(t *testing.T) {
	for name, c := range map[string]struct {
		open   bool
		window time.Duration
		want   bool
	}{
		"an open tool":   {true, 0, true},
		"no tool":        {false, 0, false},
		"a long window":  {false, time.Hour, true},
		"a short window": {false, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, p := &life{}, &task.Pulse{}
				l.open.Store(c.open)
				over := make(chan struct{})
				time.AfterFunc(30*time.Second, func() { close(over) })
				attend(context.Background(), over, Windows{Inactivity: c.window}.WithDefaults(), p, l.signs(), time.Now)
				require.Equal(t, c.want, p.Read().Vouch)
			})
		})
	}
}

// tree is a program that is only looked at.
type tree struct {
	proc.Process
	used atomic.Int64
}

func (p *tree) CPU() time.Duration { return time.Duration(p.used.Load()) }

// What a CLI writes of itself is life while it says nothing; when that stops it is
// cut, whatever time its processes use.
func TestATranscriptThatGrowsIsLife(t *testing.T) {
	all, err := Builtin()
	require.NoError(t, err)
	for name, c := range map[string]struct{ line, file string }{
		"claude": {`{"type":"system","subtype":"init","session_id":"s-1"}`, ".claude/projects/-srv-repo/s-1.jsonl"},
		"codex":  {`{"type":"thread.started","thread_id":"s-1"}`, ".codex/sessions/2026/11/30/rollout-2026-11-30-s-1.jsonl"},
		"other":  {`{"type":"system","subtype":"init","session_id":"s-1"}`, ".claude/projects/-srv-repo/s-2.jsonl"},
		"path":   {`{"type":"system","subtype":"init","session_id":"../s-1"}`, ".claude/projects/s-1.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				home := t.TempDir()
				file := filepath.Join(home, c.file)
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
				a, lives := all[name]
				if !lives {
					a = all["claude"]
				}
				pulse, process := &task.Pulse{}, &tree{}
				read := newReading(a, pulse)
				read.line([]byte(c.line), false)
				pulse.Bump(time.Now())
				go func() {
					for range 6 {
						time.Sleep(9 * time.Minute)
						appendTo(t, file)
						process.used.Add(int64(time.Minute))
					}
				}()
				r := &Runner{Environ: []string{"HOME=" + home}}
				begun := time.Now()
				stop, says := attend(context.Background(), make(chan struct{}), Windows{}.WithDefaults(), pulse, signs{
					open: read.toolOpen, succeeded: read.succeeded, probe: r.prober(process, a, t.TempDir(), read),
				}, time.Now)
				require.Equal(t, policy.StopInactivity, stop)
				require.Contains(t, says, "window inactivity")
				want := 10 * time.Minute
				if lives {
					want += 54 * time.Minute
				}
				require.InDelta(t, want.Seconds(), time.Since(begun).Seconds(), 11)
				time.Sleep(time.Hour) // let it write what is left
			})
		})
	}
}

func appendTo(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteString("{}\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// The time that a tree uses is life while a tool is open, and then only if it is
// more than waking up costs.
func TestTimeUsedIsLifeWhileAToolIsOpen(t *testing.T) {
	process := &tree{}
	r := &Runner{}
	probe := r.prober(process, Adapter{}, t.TempDir(), newReading(Adapter{}, &task.Pulse{}))
	for _, c := range []struct {
		more time.Duration
		open bool
		want bool
	}{
		{time.Second, true, true}, {0, true, false}, {leastCPU, true, false}, {2 * leastCPU, true, true}, {time.Second, false, false},
	} {
		process.used.Add(int64(c.more))
		require.Equal(t, c.want, probe(c.open), "%+v", c)
	}
}

func FuzzReading(f *testing.F) {
	f.Add("claude", []byte(`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t"}]}}`), true)
	f.Add("codex", []byte(`{"type":"item.completed","item":{"type":"agent_message","text":"x"}}`), false)
	f.Add("openai", []byte(`data: {"choices":[{"delta":{"content":"x"}}]}`), false)
	all, err := Builtin()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string, line []byte, cut bool) {
		p := &task.Pulse{}
		r := newReading(all[name], p)
		_ = r.wanted(line)
		r.line(line, cut)
		r.answer(200, nil, line)
		_, session, text, _ := r.summary()
		if len(session) > 256 || len(text) > maxText {
			t.Fatal(len(session), len(text))
		}
	})
}

func TestTypeOf(t *testing.T) {
	for head, want := range map[string]string{
		`{"type":"user","message":{"content":[{"type":"tool`:                 "user",
		`{"message":{"type":"no"},"a":[1,{"type":"no"}],"type":"result","x"`: "result",
		`{"a":"type","type":"user"`:                                          "user",
		`{"message":{"content":"xx`:                                          "",
		`plain`:                                                              "",
		`{"type":7,`:                                                         "",
	} {
		require.Equal(t, want, typeOf([]byte(head)), head)
	}
}
