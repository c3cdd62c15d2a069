package stream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/stream"
)

// fakeStore hands over what is put on it, in order, and keeps the promises of
// the port that this package stands on: epochs fence, a lease that finds nothing
// is parked, and a commit after that wakes.
type fakeStore struct {
	notifier *stream.Notifier

	mu       sync.Mutex
	epoch    map[string]uint64
	polls    map[string]string // instance that polls
	due      map[string][]ackstore.Dispatch
	cancels  map[string][]ackstore.CancelNote
	held     []ackstore.Held
	eventID  uint64
	parked   map[string]bool
	attached []ackstore.AttachReq
	detached []ackstore.DetachReq
	claims   int
	log      []string // attach and detach, in order

	claimErr  error
	detachErr error
	onClaim   func(empty bool) // after a claim, without the lock
	onDetach  func()           // after the first detach
	slow      time.Duration    // what a claim takes
	slowJoin  time.Duration    // what an attach takes
}

func newFakeStore() *fakeStore {
	return &fakeStore{
		notifier: stream.NewNotifier(), epoch: map[string]uint64{}, polls: map[string]string{}, due: map[string][]ackstore.Dispatch{},
		cancels: map[string][]ackstore.CancelNote{}, parked: map[string]bool{},
	}
}

func (f *fakeStore) Attach(ctx context.Context, _ ackstore.Rules, reqs []ackstore.AttachReq) ([]ackstore.Attached, error) {
	time.Sleep(f.slowJoin)
	f.mu.Lock()
	defer f.mu.Unlock()
	req := reqs[0]
	f.epoch[req.MachineID]++
	f.attached = append(f.attached, req)
	f.log = append(f.log, "attach "+req.StreamID)
	credit := max(req.MaxInFlight, 1)
	return []ackstore.Attached{{Lease: f.lease(req.MachineID), Credit: credit, OrphanTimeout: time.Minute, InFlight: f.held, Now: time.Now()}}, ctx.Err()
}

func (f *fakeStore) lease(machineID string) ackstore.Lease {
	return ackstore.Lease{MachineID: machineID, Epoch: f.epoch[machineID]}
}

func (f *fakeStore) Detach(_ context.Context, _ ackstore.Rules, reqs []ackstore.DetachReq) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.detachErr != nil {
		return f.detachErr
	}
	f.detached = append(f.detached, reqs[0])
	if f.onDetach != nil && len(f.detached) == 1 {
		f.onDetach()
	}
	f.log = append(f.log, fmt.Sprintf("detach %d", reqs[0].Lease.Epoch))
	return nil
}

func (f *fakeStore) Claim(ctx context.Context, _ ackstore.Rules, reqs []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
	time.Sleep(f.slow)
	got, err := f.claim(reqs[0])
	if f.onClaim != nil && err == nil {
		f.onClaim(len(got.Dispatches) == 0)
	}
	if err != nil {
		return nil, err
	}
	return []ackstore.Claimed{got}, ctx.Err()
}

func (f *fakeStore) claim(req ackstore.ClaimReq) (ackstore.Claimed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims++
	m := req.Lease.MachineID
	switch {
	case f.claimErr != nil:
		return ackstore.Claimed{}, f.claimErr
	case req.Lease.Epoch != f.epoch[m]:
		return ackstore.Claimed{Err: ackstore.ErrFenced}, nil
	}
	n := min(req.Max, len(f.due[m]))
	got := ackstore.Claimed{Dispatches: f.due[m][:n:n], Cancels: f.cancels[m]}
	f.due[m], f.cancels[m] = f.due[m][n:], nil
	f.parked[m] = n == 0
	return got, nil
}

func dispatchOf(machineID, id string, eventID uint64) ackstore.Dispatch {
	return ackstore.Dispatch{
		ActionID: id, MachineID: machineID, Type: "t", Payload: []byte(`{"x":1}`), Delivery: 1, EventID: eventID, DispatchedAt: time.Now(),
	}
}

// put commits actions for a machine.
func (f *fakeStore) put(machineID string, ids ...string) {
	f.mu.Lock()
	for _, id := range ids {
		f.eventID++
		f.due[machineID] = append(f.due[machineID], dispatchOf(machineID, id, f.eventID))
	}
	f.mu.Unlock()
	f.notifier.Wake(machineID)
}

func (f *fakeStore) cancel(machineID string, c ackstore.CancelNote) {
	f.mu.Lock()
	f.cancels[machineID] = append(f.cancels[machineID], c)
	f.mu.Unlock()
	f.notifier.Wake(machineID)
}

func (f *fakeStore) fail(claim, detach error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claimErr, f.detachErr = claim, detach
}

func (f *fakeStore) claimed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims
}

func (f *fakeStore) lastDetach(t *testing.T) ackstore.DetachReq {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	require.NotEmpty(t, f.detached)
	return f.detached[len(f.detached)-1]
}

func (f *fakeStore) story() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// wire is the response writer of a connection without buffers: what its reader
// has not taken has not been written.
type wire struct {
	net.Conn
	header  http.Header
	mu      sync.Mutex
	flushes int
	limit   time.Time // the write deadline in force
}

func (w *wire) Header() http.Header { return w.header }
func (w *wire) WriteHeader(int)     {}

func (w *wire) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushes++
	return nil
}

func (w *wire) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	w.limit = at
	w.mu.Unlock()
	return w.Conn.SetWriteDeadline(at)
}

func (w *wire) state() (flushes int, limit time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushes, w.limit
}

func newWire() (*wire, net.Conn) {
	client, server := net.Pipe()
	return &wire{Conn: server, header: http.Header{}}, client
}

// stage is one store with its registry, in a bubble.
type stage struct {
	*testing.T
	store    *fakeStore
	registry *stream.Registry
	config   stream.Config
}

func newStage(t *testing.T) *stage {
	store := newFakeStore()
	return &stage{T: t, store: store, registry: stream.NewRegistry(stream.RegistryConfig{}, store), config: stream.Config{Tally: new(stream.Tally)}}
}

func streamReq(instance, address string) ackstore.AttachReq {
	return ackstore.AttachReq{MachineID: "m1", InstanceID: instance, Address: address, MaxInFlight: 9}
}

func pollReq(instance, address string) ackstore.AttachReq {
	r := streamReq(instance, address)
	r.Via = ackstore.ViaPoll
	return r
}

// live is a stream that is running.
type live struct {
	*stage
	seat   *stream.Seat
	wire   *wire
	client net.Conn
	hangUp context.CancelFunc
	events chan got
	done   chan error // Run's
}

type got struct {
	stream.Event
	at time.Time
}

// open admits a stream, runs it, and reads it.
func (s *stage) open(req ackstore.AttachReq) *live {
	s.Helper()
	l := s.openUnread(req)
	go l.read()
	return l
}

// openUnread does not read.
func (s *stage) openUnread(req ackstore.AttachReq) *live {
	s.Helper()
	ctx, hangUp := context.WithCancel(context.Background())
	seat, err := s.registry.Admit(ctx, ackstore.Rules{}, req, "token-"+req.InstanceID)
	require.NoError(s, err)
	w, client := newWire()
	l := &live{stage: s, seat: seat, wire: w, client: client, hangUp: hangUp, events: make(chan got, 100_000), done: make(chan error, 1)}
	go func() {
		defer w.Close()
		l.done <- stream.NewSource(s.config, s.store, s.store.notifier).Run(ctx, seat, w)
	}()
	return l
}

func (l *live) read() {
	defer close(l.events)
	d := stream.NewDecoder(l.client)
	for {
		e, err := d.Next()
		if err != nil {
			return
		}
		l.events <- got{e, time.Now()}
	}
}

// next waits for the next event, heartbeats apart, and requires its name.
func (l *live) next(name string) got {
	l.Helper()
	for {
		e, ok := <-l.events
		require.True(l, ok, "stream ended, want %s", name)
		if e.Name == "hb" && name != "hb" {
			continue
		}
		require.Equal(l, name, e.Name)
		return e
	}
}

func (l *live) actions(ids ...string) (last got) {
	l.Helper()
	for _, id := range ids {
		last = l.next("action")
		var env struct {
			ActionID string `json:"action_id"`
		}
		require.NoError(l, json.Unmarshal(last.Data, &env))
		require.Equal(l, id, env.ActionID)
	}
	return last
}

// bye requires that the stream ends with reason, and returns what it said.
func (l *live) bye(reason stream.Reason) bye {
	l.Helper()
	var b bye
	require.NoError(l, json.Unmarshal(l.next("bye").Data, &b))
	require.Equal(l, string(reason), b.Reason)
	require.NoError(l, <-l.done)
	_, more := <-l.events
	require.False(l, more, "nothing comes after bye")
	return b
}

type bye struct {
	Reason  string
	RetryMS *int `json:"retry_ms"`
	Address string
}

// close hangs up and waits for the end.
func (l *live) close() {
	l.hangUp()
	<-l.done
	l.client.Close()
}

func refs(ids ...string) (all []ackstore.Ref) {
	for _, id := range ids {
		all = append(all, ackstore.Ref{ActionID: id, Delivery: 1})
	}
	return all
}
