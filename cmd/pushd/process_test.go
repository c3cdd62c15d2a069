package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

func TestTheServiceEndsByASignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		d := serve(t, t.TempDir())
		code, err := d.end(sig)
		require.NoError(t, err)
		require.Equal(t, 0, code, "%v: %s", sig, d.log.String())
	}
}

func TestADataDirectoryHasOneProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve(t, dir)
	_, talk, code := run(t, "pushd", "serve", "--listen", "127.0.0.1:0", "--data-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, talk, "in use")
	require.Contains(t, talk, dir)
	require.Equal(t, 1, strings.Count(talk, "\n"), "one line: %s", talk)
}

func TestAnAddressInUseIsOneLine(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, talk, code := run(t, "pushd", "serve", "--listen", l.Addr().String(), "--data-dir", t.TempDir())
	require.Equal(t, 1, code)
	require.Contains(t, talk, l.Addr().String())
	require.Equal(t, 1, strings.Count(talk, "\n"), "one line: %s", talk)
}

func TestAnOpenServerKeepsToLoopback(t *testing.T) {
	t.Parallel()
	d := serve(t, t.TempDir())
	require.Contains(t, d.log.String(), "no token")

	_, talk, code := run(t, "pushd", "serve", "--listen", "0.0.0.0:0", "--data-dir", t.TempDir())
	require.Equal(t, 1, code)
	require.Contains(t, talk, "token create")
	require.Equal(t, 1, strings.Count(talk, "\n"), "one line: %s", talk)
}

func TestASettingThatMakesNoSenseStopsTheStart(t *testing.T) {
	t.Parallel()
	_, talk, code := run(t, "pushd", "serve", "--set", "watchdog.orphan_timeout=30")
	require.NotEqual(t, 0, code)
	require.Contains(t, talk, "PUSHD_WATCHDOG_ORPHAN_TIMEOUT")
	require.Equal(t, 1, strings.Count(talk, "\n"), "one line: %s", talk)
}

func TestATokenIsMadeOnARunningServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := serve(t, dir)
	host := strings.TrimPrefix(d.base, "http://")
	line := []string{"token", "create", "--name", "boss", "--scope", "admin", "--data-dir", dir, "--listen", host}
	out, talk, code := run(t, "pushd", line...)
	require.Equal(t, 0, code, talk)
	text := strings.TrimSpace(out)
	require.NotContains(t, text, "\n")

	_, talk, code = run(t, "pushctl", "-s", d.base, "ls")
	require.Equal(t, 4, code, "a token exists now: %s", talk)
	cmd := exec.Command(filepath.Join(bin, "pushctl"), "-s", d.base, "ls")
	cmd.Env = append(clean(cmd.Environ()), "PUSHD_TOKEN="+text)
	require.NoError(t, cmd.Run())
}

// What was pushed before a graceful end is there after it, and in flight.
func TestARestartLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := serve(t, dir)
	_, err := d.client().Push(t.Context(), api.Push{ActionID: "a1", MachineID: "m1", Type: "job"})
	require.NoError(t, err)
	code, err := d.end(syscall.SIGTERM)
	require.NoError(t, err)
	require.Equal(t, 0, code)
	d = serve(t, dir)
	r, err := d.client().Action(t.Context(), "a1", 0)
	require.NoError(t, err)
	require.Equal(t, "queued", r.State)
}

// The demo stays after its story, works on what is pushed to it, and ends by Ctrl-C.
func TestTheDemoStaysUntilInterrupted(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(filepath.Join(bin, "pushctl"), "demo")
	cmd.Env = append(clean(cmd.Environ()), "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test failed
	lines := bufio.NewScanner(out)
	base := ""
	for base == "" {
		require.True(t, lines.Scan(), "the demo ended early")
		if _, rest, found := strings.Cut(lines.Text(), "The server stays at "); found {
			base, _, _ = strings.Cut(rest, " ")
		}
	}
	got, talk, code := run(t, "pushctl", "-s", base, "push", "steady", `{"hello":1}`, "--id", "mine", "--wait", "--timeout", "30s")
	require.Equal(t, 0, code, talk)
	require.Contains(t, got, "mine done")
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, cmd.Wait(), "Ctrl-C is how it ends")
}

// A graceful end waits for a request that is half sent; a second signal does not.
func TestASecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	for range 3 {
		d := serve(t, t.TempDir())
		host := strings.TrimPrefix(d.base, "http://")
		conn, err := net.Dial("tcp", host)
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST /v1/actions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", host)
		require.NoError(t, err)
		require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
		require.Eventually(t, func() bool { // it takes no new connection: the first signal has come through
			probe, err := net.Dial("tcp", host)
			if err == nil {
				_ = probe.Close() // only a question
			}
			return err != nil
		}, patience, 5*time.Millisecond)
		code, err := d.end(syscall.SIGTERM)
		_ = conn.Close() // its peer is gone
		if err == nil && code == -1 {
			return // ended by the signal
		}
	}
	t.Fatal("every time it ended gracefully before, or in spite of, the second signal")
}

// tail tells what happens to one machine's actions and takes none of them.
func TestTailWatchesAndTakesNothing(t *testing.T) {
	t.Parallel()
	d := serve(t, t.TempDir())
	cmd := exec.Command(filepath.Join(bin, "pushctl"), "-s", d.base, "tail", "m1", "-o", "json")
	cmd.Env = clean(cmd.Environ())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	talk, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test failed
	said := bufio.NewScanner(talk)
	require.True(t, said.Scan())
	require.Contains(t, said.Text(), "watching")
	for _, machine := range []string{"m2", "m1"} {
		_, err := d.client().Push(t.Context(), api.Push{ActionID: "for-" + machine, MachineID: machine, Type: "job"})
		require.NoError(t, err)
	}
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	require.JSONEq(t, `"for-m1"`, field(t, lines.Bytes(), "action_id"))
	require.JSONEq(t, `"pushed"`, field(t, lines.Bytes(), "event"))
	r, err := d.client().Action(t.Context(), "for-m1", 0)
	require.NoError(t, err)
	require.Equal(t, "queued", r.State)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	var ended *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &ended)
	require.Equal(t, 130, ended.ExitCode())
}

// The feed leaves out what is too much at once; who watches is told so.
func TestTailSaysThatItMissedSomething(t *testing.T) {
	t.Parallel()
	d := serve(t, t.TempDir())
	cmd := exec.Command(filepath.Join(bin, "pushctl"), "-s", d.base, "tail")
	cmd.Env = clean(cmd.Environ())
	talk, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // which ends the reading
	t.Cleanup(func() {
		late.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	said := bufio.NewScanner(talk)
	require.True(t, said.Scan())
	require.Contains(t, said.Text(), "watching")
	var all []api.Push
	for range 900 {
		all = append(all, api.Push{MachineID: "m1", Type: "job"})
	}
	_, err = d.client().PushAll(t.Context(), all)
	require.NoError(t, err)
	require.True(t, said.Scan(), "nothing is said")
	require.Equal(t, "650 changes were too many at once and are not shown; pushctl ls tells how things are now", said.Text())
}

// field is one field of a JSON object, as it stands.
func field(t *testing.T, object []byte, name string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(object, &fields))
	return string(fields[name])
}
