//go:build unix

package main_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
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
	cmd := exec.Command(filepath.Join(bin, "pushd"), "serve", "--config", file, "--listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	cmd.Env = append(clean(os.Environ()), environ...)
	return serveBy(t, cmd)
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

	// A mistake changes nothing.
	write("limits.max_queued_per_machine: many\n")
	d.hangUp(t, "were not reloaded")
	require.True(t, api.IsStatus(push("a4", "4"), 429))
	write("log.format: json\n")
	d.hangUp(t, "settings were read again")
	require.NoError(t, push("a4", `"longer than ten"`), "the defaults are back")
}

// routes is a settings file with one route of a secret, and what stands under it.
func routes(id, secret, rest string) string {
	return "log.format: json\nwebhooks:\n  routes:\n  - {id: " + id + ", source: token, secrets: ['file:" + secret +
		"'], actions: [{machine_id: m1, type: job}]}\n" + rest
}

// deliver answers the status of a delivery with a token.
func (d *daemon) deliver(t *testing.T, route, token string) int {
	t.Helper()
	req, err := http.NewRequest("POST", d.base+"/webhooks/"+route, strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

func TestSIGHUPTakesRoutesAndRules(t *testing.T) {
	t.Parallel()
	const first, second = "the-first-secret-of-them", "the-second-secret-of-all"
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "pushd.yaml"), filepath.Join(dir, "secret")
	write := func(path, body string) { require.NoError(t, os.WriteFile(path, []byte(body), 0o600)) }
	write(secret, first)
	write(file, "log.format: json\n")
	d := startByFile(t, file)
	require.Equal(t, 404, d.deliver(t, "ci", first))

	// A route that is new, with a rule for what follows.
	write(file, routes("ci", secret, "  - {id: next, source: settled, when: {action.type: job, action.state: done}, actions: [{machine_id: m2, type: after}]}\n"))
	d.hangUp(t, "settings were read again")
	require.Contains(t, d.log.String(), `"setting":"webhooks"`)
	require.Equal(t, 202, d.deliver(t, "ci", first))
	s := &story{t: t, d: d}
	var got api.Record
	var acked api.Acked
	s.post("/next?machine_id=m1&wait_s=20", "{}", &got)
	s.post("/acks", fmt.Sprintf(`{"action_id":%q,"status":"done"}`, got.ActionID), &acked)
	s.post("/next?machine_id=m2&wait_s=20", "{}", &got)
	require.Equal(t, "after", got.Type)

	// Another secret, in a file that the settings only name.
	write(secret, second)
	require.Equal(t, 202, d.deliver(t, "ci", first), "nobody has asked for the new one yet")
	d.hangUp(t, "these routes have other secrets now")
	require.Equal(t, 401, d.deliver(t, "ci", first))
	require.Equal(t, 202, d.deliver(t, "ci", second))
	require.NotContains(t, d.log.String(), second)
	page, err := d.client().Webhooks(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ci", page.Items[0].Route)
	require.Equal(t, 3, page.Items[0].Counts["queued"], "what came before counts on")

	// A mistake in a route, or an alert, changes nothing, not even what is well.
	for _, broken := range []string{
		strings.Replace(routes("other", secret, "limits.max_queued_per_machine: 1\n"), "source: token", "source: tokn", 1),
		routes("other", secret, "limits.max_queued_per_machine: 1\nalerts: {receivers: [{id: x, kind: pigeon}]}\n"),
	} {
		write(file, broken)
		d.hangUp(t, "were not reloaded")
		require.Equal(t, 404, d.deliver(t, "other", second))
		require.Equal(t, 202, d.deliver(t, "ci", second), "the queue's limit is the old one too")
	}

	// A delivery under way ends by the route that is removed meanwhile.
	host := strings.TrimPrefix(d.base, "http://")
	conn, err := net.Dial("tcp", host)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /webhooks/ci HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\nAuthorization: Bearer %s\r\n\r\n", host, second)
	require.NoError(t, err)
	answers := bufio.NewReader(conn)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue", "it reads the body: it has begun")
	write(file, "log.format: json\n")
	d.hangUp(t, "settings were read again")
	require.Equal(t, 404, d.deliver(t, "ci", second))
	_, err = answers.ReadString('\n')
	require.NoError(t, err)
	_, err = conn.Write([]byte("{}"))
	require.NoError(t, err)
	resp, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 202, resp.StatusCode)
}

func TestSIGHUPTakesAlerts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, told := filepath.Join(dir, "pushd.yaml"), filepath.Join(dir, "told")
	write := func(body string) { require.NoError(t, os.WriteFile(file, []byte(body), 0o600)) }
	write("log.format: json\n")
	d := startByFile(t, file)
	write("log.format: json\nalerts: {gather: 20ms, every: 20ms, receivers: [{id: local, kind: command, command: [sh, -c, 'cat > " + told + ".part && mv " + told + ".part " + told + "']}]}\n")
	d.hangUp(t, "settings were read again")
	require.Contains(t, d.log.String(), `"setting":"alerts"`)
	one := 1
	_, err := d.client().Push(t.Context(), api.Push{ActionID: "a1", MachineID: "m1", Type: "job", MaxAttempts: &one})
	require.NoError(t, err)
	s := &story{t: t, d: d}
	var got api.Record
	var acked api.Acked
	s.post("/next?machine_id=m1&wait_s=20", "{}", &got)
	s.post("/acks", `{"action_id":"a1","status":"failed","error":{"kind":"permanent"}}`, &acked)
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(told)
		return err == nil && strings.Contains(string(raw), "a1 on m1 failed")
	}, patience, 5*time.Millisecond)
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
