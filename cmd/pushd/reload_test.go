//go:build unix

package main_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// hangUp sends SIGHUP and waits until the log says something.
func (d *daemon) hangUp(t *testing.T, says string) {
	t.Helper()
	before := strings.Count(d.log.String(), says)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return strings.Count(d.log.String(), says) > before }, patience, 5*time.Millisecond, "%s", d.log.String())
}

// startByFile starts a server by its settings file, with variables of its own.
func startByFile(t *testing.T, file string, environ ...string) *daemon {
	t.Helper()
	d := &daemon{
		cmd:    exec.Command(filepath.Join(bin, "pushd"), "serve", "--config", file, "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()),
		exited: make(chan struct{}),
	}
	d.log.address = make(chan string, 1)
	d.cmd.Env = append(clean(os.Environ()), environ...)
	d.cmd.Stderr, d.cmd.Stdout = &d.log, &d.log
	require.NoError(t, d.cmd.Start())
	go func() {
		defer close(d.exited)
		_ = d.cmd.Wait() // its state is asked for where it matters
	}()
	t.Cleanup(func() { require.NoError(t, d.stop()) })
	require.NoError(t, d.ready())
	return d
}

func TestSIGHUPTakesWhatItCanAndSaysWhatItCannot(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pushd.yaml")
	write := func(body string) { require.NoError(t, os.WriteFile(file, []byte(body), 0o600)) }
	write("log.format: json\nlimits.max_queued_per_machine: 1\n")
	d := startByFile(t, file)
	push := func(id string, payload string) error {
		_, err := d.client().Push(t.Context(), api.Push{ActionID: id, MachineID: "m1", Type: "job", Payload: []byte(payload)})
		return err
	}
	require.NoError(t, push("a1", "1"))
	require.True(t, api.IsStatus(push("a2", "2"), 429), "the queue is full")

	// What the store decides by, what the server decides by, and the log.
	write("log.format: json\nlog.level: debug\nlimits.max_queued_per_machine: 2\nlimits.max_payload_bytes: 10B\nstream.max_age: 2h\n")
	d.hangUp(t, "settings were read again")
	require.NoError(t, push("a2", "2"))
	require.True(t, api.IsStatus(push("a3", `"longer than ten"`), 413))
	require.Contains(t, d.log.String(), `"setting":"limits.max_queued_per_machine","from":"1","to":"2"`)
	require.Contains(t, d.log.String(), `"setting":"stream.max_age","in_force":"1h","wanted":"2h"`)
	require.Contains(t, d.log.String(), "needs a restart")
	require.Eventually(t, func() bool {
		_, err := d.client().Queue(t.Context())
		return err == nil && strings.Contains(d.log.String(), `"level":"debug"`)
	}, patience, 5*time.Millisecond, "the level is another: %s", d.log.String())

	// The sections for the world outside are wired at the start.
	write("log.format: json\nlimits.max_queued_per_machine: 2\nalerts:\n  every: 2m\n")
	d.hangUp(t, `"setting":"alerts"`)

	// A mistake changes nothing.
	write("limits.max_queued_per_machine: many\n")
	d.hangUp(t, "were not reloaded")
	require.True(t, api.IsStatus(push("a4", "4"), 429))
	write("log.format: json\n")
	d.hangUp(t, "settings were read again")
	require.NoError(t, push("a4", `"longer than ten"`), "the defaults are back")
}

// systemd is told when we are there, that we live, and when we go.
func TestSystemdIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	next := func() string {
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
		buf := make([]byte, 1024)
		n, err := conn.Read(buf)
		require.NoError(t, err)
		return string(buf[:n])
	}
	file := filepath.Join(t.TempDir(), "pushd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("log.format: json\nwatchdog.scan_interval: 50ms\n"), 0o600))
	d := startByFile(t, file, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=80000")
	require.Equal(t, "READY=1", next())
	for range 3 {
		require.Equal(t, "WATCHDOG=1", next())
	}
	require.Contains(t, d.log.String(), "at least twice watchdog.scan_interval")
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	message := next()
	for message == "WATCHDOG=1" {
		message = next()
	}
	require.True(t, strings.HasPrefix(message, "RELOADING=1\nMONOTONIC_USEC="), message)
	for message = next(); message == "WATCHDOG=1"; message = next() {
	}
	require.Equal(t, "READY=1", message)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGTERM))
	for message = next(); message == "WATCHDOG=1"; message = next() {
	}
	require.Equal(t, "STOPPING=1", message)
}

// Only a sweep is a sign of life: a server whose store hangs answers nothing, and
// is to be started anew, though its process lives.
func TestAServiceThatDoesNotSweepSendsNoSignOfLife(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer conn.Close()
	file := filepath.Join(t.TempDir(), "pushd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("log.format: json\nwatchdog.scan_interval: 1h\n"), 0o600))
	startByFile(t, file, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=80000")
	buf := make([]byte, 1024)
	n, err := conn.Read(buf)
	require.NoError(t, err)
	require.Equal(t, "READY=1", string(buf[:n]))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
	_, err = conn.Read(buf)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "without a sweep nothing is said")
}
