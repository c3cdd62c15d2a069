package work

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

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
