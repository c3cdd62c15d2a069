package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/server"
)

// logged waits for a line of the log that holds all of parts.
func (r *rig) logged(parts ...string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		for line := range strings.Lines(r.log.String()) {
			if all(line, parts) {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond, "no line of the log has %q", parts)
}

func all(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}

func TestAStreamIsLoggedWhenItEndsAndNotBefore(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	e := r.subscribe("m1", "")
	e.await("hb")
	require.NotContains(t, r.log.String(), `"route":"/events"`)
	e.cancel()
	r.logged(`"route":"/events"`, `"method":"GET"`, `"status":200`, `"machine":"m1"`, `"request":"`)
	require.NotContains(t, r.log.String(), `"bytes":0,"machine":"m1"`)
	require.Equal(t, 1, strings.Count(r.log.String(), `"route":"/events"`))
}

func TestCurlReadsAStreamToItsEnd(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not here")
	}
	for name, flag := range map[string]string{"HTTP/1.1": "--http1.1", "HTTP/1.0": "--http1.0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, options{})
			r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, curl, "-sSN", "-i", flag, "http://"+r.addr+"/events?machine_id=m1")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			var complaint strings.Builder
			cmd.Stderr = &complaint
			require.NoError(t, cmd.Start())
			var read strings.Builder
			lines := bufio.NewReader(out)
			for !strings.HasSuffix(read.String(), "event: action\n") { // in flight is not yet written: a stop would give it back
				line, err := lines.ReadString('\n')
				read.WriteString(line)
				require.NoError(t, err, "%s%s", read.String(), complaint.String())
			}
			r.stop()
			rest, err := io.ReadAll(lines)
			require.NoError(t, err)
			text := read.String() + string(rest)
			require.NoError(t, cmd.Wait(), complaint.String())
			for _, part := range []string{name + " 200 OK\r\n", "event: hello\n", "event: bye\ndata: {\"reason\":\"shutdown\""} {
				require.Contains(t, text, part)
			}
			require.True(t, strings.HasSuffix(text, "\n\n"), "curl has no complaint: %s", text)
		})
	}
}

// panicky is a store in which a claim for the machine m1 panics once.
type panicky struct {
	server.Store
	done atomic.Bool
}

func (p *panicky) Claim(ctx context.Context, r ackstore.Rules, reqs []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
	if reqs[0].Lease.MachineID == "m1" && p.done.CompareAndSwap(false, true) {
		panic("ouch")
	}
	return p.Store.Claim(ctx, r, reqs)
}

func TestAPanicInAStreamEndsThatStreamOnly(t *testing.T) {
	t.Parallel()
	r := start(t, options{store: func(s server.Store) server.Store { return &panicky{Store: s} }})
	other := r.subscribe("m2", "")
	other.await("hello")
	one := r.subscribe("m1", "")
	one.end()
	r.logged(`"panic":"ouch"`, `"route":"/events"`, "Claim")
	r.logged(`"route":"/events"`, `"machine":"m1"`, `"cause":"stream: panic: ouch"`)
	other.await("hb")
	again := r.subscribe("m1", "")
	again.await("hb")
}

// brittle is a listener that can break.
type brittle struct {
	net.Listener
	broken chan struct{}
}

func (b *brittle) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	select {
	case <-b.broken:
		return nil, errors.New("broken")
	default:
		return conn, err
	}
}

// A server whose listener breaks takes nothing new, but ends what is open as at
// any stop: nobody else would close connections that net/http has given away.
func TestStreamsAreEndedThoughTheListenerBreaks(t *testing.T) {
	t.Parallel()
	b := &brittle{broken: make(chan struct{})}
	r := start(t, options{listener: func(l net.Listener) net.Listener { b.Listener = l; return b }})
	e := r.subscribe("m1", "")
	e.await("hello")
	close(b.broken)
	conn, err := net.Dial("tcp", r.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.Contains(t, e.await("bye"), `"shutdown"`)
	e.end()
	err = <-r.ended
	r.ended <- err
	require.ErrorContains(t, err, "broken")
}
