package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// line is an agent's stream or poll at the port.
type line struct {
	r     *rig
	lease ackstore.Lease
	hello ackstore.Attached
	told  []ackstore.CancelNote // cancels since the last look at them
	last  uint64                // newest event id that came
}

// sub is a field of an AttachReq that a check gives.
type sub func(*ackstore.AttachReq)

func as(instance string) sub       { return func(q *ackstore.AttachReq) { q.InstanceID = instance } }
func on(machine string) sub        { return func(q *ackstore.AttachReq) { q.MachineID = machine } }
func room(n int) sub               { return func(q *ackstore.AttachReq) { q.MaxInFlight = n } }
func last(id uint64) sub           { return func(q *ackstore.AttachReq) { q.LastEventID = &id } }
func within(d time.Duration) sub   { return func(q *ackstore.AttachReq) { q.OrphanTimeout = d } }
func byPoll(q *ackstore.AttachReq) { q.Via = ackstore.ViaPoll }

// attach begins a stream of m1 as instance i1 with room for nine.
func (r *rig) attach(subs ...sub) *line {
	r.Helper()
	req := ackstore.AttachReq{MachineID: "m1", InstanceID: "i1", StreamID: "s", Address: "10.0.0.1", MaxInFlight: 9}
	for _, s := range subs {
		s(&req)
	}
	got, err := r.store.Attach(ctx, r.rules, []ackstore.AttachReq{req})
	require.NoError(r, err, "Attach")
	require.Len(r, got, 1)
	require.Equal(r, req.MachineID, got[0].Lease.MachineID)
	require.True(r, got[0].Now.Equal(r.clock.now()), "Attach answers with the store's now")
	return &line{r: r, lease: got[0].Lease, hello: got[0]}
}

// claim is one Claim.
func (l *line) claim(most int) ackstore.Claimed {
	l.r.Helper()
	got, err := l.r.store.Claim(ctx, l.r.rules, []ackstore.ClaimReq{{Lease: l.lease, Max: most}})
	require.NoError(l.r, err, "Claim")
	require.Len(l.r, got, 1)
	l.told = append(l.told, got[0].Cancels...)
	for _, d := range got[0].Dispatches {
		require.Greater(l.r, d.EventID, l.last, "event ids grow")
		l.last = d.EventID
	}
	return got[0]
}

// take claims until nothing is left, which parks the lease.
func (l *line) take() []ackstore.Dispatch {
	l.r.Helper()
	var all []ackstore.Dispatch
	for range 10_000 {
		got := l.claim(0)
		require.NoError(l.r, got.Err, "Claim")
		if len(got.Dispatches)+len(got.Cancels) == 0 {
			return all
		}
		all = append(all, got.Dispatches...)
	}
	require.Fail(l.r, "Claim hands over for ever")
	return nil
}

// expect takes all and wants just these actions in this order.
func (l *line) expect(ids ...string) []ackstore.Dispatch {
	l.r.Helper()
	got := l.take()
	require.Equal(l.r, ids, idsOf(got), "dispatches")
	return got
}

// again wants one action and nothing else, under a delivery.
func (l *line) again(id string, number int) ackstore.Dispatch {
	l.r.Helper()
	d := l.expect(id)[0]
	require.Equal(l.r, number, d.Delivery, "delivery of %s", id)
	return d
}

// quiet wants nothing to be sent.
func (l *line) quiet() {
	l.r.Helper()
	require.Empty(l.r, idsOf(l.take()), "dispatches")
}

// stops takes all and wants just these cancels to be told.
func (l *line) stops(reasons map[string]string) {
	l.r.Helper()
	l.take()
	got := map[string]string{}
	for _, n := range l.told {
		got[n.ActionID] = n.Reason
	}
	for id, reason := range reasons {
		require.Contains(l.r, got, id, "a cancel is told")
		if reason != "" {
			require.Equal(l.r, reason, got[id], "the reason of the cancel of %s", id)
		}
	}
	require.Len(l.r, got, len(reasons), "cancels %v", got)
	l.told = nil
}

// end ends the stream; unwritten are deliveries that never left.
func (l *line) end(unwritten ...ackstore.Ref) {
	l.r.Helper()
	l.detach(ackstore.DetachReq{Lease: l.lease, Unwritten: unwritten})
}

func (l *line) detach(q ackstore.DetachReq) {
	l.r.Helper()
	require.NoError(l.r, l.r.store.Detach(ctx, l.r.rules, []ackstore.DetachReq{q}), "Detach")
}

// holds wants hello to list just these deliveries as still in flight.
func (l *line) holds(want map[string]int) {
	l.r.Helper()
	got := map[string]int{}
	for _, h := range l.hello.InFlight {
		got[h.ActionID] = h.Delivery
	}
	require.Equal(l.r, want, got, "hello.in_flight")
}

func idsOf(ds []ackstore.Dispatch) []string {
	ids := []string{}
	for _, d := range ds {
		ids = append(ids, d.ActionID)
	}
	return ids
}

func ref(d ackstore.Dispatch) ackstore.Ref {
	return ackstore.Ref{ActionID: d.ActionID, Delivery: d.Delivery}
}
