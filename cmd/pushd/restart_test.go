//go:build unix

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
	"pushd/stream"
)

// condition is what an agent of the flotilla has when its server restarts.
type condition int

const (
	hasNothing condition = iota
	hasAcked             // work that it has acked received
	hasRead              // work that it has read and not acked: its Last-Event-ID says so
	hasMissed            // work that was sent and that it has not read
	conditions           // how many there are
)

// A fleet whose server restarts comes back spread over time, goes on with what it
// has, and is sent again only what it never read. Not parallel: it is about
// seconds.
func TestAFleetComesBackFromARestartSpreadAndWithItsWork(t *testing.T) {
	dir := t.TempDir()
	f := newFlotilla(fleetSize(t))
	d := serve(t, dir, "stream.heartbeat=10s")
	f.base.Store(&d.base)
	f.push(t, d.client())
	f.subscribe()
	defer f.leave()
	f.await(t, "has subscribed")
	f.answer(t, d.client(), "received", "accepted", hasAcked)

	require.NoError(t, d.stop())
	d = serve(t, dir, "stream.heartbeat=10s")
	f.base.Store(&d.base)
	f.await(t, "has come back")
	f.requireSpread(t)
	f.answer(t, d.client(), "done", "settled", hasAcked, hasRead, hasMissed)
	f.leave() // what was sent again although it should not be has come by now
	require.Empty(t, f.faults)
	f.requireRecords(t, d.client())
}

// fleetSize is how many agents this machine can be asked for.
func fleetSize(t *testing.T) int {
	t.Helper()
	const spare = 300
	n := 2000
	if raceEnabled {
		n = 500
	}
	var files syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if files.Cur < uint64(n+spare) {
		require.Greater(t, files.Cur, uint64(2*spare), "ulimit -n is too low for any fleet")
		t.Logf("ulimit -n is %d: %d agents instead of %d", files.Cur, files.Cur-spare, n)
		n = int(files.Cur - spare)
	}
	return n
}

// flotilla is many agents in this process, each with a connection of its own.
type flotilla struct {
	agents  []*shipmate
	base    atomic.Pointer[string] // where the server is
	http    *http.Client
	settled chan *shipmate // one that said hello and has what it was to be sent
	end     context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex
	faults []string
}

// shipmate is one agent. Its own goroutine writes it, until it is settled.
type shipmate struct {
	id       string
	has      condition
	last     string // Last-Event-ID
	delivery int    // the newest that was sent
	life     int    // how many streams have said hello
	left     time.Time
	returned time.Time // when it asked for the stream that it got
	refused  int
}

func (s *shipmate) action() string { return "a-" + s.id }

func newFlotilla(n int) *flotilla {
	f := &flotilla{settled: make(chan *shipmate, n), http: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	for i := range n {
		f.agents = append(f.agents, &shipmate{id: fmt.Sprintf("m%04d", i), has: condition(i) % conditions})
	}
	return f
}

func (f *flotilla) fault(s *shipmate, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, s.id+": "+fmt.Sprintf(format, args...))
}

// push gives work to all that are to have some.
func (f *flotilla) push(t *testing.T, c *api.Client) {
	t.Helper()
	var all []api.Push
	for _, s := range f.agents {
		if s.has != hasNothing {
			all = append(all, api.Push{ActionID: s.action(), MachineID: s.id, Type: "job"})
		}
	}
	for some := range slices.Chunk(all, 100) {
		_, err := c.PushAll(t.Context(), some)
		require.NoError(t, err)
	}
}

func (f *flotilla) subscribe() {
	ctx, cancel := context.WithCancel(context.Background())
	f.end = cancel
	for _, s := range f.agents {
		f.wg.Go(func() { f.sail(ctx, s) })
	}
}

// leave ends all agents.
func (f *flotilla) leave() {
	f.end()
	f.wg.Wait()
	f.http.CloseIdleConnections()
}

// await waits until every agent is settled in a stream.
func (f *flotilla) await(t *testing.T, what string) {
	t.Helper()
	late := time.After(patience)
	for n := range f.agents {
		select {
		case <-f.settled:
		case <-late:
			f.mu.Lock()
			defer f.mu.Unlock()
			require.FailNow(t, "some are missing", "only %d of %d %s; faults: %v", n, len(f.agents), what, f.faults)
		}
	}
}

// sail keeps an agent subscribed, waiting as long as it is told and, when there
// is nobody to ask, longer and at random.
func (f *flotilla) sail(ctx context.Context, s *shipmate) {
	wait := time.Second
	for ctx.Err() == nil {
		asked := time.Now()
		resp, err := (&api.Client{Base: *f.base.Load(), HTTP: f.http}).Subscribe(ctx, api.Subscription{MachineID: s.id, InstanceID: "i-" + s.id, LastEventID: s.last})
		if err == nil {
			s.returned = asked
			wait = f.listen(ctx, s, stream.NewDecoder(resp.Body))
			_ = resp.Body.Close() // it has ended
		} else {
			s.refused++
			wait += rand.N(2 * wait)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// listen reads a stream to its end and returns how long its server asks to wait.
func (f *flotilla) listen(ctx context.Context, s *shipmate, events *stream.Decoder) time.Duration {
	for {
		event, err := events.Next()
		if err != nil {
			if ctx.Err() == nil {
				f.fault(s, "its stream ended without a bye: %v", err)
			}
			return time.Second
		}
		switch event.Name {
		case "hello":
			f.hello(s, event.Data)
		case "action":
			f.take(s, event)
		case "bye":
			return f.bye(s, event.Data)
		}
	}
}

// hello says what the server holds to be in flight here.
func (f *flotilla) hello(s *shipmate, data []byte) {
	var hello struct {
		InFlight []struct {
			ActionID string `json:"action_id"`
			Delivery int    `json:"delivery"`
		} `json:"in_flight"`
	}
	if err := json.Unmarshal(data, &hello); err != nil {
		f.fault(s, "hello: %v", err)
	}
	s.life++
	keeps := s.life == 2 && (s.has == hasAcked || s.has == hasRead)
	switch in := hello.InFlight; {
	case keeps && (len(in) != 1 || in[0].ActionID != s.action() || in[0].Delivery != 1):
		f.fault(s, "it has its work, and is told %s", data)
	case !keeps && len(in) > 0:
		f.fault(s, "it has no work, and is told %s", data)
	}
	if keeps || s.has == hasNothing {
		f.settled <- s
	}
}

// take reads an action; who misses it the first time keeps its Last-Event-ID.
func (f *flotilla) take(s *shipmate, event stream.Event) {
	var action struct {
		ActionID string `json:"action_id"`
		Delivery int    `json:"delivery"`
	}
	if err := json.Unmarshal(event.Data, &action); err != nil {
		f.fault(s, "action: %v", err)
	}
	due := s.life == 1 && s.has != hasNothing || s.life == 2 && s.has == hasMissed
	if !due || s.delivery >= s.life || action.ActionID != s.action() || action.Delivery != s.life {
		f.fault(s, "in its stream %d it was sent %s", s.life, event.Data)
		return
	}
	s.delivery = action.Delivery
	if s.has != hasMissed || s.life == 2 {
		s.last = event.ID
	}
	f.settled <- s
}

func (f *flotilla) bye(s *shipmate, data []byte) time.Duration {
	var bye struct {
		Reason  string `json:"reason"`
		RetryMS int64  `json:"retry_ms"`
	}
	if err := json.Unmarshal(data, &bye); err != nil || bye.Reason != "shutdown" || bye.RetryMS <= 0 {
		f.fault(s, "bye %s: %v", data, err)
	}
	s.left = time.Now()
	return time.Duration(bye.RetryMS) * time.Millisecond
}

// answer acks the newest delivery of each agent that has one of the conditions.
func (f *flotilla) answer(t *testing.T, c *api.Client, status, outcome string, has ...condition) {
	t.Helper()
	var all []api.Ack
	for _, s := range f.agents {
		if slices.Contains(has, s.has) {
			all = append(all, api.Ack{ActionID: s.action(), Status: status, Delivery: s.delivery})
		}
	}
	for some := range slices.Chunk(all, 100) {
		answers, err := c.AckAll(t.Context(), some)
		require.NoError(t, err)
		for _, a := range answers {
			require.Equal(t, outcome, a.Outcome, a.ActionID)
		}
	}
}

// requireSpread: no second, wherever it begins, sees more than a quarter return.
func (f *flotilla) requireSpread(t *testing.T) {
	t.Helper()
	var back []time.Time
	refused := 0
	first := f.agents[0].left
	for _, s := range f.agents {
		back = append(back, s.returned)
		refused += s.refused
		if s.left.Before(first) {
			first = s.left
		}
	}
	slices.SortFunc(back, time.Time.Compare)
	most, begin := 0, 0
	for i, at := range back {
		for at.Sub(back[begin]) >= time.Second {
			begin++
		}
		most = max(most, i-begin+1)
	}
	t.Logf("%d agents were back between %v and %v after the first bye, at most %d within a second; %d tries found no server",
		len(back), back[0].Sub(first).Round(time.Millisecond), back[len(back)-1].Sub(first).Round(time.Millisecond), most, refused)
	require.LessOrEqual(t, most, len(back)/4, "they come back in a crowd")
}

// requireRecords: all work is done, by one delivery, or by two where the first
// was missed.
func (f *flotilla) requireRecords(t *testing.T, c *api.Client) {
	t.Helper()
	deliveries := map[string]int{}
	cursor := ""
	for {
		page, err := c.Actions(t.Context(), api.ActionFilter{Limit: 1000, Cursor: cursor})
		require.NoError(t, err)
		for _, r := range page.Items {
			require.Equal(t, "done", r.State, r.ActionID)
			require.Equal(t, r.Deliveries-1, r.ResentCount, r.ActionID)
			deliveries[r.ActionID] = r.Deliveries
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	want := map[string]int{}
	for _, s := range f.agents {
		switch s.has {
		case hasAcked, hasRead:
			want[s.action()] = 1
		case hasMissed:
			want[s.action()] = 2
		}
	}
	require.Equal(t, want, deliveries)
}
