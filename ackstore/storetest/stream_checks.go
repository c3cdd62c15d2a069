package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// streamEndChecks is protocol section 7 on a stream that ends, with nobody back.
var streamEndChecks = []check{
	{"what no ack has named is an orphan after disconnect_grace", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2", once))
		l.expect("a1", "a2")
		l.end()
		r.pass(r.rules.DisconnectGrace - time.Millisecond)
		r.is(ackstore.InFlight, "a1", "a2")
		swept := r.pass(time.Millisecond)
		r.is(ackstore.Queued, "a1")
		r.is(ackstore.InDoubt, "a2")
		require.Equal(r, []int{2, 1}, []int{swept.Detected, swept.Doubted})
		rec := r.get("a1")
		require.Equal(r, []int{1, 0}, []int{rec.Deliveries, rec.Resent()}, "counters move when bytes go out")
		require.True(r, rec.WaitingFor.Resend)
		require.Equal(r, ackstore.ByDisconnect, rec.Orphan)
		require.Equal(r, 1, r.overview().Orphans)
		require.Equal(r, 1, r.attach(as("i2")).again("a1", 2).Resent)
		require.Zero(r, r.overview().Orphans)
	}},
	{"what was acked has reconnect_grace from the stream's end", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Minute)
		l.end()
		r.pass(r.rules.ReconnectGrace - time.Millisecond)
		r.is(ackstore.InFlight, "a1")
		r.pass(time.Millisecond)
		r.is(ackstore.Queued, "a1")
		require.Equal(r, ackstore.ByDisconnect, r.get("a1").Orphan)
	}},
	{"an ack after the stream's end starts reconnect_grace again", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2"))
		l.expect("a1", "a2")
		l.end()
		r.pass(5 * time.Second)
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(r.rules.DisconnectGrace)
		r.is(ackstore.Queued, "a2")
		r.pass(r.rules.ReconnectGrace - r.rules.DisconnectGrace - time.Millisecond)
		r.is(ackstore.InFlight, "a1")
		r.pass(time.Millisecond)
		r.is(ackstore.Queued, "a1")
	}},
	{"an offline machine uses up nothing", func(r *rig) {
		r.rules.MaxDisconnectResends = 1
		l := r.attach()
		r.push(action("a1", resends(0)), action("a2"))
		l.expect("a1", "a2")
		l.end()
		r.pass(24 * time.Hour)
		for _, id := range []string{"a1", "a2"} {
			rec := r.get(id)
			require.Equal(r, []any{ackstore.Queued, 0}, []any{rec.State, rec.Resent()})
		}
		r.waitsFor("a1", "machine_offline")
		r.attach(as("i2")).expect("a1", "a2")
	}},
	{"disconnects are counted and capped apart from timeouts", func(r *rig) {
		r.rules.MaxDisconnectResends = 2
		r.push(action("a1", resends(1)))
		r.attach(as("i1")).again("a1", 1)
		r.attach(as("i2")).again("a1", 2)
		l := r.attach(as("i3"))
		l.again("a1", 3)
		r.pass(r.rules.OrphanTimeout)
		require.Equal(r, 3, l.again("a1", 4).Resent)
		rec := r.get("a1")
		require.Equal(r, []int{1, 2}, []int{rec.ResentTimeout, rec.ResentDisconnect})
		r.attach(as("i4")).quiet()
		r.is(ackstore.GaveUp, "a1")
	}},
	{"unwritten deliveries go back uncounted, their numbers spent", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2", once), action("a3"))
		sent := l.expect("a1", "a2", "a3")
		l.end(ref(sent[1]), ref(sent[2]))
		r.is(ackstore.InFlight, "a1")
		r.is(ackstore.Queued, "a2", "a3")
		for _, id := range []string{"a2", "a3"} {
			rec := r.get(id)
			require.Equal(r, []int{1, 0, 0}, []int{rec.Delivery, rec.Deliveries, rec.Resent()})
			require.True(r, rec.FirstDispatchedAt.IsZero(), "nothing of it was ever sent")
		}
		l = r.attach(last(sent[0].EventID))
		for _, d := range l.expect("a2", "a3") {
			require.Equal(r, []int{2, 0}, []int{d.Delivery, d.Resent})
			require.Greater(r, d.EventID, sent[2].EventID)
		}
		require.Equal(r, 1, r.get("a2").Deliveries)
	}},
	{"unwritten deliveries of a fenced lease go back if they are still its own", func(r *rig) {
		old := r.attach()
		r.push(action("a1"))
		sent := old.expect("a1")[0]
		next := r.attach(as("i1"), last(0)) // judged: sent again
		next.again("a1", 2)
		old.end(ref(sent))
		rec := r.get("a1")
		require.Equal(r, []any{ackstore.InFlight, 2}, []any{rec.State, rec.Delivery}, "it is the newer lease's now")
	}},
	{"a quiet end leaves all in flight until the agent is back", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2"))
		event := l.expect("a1", "a2")[1].EventID
		l.detach(ackstore.DetachReq{Lease: l.lease, Quiet: true})
		r.pass(r.rules.DisconnectGrace)
		r.is(ackstore.InFlight, "a1", "a2")
		l = r.attach(last(event))
		l.holds(map[string]int{"a1": 1, "a2": 1})
	}},
	{"a delivery without a stream is still acked as if nothing had happened", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2"))
		l.expect("a1", "a2")
		l.end()
		r.answers(ackstore.Settled, done("a1"))
		r.answers(ackstore.Retry, failed("a2", "error"))
	}},
}

// polls is a poll of m1: it attaches, takes one and ends.
func (r *rig) polls(subs ...sub) (ackstore.Dispatch, bool) {
	r.Helper()
	l := r.attach(append([]sub{byPoll}, subs...)...)
	got := l.claim(1)
	require.NoError(r, got.Err)
	require.LessOrEqual(r, len(got.Dispatches), 1)
	l.end()
	if len(got.Dispatches) == 0 {
		return ackstore.Dispatch{}, false
	}
	return got.Dispatches[0], true
}

// polled wants a poll to bring an action under a delivery.
func (r *rig) polled(id string, number int, subs ...sub) uint64 {
	r.Helper()
	d, ok := r.polls(subs...)
	require.True(r, ok, "the poll brings nothing")
	require.Equal(r, id, d.ActionID)
	require.Equal(r, number, d.Delivery)
	return d.EventID
}

// nothing wants a poll to bring nothing.
func (r *rig) nothing(subs ...sub) {
	r.Helper()
	d, ok := r.polls(subs...)
	require.False(r, ok, "the poll brings %s", d.ActionID)
}

// pollChecks is protocol section 10.
var pollChecks = []check{
	{"next action, its ack, the next", func(r *rig) {
		r.push(action("a1"), action("a2"))
		first := r.polled("a1", 1, room(1))
		r.is(ackstore.InFlight, "a1")
		r.nothing(room(1), last(first))
		r.done("a1")
		require.Greater(r, r.polled("a2", 1, room(1), last(first)), first)
	}},
	{"a poll with room for more takes one and leaves the rest queued", func(r *rig) {
		r.push(action("a1"), action("a2"), action("a3"))
		event := r.polled("a1", 1, room(3))
		require.Zero(r, r.get("a2").Deliveries)
		event = r.polled("a2", 1+r.get("a2").Delivery, room(3), last(event))
		require.Equal(r, 1, r.get("a2").Deliveries)
		r.polled("a3", 1+r.get("a3").Delivery, room(3), last(event))
	}},
	{"a poll's delivery outlives the poll", func(r *rig) {
		r.push(action("a1"))
		r.polled("a1", 1)
		r.pass(r.rules.PollOrphanTimeout - time.Millisecond)
		r.is(ackstore.InFlight, "a1")
		r.pass(time.Millisecond)
		require.True(r, r.get("a1").WaitingFor.Resend)
		require.Equal(r, ackstore.ByTimeout, r.get("a1").Orphan)
		r.polled("a1", 2)
		require.Equal(r, 1, r.get("a1").ResentTimeout)
	}},
	{"the poller's own orphan timeout goes before the server's, the action's before both", func(r *rig) {
		r.push(action("a1"), action("a2", orphan(5*time.Second)))
		r.polled("a1", 1, within(9*time.Second))
		r.polled("a2", 1+r.get("a2").Delivery, within(9*time.Second))
		r.pass(5 * time.Second)
		r.is(ackstore.InFlight, "a1")
		r.is(ackstore.Queued, "a2")
		r.pass(4 * time.Second)
		r.is(ackstore.Queued, "a1")
	}},
	{"received by poll: no silence of polls ends it", func(r *rig) {
		r.push(action("a1"))
		r.polled("a1", 1)
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(r.rules.InactivityTimeout - time.Millisecond)
		r.is(ackstore.InFlight, "a1")
		require.Empty(r, r.get("a1").Stall)
		r.pass(time.Millisecond)
		require.Equal(r, "stalled", r.get("a1").Stall)
		r.pass(r.rules.CancelGrace)
		require.Equal(r, 1, r.get("a1").Attempts)
	}},
	{"received by poll: a poll or a stream of a new instance ends it", func(r *rig) {
		r.push(action("a1"))
		r.polled("a1", 1, as("i1"))
		r.answers(ackstore.Accepted, received("a1"))
		r.polled("a1", 2, as("i2"))
		r.answers(ackstore.Accepted, received("a1"))
		r.attach(as("i3")).again("a1", 3)
	}},
	{"a poll without an instance judges nothing", func(r *rig) {
		r.push(action("a1"), action("a2"))
		r.polled("a1", 1, as(""), room(2))
		r.polled("a2", 1+r.get("a2").Delivery, as(""), room(2))
		for range 3 {
			r.nothing(as(""), room(2))
			r.nothing(as(""), room(2), last(0))
		}
		r.is(ackstore.InFlight, "a1", "a2")
	}},
	{"a poll without Last-Event-ID judges only for a new instance", func(r *rig) {
		r.push(action("a1"))
		r.polled("a1", 1, as("i1"), room(1))
		r.nothing(as("i1"), room(1))
		r.is(ackstore.InFlight, "a1")
		r.polled("a1", 2, as("i2"), room(1))
	}},
	{"what the poller never got comes again, at_most_once too", func(r *rig) {
		r.push(action("a1", once))
		event := r.polled("a1", 1, room(1))
		require.Equal(r, event, r.get("a1").EventID)
		r.polled("a1", 2, room(1), last(event-1))
	}},
	{"polls of one instance share a lease", func(r *rig) {
		for _, instance := range []string{"i1", ""} {
			one := r.attach(byPoll, as(instance), on("of "+instance), room(2))
			one.quiet()
			two := r.attach(byPoll, as(instance), on("of "+instance), room(2))
			require.Equal(r, one.lease, two.lease)
		}
	}},
	{"what one poll is still being answered with, another of the instance does not lose", func(r *rig) {
		r.push(action("a1"))
		one := r.attach(byPoll, room(2))
		require.Equal(r, []string{"a1"}, idsOf(one.claim(1).Dispatches))
		two := r.attach(byPoll, room(2), last(0))
		require.Empty(r, idsOf(two.claim(1).Dispatches))
		require.Equal(r, []any{ackstore.InFlight, 1}, []any{r.get("a1").State, r.get("a1").Delivery})
		one.end()
		two.end()
		r.polled("a1", 2, room(2), last(0)) // its answer was lost on the way
	}},
	{"a poll of another instance, or a stream, takes the place", func(r *rig) {
		one := r.attach(byPoll, as("i1"))
		two := r.attach(byPoll, as("i2"))
		require.ErrorIs(r, one.claim(1).Err, ackstore.ErrFenced)
		three := r.attach(as("i2"))
		require.ErrorIs(r, two.claim(1).Err, ackstore.ErrFenced)
		four := r.attach(byPoll, as("i2"))
		require.ErrorIs(r, three.claim(1).Err, ackstore.ErrFenced)
		four.quiet()
	}},
	{"event ids go on between poll and stream", func(r *rig) {
		r.push(action("a1"), action("a2"))
		event := r.polled("a1", 1, room(1))
		r.done("a1")
		require.Greater(r, r.attach(last(event)).expect("a2")[0].EventID, event)
	}},
	{"a poller is online for reconnect_grace after its last poll or ack", func(r *rig) {
		r.push(action("a1"))
		r.polled("a1", 1)
		require.Equal(r, ackstore.Online, r.machine("m1").Presence)
		for range 2 {
			r.pass(r.rules.ReconnectGrace - time.Second)
			require.Equal(r, ackstore.Online, r.machine("m1").Presence)
			r.ack(received("a1"))
		}
		r.pass(r.rules.ReconnectGrace + time.Second)
		require.NotEqual(r, ackstore.Online, r.machine("m1").Presence)
	}},
	{"a poller is so over a new start too", func(r *rig) {
		r.push(action("a1"))
		r.polled("a1", 1)
		seen := r.machine("m1").LastSeenAt
		r.reopen()
		require.Equal(r, ackstore.Online, r.machine("m1").Presence)
		r.pass(r.rules.ReconnectGrace + time.Second)
		m := r.machine("m1")
		require.Equal(r, ackstore.Offline, m.Presence)
		require.Equal(r, seen.Add(r.rules.ReconnectGrace).UTC(), m.Since.UTC())
	}},
}
