package main_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

func TestAnAgentFromPushToResult(t *testing.T) {
	t.Parallel()
	w := site(t, func(string) string {
		return `
handlers:
  echo: {kind: exec, command: [cat]}
  fail: {kind: exec, command: [sh, -c, "echo no paper >&2; exit 3"]}
  env: {kind: exec, command: [sh, -c, "env; tr '\\0' ' ' </proc/$PPID/cmdline"]}
`
	})
	w.work("PUSHD_TOKEN=tok_of_the_agent")
	ctx := t.Context()
	for id, p := range map[string]api.Push{
		"a": {Type: "echo", Payload: json.RawMessage(`{"x":[1,2]}`)}, "b": {Type: "fail"}, "c": {Type: "nope"}, "d": {Type: "env"},
	} {
		p.ActionID, p.MachineID, p.OnDead = id, "m1", "skip"
		_, err := w.client().Push(ctx, p)
		require.NoError(t, err)
	}
	require.JSONEq(t, `{"x":[1,2]}`, string(w.settled("a").Result))
	r := w.settled("b")
	require.Equal(t, "error", r.Error.Kind)
	require.Equal(t, "no paper", r.Error.Message)
	require.Equal(t, 2, r.Attempts, "it was tried again, as the server said")
	require.Contains(t, w.settled("c").Error.Message, "echo, env, fail")
	require.NotContains(t, string(w.settled("d").Result), "tok_of_the_agent")
	require.NotContains(t, w.agent.log(), "tok_of_the_agent")
}

// A machine that nobody has seen before cannot do its work: why is there to be read
// as soon as it has subscribed, and gone when it can.
func TestWhyAMachineTakesNothing(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	token := func(scope string) string {
		out, talk, code := run(t, "pushd", "token", "create", "--name", scope, "--scope", scope, "--data-dir", data)
		require.Equal(t, 0, code, talk)
		return strings.TrimSpace(out)
	}
	boss, agents := token("admin"), token("agent:m1")
	w := &worksite{t: t, dir: t.TempDir(), srv: serve(t, data)}
	w.address = strings.TrimPrefix(w.srv.base, "http://")
	t.Cleanup(w.end)
	tool := w.path("tool")
	settings := fmt.Sprintf("machine_id: m1\nlog: {format: json}\nhandlers: {x: {kind: exec, command: [%s]}}\n", tool)
	require.NoError(t, os.WriteFile(w.path("agent.yaml"), []byte(settings), 0o600))
	w.work("PUSHD_TOKEN=" + agents)
	shows := func(credit int, why string) {
		t.Helper()
		var m api.Machine
		require.Eventually(t, func() bool {
			var err error
			m, err = (&api.Client{Base: w.srv.base, Token: boss}).Machine(t.Context(), "m1")
			return err == nil && m.MaxInFlight == credit && m.CreditReason == why
		}, patience, 20*time.Millisecond, "%+v", &m)
	}
	shows(0, "preflight failed: x: "+tool+": not found")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o700))
	shows(1, "")
}

// memory is a line of /proc/PID/status.
func memory(t testing.TB, pid int, name string) int {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), name+":")
	require.True(t, found)
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return kib
}

// A program that leaves a grandchild in its own session, ignores SIGTERM and
// prints for ever: after a cancel nothing of it lives.
func TestACancelEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	w := site(t, func(dir string) string {
		return fmt.Sprintf(`
handlers:
  wild:
    kind: exec
    command: [sh, -c, 'trap "" TERM; setsid sh -c "trap \"\" TERM; echo \$PUSHD_RUN >%s/mark.new; mv %s/mark.new %s/mark; while :; do echo on; sleep 0.05; done" & while :; do echo me; sleep 0.05; done']
    windows: {stop_grace: 300ms}
`, dir, dir, dir)
	})
	w.push("wild", 1)
	w.work()
	require.Eventually(t, func() bool { _, err := os.Stat(w.path("mark")); return err == nil }, patience, 10*time.Millisecond)
	mark, err := os.ReadFile(w.path("mark"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, bearing(string(mark)), 2)
	_, err = w.client().Cancel(t.Context(), "wild-000")
	require.NoError(t, err)
	r := w.settled("wild-000")
	require.Equal(t, "cancelled", r.State)
	require.True(t, *r.CancelConfirmed)
	require.Zero(t, bearing(string(mark)))
}

// stubborn is a handler that says by which mark it runs, and ends by no signal that
// can be ignored.
func stubborn(dir string) string {
	return fmt.Sprintf(`
handlers:
  hold:
    kind: exec
    command: [sh, -c, 'trap "" TERM; echo $PUSHD_RUN >%s/mark.new; mv %s/mark.new %s/mark; while :; do sleep 0.1; done']
    windows: {stop_grace: 200ms}
`, dir, dir, dir)
}

// mark waits until a stubborn handler runs and gives its mark.
func (w *worksite) mark() string {
	w.t.Helper()
	var raw []byte
	require.Eventually(w.t, func() (there bool) {
		var err error
		raw, err = os.ReadFile(w.path("mark"))
		return err == nil
	}, patience, 10*time.Millisecond)
	require.NoError(w.t, os.Remove(w.path("mark")))
	require.Positive(w.t, bearing(string(raw)))
	return string(raw)
}

// A first signal lets work go on, a second one ends it and all it had started. The
// next agent tells what was interrupted.
func TestASecondSignalEndsTheAgentAtOnce(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			w := site(t, stubborn)
			w.drain = "1h"
			w.push("hold", 1)
			w.work()
			mark := w.mark()
			require.NoError(t, w.agent.cmd.Process.Signal(sig))
			w.agent.says(t, "the agent stops")
			require.Positive(t, bearing(mark))
			// One that comes while the first is still being heard is none of its own.
			require.Eventually(t, func() bool {
				select {
				case <-w.agent.exited:
					return true
				default:
					_ = w.agent.cmd.Process.Signal(sig) // it may be gone
					return false
				}
			}, patience, 100*time.Millisecond)
			require.Equal(t, -1, w.agent.cmd.ProcessState.ExitCode(), "it was ended by the signal")
			require.Eventually(t, func() bool { return bearing(mark) == 0 }, patience, 10*time.Millisecond)
			w.drain = "1s"
			w.work()
			require.Contains(t, w.agent.log(), `"interrupted":1`)
			w.mark()
			r, err := w.client().Action(t.Context(), "hold-000", 0)
			require.NoError(t, err)
			require.Equal(t, 1, r.TransientAttempts)
			require.Contains(t, told(r), "failed")
		})
	}
}

// Work that takes longer than it is given at the end is stopped and reported, and
// the machine's credit is given back.
func TestTheDrainTimeoutRunsOut(t *testing.T) {
	t.Parallel()
	w := site(t, stubborn, "policy.backoff_base=1h", "policy.backoff_max=1h")
	w.drain = "700ms"
	w.push("hold", 1)
	w.work()
	mark := w.mark()
	begun := time.Now()
	require.NoError(t, w.agent.cmd.Process.Signal(syscall.SIGTERM))
	w.agent.gone(t)
	require.Zero(t, w.agent.cmd.ProcessState.ExitCode(), w.agent.log())
	require.GreaterOrEqual(t, time.Since(begun), 700*time.Millisecond)
	require.Zero(t, bearing(mark))
	r, err := w.client().Action(t.Context(), "hold-000", 0)
	require.NoError(t, err)
	require.Equal(t, "scheduled", r.State)
	require.Equal(t, 1, r.TransientAttempts)
	require.Equal(t, "agent_stopped", r.Error.Code)
	m, err := w.client().Machine(t.Context(), "m1")
	require.NoError(t, err)
	require.Zero(t, m.InFlight)
	require.Equal(t, 4, m.MaxInFlight)
	w.agent = nil
}

// bearing counts the processes with a mark.
func bearing(mark string) (n int) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		raw, _ := os.ReadFile(path) // what has ended is not there
		if bytes.Contains(raw, []byte("PUSHD_RUN="+strings.TrimSpace(mark))) {
			n++
		}
	}
	return n
}

// hugeEvent is a CLI agent whose tool printed 100 MiB.
const hugeEvent = `#!/bin/sh
test "$1" = --version && exit 0
printf '{"type":"user","message":{"content":[{"type":"tool_result","content":"'
head -c 104857600 /dev/zero | tr '\0' y
echo '"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"s1"}'
`

var agentOutput = flag.Int("agent.output", 1<<30, "how many bytes a program prints in TestAnAgentsMemoryIsBounded")

// 100 MiB without a newline, output without end, none, and bytes of any kind.
func TestAnAgentsMemoryIsBounded(t *testing.T) {
	t.Parallel()
	much := *agentOutput
	if raceEnabled {
		much = min(much, 64<<20) // the race detector makes it slow, and does not find more in more
	}
	w := site(t, func(dir string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "json"), []byte(hugeEvent), 0o700))
		return fmt.Sprintf(`
handlers:
  line: {kind: exec, command: [sh, -c, "head -c 104857600 /dev/zero | tr '\\0' y; echo; echo last"]}
  json: {kind: cli-agent, adapter: claude, command: [./json]}
  much: {kind: exec, command: [sh, -c, "yes '0123456789012345678901234567890123456789012345678901234567890' | head -c %d"]}
  none: {kind: exec, command: ["true"]}
  junk: {kind: exec, command: [head, -c, "300000", /dev/urandom]}
`, much)
	})
	w.work()
	for _, kind := range []string{"line", "json", "much", "none", "junk"} {
		_, err := w.client().Push(t.Context(), api.Push{ActionID: kind + "-000", MachineID: "m1", Type: kind, Payload: json.RawMessage(`"do it"`)})
		require.NoError(t, err)
		r := w.settled(kind + "-000")
		require.Equal(t, "done", r.State, "%+v", r.Error)
		var result struct {
			Tail string `json:"output_tail"`
			Size int64  `json:"output_bytes"`
			Text string `json:"text"`
		}
		require.NoError(t, json.Unmarshal(r.Result, &result))
		switch kind {
		case "line":
			require.True(t, strings.HasSuffix(result.Tail, "y\nlast\n"))
			require.EqualValues(t, 100<<20+6, result.Size)
		case "json":
			require.Equal(t, "fine", result.Text)
		case "much":
			require.EqualValues(t, much, result.Size)
		}
	}
	if runtime.GOOS == "linux" {
		peak := memory(t, w.agent.cmd.Process.Pid, "VmHWM")
		t.Logf("peak: %d KiB", peak)
		if !raceEnabled {
			require.Less(t, peak, 64<<10)
		}
	}
}

// AW-01 and AW-03: a network that freezes, and a proxy that holds the stream.
func TestAnAgentBehindABadNetwork(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"freeze", "buffer"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := site(t, func(string) string { return "handlers: {echo: {kind: exec, command: [cat]}}" })
			proxy := newFaultyProxy(t, w.address)
			direct := w.address
			w.address = proxy.addr
			if mode == "buffer" {
				proxy.mode.Store(mode)
				w.begin()
				w.address = direct
			} else {
				w.work()
				w.address = direct
				proxy.mode.Store(mode)
				w.agent.says(t, "the stream is silent")
				proxy.mode.Store("pass")
			}
			w.push("echo", 1)
			require.Equal(t, "done", w.settled("echo-000").State)
			if mode == "buffer" {
				require.Contains(t, w.agent.log(), "polling instead")
			}
		})
	}
}

// One host, one process: a server and its agent, from push to done to the end.
func TestAnAgentBesideTheServer(t *testing.T) {
	t.Parallel()
	dir, address := t.TempDir(), "127.0.0.1:"+steadyPort(t)
	file := filepath.Join(dir, "agent.yaml")
	require.NoError(t, os.WriteFile(file, []byte("machine_id: m1\nhandlers: {echo: {kind: exec, command: [cat]}}\n"), 0o600))
	h := &hand{up: make(chan struct{})}
	cmd := exec.Command(filepath.Join(bin, "pushd"), "serve", "--listen", address, "--data-dir", filepath.Join(dir, "srv"), "--agent", file, "--set", "log.format=json")
	cmd.Env, cmd.Stderr = clean(os.Environ()), h
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	select {
	case <-h.up:
	case <-time.After(patience):
		require.FailNow(t, "the agent does not subscribe", h.log())
	}
	c := &api.Client{Base: "http://" + address}
	_, err := c.Push(t.Context(), api.Push{ActionID: "a", MachineID: "m1", Type: "echo", Payload: json.RawMessage(`7`)})
	require.NoError(t, err)
	r, err := c.Action(t.Context(), "a", patience)
	require.NoError(t, err)
	require.Equal(t, "done", r.State)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), h.log())
}

func TestAgentMisuse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	require.NoError(t, os.WriteFile(bad, []byte("handlers: {x: {kind: exce}}\n"), 0o600))
	typo := filepath.Join(dir, "typo.yaml")
	require.NoError(t, os.WriteFile(typo, []byte("handler: {}\n"), 0o600))
	good := filepath.Join(dir, "good.yaml")
	require.NoError(t, os.WriteFile(good, []byte("machine_id: m1\nhandlers: {x: {kind: exec, command: [cat]}}\n"), 0o600))
	for name, c := range map[string]struct {
		line []string
		says string
	}{
		"a service": {[]string{"agent", "install", "-c", good, "--server", "https://push.example"}, "--server: write it into the settings file"},
		"no file":   {[]string{"agent", "-c", filepath.Join(dir, "none.yaml")}, "no settings file"},
		"bad kind":  {[]string{"agent", "-c", bad}, "exce"},
		"a typo":    {[]string{"agent", "-c", typo}, "handler"},
		"supervise": {[]string{"agent", "supervise"}, "itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, talk, code := run(t, "pushd", c.line...)
			require.NotZero(t, code)
			require.Contains(t, talk, c.says)
		})
	}
}
