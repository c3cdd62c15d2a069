package main_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pushd/server/api"
)

// Agents whose packets go nowhere from one moment on, with no FIN, are found by
// the settings that people have: their streams end, and what they held is judged.
func TestPeersThatVanishAreFoundWithinAMinute(t *testing.T) {
	t.Parallel()
	const agents = 20
	sea := newStrait(t)
	d := sea.serve(t, "stream.heartbeat=15s", "stream.disconnect_grace=10s")
	c := &api.Client{Base: d.base, HTTP: &http.Client{Transport: &http.Transport{DialContext: sea.near.dial}}}
	require.NoError(t, c.Ready(t.Context()))
	for i := range agents {
		_, err := c.Push(t.Context(), api.Push{ActionID: fmt.Sprint("a", i), MachineID: fmt.Sprint("m", i), Type: "job"})
		require.NoError(t, err)
		sea.hold(t, d, fmt.Sprint("m", i))
	}
	require.Equal(t, fmt.Sprint(agents), openStreams(t, c))

	sea.cut(t)
	cut := time.Now()
	left := func() time.Duration { return time.Minute - time.Since(cut) }
	require.Eventually(t, func() bool { return openStreams(t, c) == "0" }, left(), 250*time.Millisecond, "streams of agents that are gone")
	t.Logf("no stream is left after %v", time.Since(cut).Round(time.Millisecond))
	require.Eventually(t, func() bool {
		w, err := c.Watchdog(t.Context())
		return err == nil && w.CurrentOrphanCount == agents
	}, left(), 250*time.Millisecond, "what they held is not judged")
	t.Logf("all are orphans after %v", time.Since(cut).Round(time.Millisecond))
}

var streamsOpen = regexp.MustCompile(`(?m)^pushd_streams_open (\S+)$`)

func openStreams(t *testing.T, c *api.Client) string {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.Base+"/metrics", nil)
	require.NoError(t, err)
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if found := streamsOpen.FindSubmatch(text); err == nil && found != nil {
		return string(found[1])
	}
	return "unknown"
}

// strait is two network namespaces with a cable between them: the server is on
// the near side, the agents are on the far one.
type strait struct{ near, far namespace }

const (
	nearAddress, farAddress = "10.211.77.1", "10.211.77.2"
	nearMAC, farMAC         = "02:00:00:70:64:01", "02:00:00:70:64:02"
)

func newStrait(t *testing.T) *strait {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	s := &strait{near: namespace(fmt.Sprintf("pushd-near-%d", os.Getpid())), far: namespace(fmt.Sprintf("pushd-far-%d", os.Getpid()))}
	for _, n := range []namespace{s.near, s.far} {
		if out, err := ip("netns", "add", string(n)); err != nil {
			t.Skipf("no network namespace can be made here (%s); it takes root", out)
		}
		t.Cleanup(func() { s.remove(t, n) })
	}
	for _, line := range []string{
		"-n NEAR link add name cable address " + nearMAC + " type veth peer name cable netns FAR address " + farMAC,
		"-n NEAR addr add " + nearAddress + "/30 dev cable",
		"-n FAR addr add " + farAddress + "/30 dev cable",
		"-n NEAR link set lo up", "-n NEAR link set cable up", "-n FAR link set cable up",
		// With no ARP it is TCP that has to notice.
		"-n NEAR neigh replace " + farAddress + " lladdr " + farMAC + " dev cable nud permanent",
	} {
		s.ip(t, line)
	}
	return s
}

func (s *strait) remove(t *testing.T, n namespace) {
	out, err := ip("netns", "del", string(n))
	require.NoError(t, err, out)
}

func (s *strait) ip(t *testing.T, line string) {
	t.Helper()
	out, err := ip(strings.Fields(strings.NewReplacer("NEAR", string(s.near), "FAR", string(s.far)).Replace(line))...)
	if err != nil && strings.Contains(line, "type veth") {
		t.Skipf("no veth can be made here: %s", out)
	}
	require.NoError(t, err, "ip %s: %s", line, out)
}

func ip(line ...string) (string, error) {
	out, err := exec.Command("ip", line...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// cut makes all that the far side sends vanish, acknowledgements too.
func (s *strait) cut(t *testing.T) {
	t.Helper()
	s.ip(t, "-n FAR route add blackhole "+nearAddress+"/32")
}

// serve starts a server on the near side.
func (s *strait) serve(t *testing.T, set ...string) *daemon {
	t.Helper()
	var d *daemon
	err := s.near.do(func() (err error) {
		d, err = startAt(nearAddress+":0", t.TempDir(), append(set, "auth.insecure=true")...)
		return err
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.stop()) })
	address, err := d.listens()
	require.NoError(t, err)
	d.base = "http://" + address
	return d
}

// hold opens the stream of a machine from the far side and reads until it has
// its action. It stays open.
func (s *strait) hold(t *testing.T, d *daemon, machine string) {
	t.Helper()
	host := strings.TrimPrefix(d.base, "http://")
	conn, err := s.far.dial(t.Context(), "tcp", host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // its peer is out of reach
	_, err = fmt.Fprintf(conn, "GET /events?machine_id=%s&instance_id=i1 HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", machine, host)
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if lines.Text() == "event: action" {
			return
		}
	}
	require.FailNow(t, "the stream brings no action", "%v", lines.Err())
}

// namespace is the name of a network namespace, as ip-netns(8) has it.
type namespace string

// do calls f within the namespace, on a thread that ends with it.
func (n namespace) do(f func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is of no use to others
		file, err := os.Open("/run/netns/" + string(n))
		if err != nil {
			ended <- err
			return
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			ended <- os.NewSyscallError("setns", err)
			return
		}
		ended <- f()
	}()
	return <-ended
}

// dial connects from within the namespace. A socket belongs to that of the thread
// that made it, for good.
func (n namespace) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.do(func() (err error) {
		conn, err = (&net.Dialer{Timeout: patience}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
