package main_test

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
