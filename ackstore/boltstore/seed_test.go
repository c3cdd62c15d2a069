package boltstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

// desk is a store whose clock is moved by hand, and one machine on it.
type desk struct {
	t     *testing.T
	dir   string
	mu    sync.Mutex
	now   time.Time
	s     *boltstore.Store
	lease ackstore.Lease
	last  uint64 // event id of the last dispatch read
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, dir: t.TempDir(), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	d.open()
	t.Cleanup(func() { require.NoError(t, d.s.Close()) })
	return d
}

func (d *desk) open() {
	s, err := boltstore.Open(boltstore.Config{Dir: d.dir, Now: d.clock})
	require.NoError(d.t, err)
	d.s = s
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	d.now = d.now.Add(by)
	d.mu.Unlock()
	_, err := d.s.Sweep(d.t.Context(), rules, 10_000)
	require.NoError(d.t, err)
}

func (d *desk) push(actions ...ackstore.NewAction) {
	pushed, err := d.s.Push(d.t.Context(), rules, [][]ackstore.NewAction{actions})
	require.NoError(d.t, err)
	require.NoError(d.t, pushed[0].Err)
}

// subscribe comes back as instance i1 with what it has read.
func (d *desk) subscribe(credit int) []ackstore.Held {
	last := d.last
	at, err := d.s.Attach(d.t.Context(), rules, []ackstore.AttachReq{{MachineID: "m1", InstanceID: "i1", LastEventID: &last, MaxInFlight: credit}})
	require.NoError(d.t, err)
	d.lease = at[0].Lease
	return at[0].InFlight
}

func (d *desk) read() []ackstore.Dispatch {
	var all []ackstore.Dispatch
	for {
		got, err := d.s.Claim(d.t.Context(), rules, []ackstore.ClaimReq{{Lease: d.lease}})
		require.NoError(d.t, err)
		require.NoError(d.t, got[0].Err)
		if len(got[0].Dispatches) == 0 {
			return all
		}
		all = append(all, got[0].Dispatches...)
		d.last = all[len(all)-1].EventID
	}
}

func (d *desk) ack(id string, v ackstore.Verb, delivery int) ackstore.AckResult {
	got, err := d.s.Settle(d.t.Context(), rules, []ackstore.Ack{{ActionID: id, Verb: v, Delivery: delivery}})
	require.NoError(d.t, err)
	return got[0]
}

func (d *desk) record(id string) ackstore.Record {
	rec, err := d.s.Get(d.t.Context(), rules, id)
	require.NoError(d.t, err)
	return rec
}

// A report that arrives in the same instant as the resend: whichever is first,
// the work is done once, and nothing goes out after the report was taken.
func TestAReportInTheInstantOfTheResend(t *testing.T) {
	d := newDesk(t)
	d.subscribe(1)
	d.read()
	resent := 0
	for round := range 1000 {
		id := fmt.Sprintf("a%d", round)
		d.push(job(id, "m1", "s"))
		require.Len(t, d.read(), 1)
		d.mu.Lock()
		d.now = d.now.Add(rules.OrphanTimeout)
		d.mu.Unlock()
		var both sync.WaitGroup
		both.Go(func() {
			_, err := d.s.Sweep(t.Context(), rules, 10)
			require.NoError(t, err)
		})
		var answer ackstore.AckResult
		both.Go(func() { answer = d.ack(id, ackstore.SaysDone, 1) })
		both.Wait()
		require.Equal(t, ackstore.Settled, answer.Outcome)
		require.Empty(t, d.read(), "bytes of %s after its report was taken", id)
		rec := d.record(id)
		require.Equal(t, ackstore.Done, rec.State)
		resent += rec.Resent()
	}
	t.Logf("in %d of 1000 rounds the resend was first", resent)
}

func TestASixtySecondNetworkCutBurnsNothing(t *testing.T) {
	d := newDesk(t)
	d.push(job("a1", "m1", "s"), job("a2", "m1", "s"))
	d.subscribe(1)
	require.Len(t, d.read(), 1)
	require.Equal(t, ackstore.Accepted, d.ack("a1", ackstore.SaysReceived, 1).Outcome)
	for range 3 { // and not one cut only
		require.NoError(t, d.s.Detach(t.Context(), rules, []ackstore.DetachReq{{Lease: d.lease}}))
		for range 60 {
			d.pass(time.Second)
		}
		held := d.subscribe(1)
		require.Equal(t, []ackstore.Held{{ActionID: "a1", Delivery: 1}}, held)
		require.Empty(t, d.read())
		rec := d.record("a1")
		require.Equal(t, []int{0, 0, 0, 1}, []int{rec.Attempts, rec.TransientAttempts, rec.Resent(), rec.Deliveries})
	}
	require.Equal(t, ackstore.Settled, d.ack("a1", ackstore.SaysDone, 1).Outcome)
	require.Len(t, d.read(), 1)
}

func TestARestartWithFiftyInFlightAndAThousandQueuedAsksNobody(t *testing.T) {
	d := newDesk(t)
	var all []ackstore.NewAction
	for i := range 1050 {
		all = append(all, job(fmt.Sprintf("a%04d", i), "m1", fmt.Sprintf("s%d", i%60)))
	}
	d.push(all...)
	d.subscribe(50)
	out := d.read()
	require.Len(t, out, 50)
	for _, o := range out[:25] {
		d.ack(o.ActionID, ackstore.SaysReceived, o.Delivery)
	}
	require.NoError(t, d.s.Close())
	d.open()
	d.pass(rules.ReconnectGrace / 2) // nobody is there, and nothing moves
	for _, o := range out {
		require.Equal(t, ackstore.InFlight, d.record(o.ActionID).State)
	}
	require.Len(t, d.subscribe(50), 50)
	require.Empty(t, d.read(), "all of it is in its agent's hands")
	for len(out) > 0 {
		for _, o := range out {
			require.Equal(t, ackstore.Settled, d.ack(o.ActionID, ackstore.SaysDone, o.Delivery).Outcome)
		}
		out = d.read()
	}
	for _, a := range all {
		rec := d.record(a.ActionID)
		require.Equal(t, []any{ackstore.Done, 1, 0, 0}, []any{rec.State, rec.Deliveries, rec.Resent(), rec.Attempts})
	}
}
