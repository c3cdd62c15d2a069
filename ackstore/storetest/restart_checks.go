package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// survives wants every action to be after a crash what it was before, but for
// what a crash itself means: what is in flight has lost its stream.
func (r *rig) survives() {
	r.Helper()
	before := map[string]ackstore.Record{}
	for _, a := range r.list(ackstore.Filter{}, 200) {
		before[a.ID] = durable(r.get(a.ID))
	}
	holds, breakers := r.overview().Holds, r.overview().Breakers
	r.reopen()
	after := r.list(ackstore.Filter{}, 200)
	require.Len(r, after, len(before), "actions after a crash")
	for _, a := range after {
		r.same(before[a.ID], durable(r.get(a.ID)), "%s after a crash", a.ID)
	}
	r.sameSet(holds, r.overview().Holds, "holds after a crash")
	r.sameSet(breakers, r.overview().Breakers, "breakers after a crash")
}

// durable is a record without what a new start may set.
func durable(rec *ackstore.Record) ackstore.Record {
	kept := *rec
	kept.LostSince = time.Time{}
	kept.WaitingFor = nil
	return kept
}

// restartChecks is what a crash leaves.
var restartChecks = []check{
	{"everything is what it was", func(r *rig) {
		l := r.attach(room(20))
		r.push(action("queued", lane("s")), action("behind", lane("s")), action("scheduled", delay(time.Hour)), action("done"), action("failed", lane("f")),
			action("gave_up", resends(0), orphan(time.Second)), action("doubt", once, orphan(time.Second)), action("retry", target("x")), action("released"),
			action("cancelled"), action("asked", orphan(time.Hour)), action("lost", orphan(time.Second)), action("config", target("y")))
		l.take()
		r.answers(ackstore.Settled, done("done", result(`{"n":1}`)))
		r.answers(ackstore.Settled, failed("failed", "permanent"))
		r.answers(ackstore.Retry, failed("retry", "quota"))
		r.answers(ackstore.Retry, failed("config", "config"))
		r.answers(ackstore.ReleasedBack, released("released", inAtLeast(time.Hour)))
		r.answers(ackstore.Accepted, working("queued", token(5)))
		r.cancel("cancelled")
		r.cancel("asked")
		r.hold(ackstore.OfReplay, "r", note("why"), until(r.clock.now().Add(time.Hour)))
		zero := 0
		r.credit("m1", &zero, true)
		r.pass(time.Second)
		r.is(ackstore.GaveUp, "gave_up")
		r.is(ackstore.InDoubt, "doubt")
		require.Len(r, r.overview().Breakers, 2)
		r.survives()
		r.survives()
		require.Equal(r, 0, r.machine("m1").Credit)
	}},
	{"nothing in flight moves before reconnect_grace, and acks are taken", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2", once), action("a3"), action("a4"))
		l.expect("a1", "a2", "a3", "a4")
		r.answers(ackstore.Accepted, received("a3"))
		r.clock.add(time.Hour) // the server was down
		r.reopen()
		r.pass(r.rules.ReconnectGrace - time.Millisecond)
		r.is(ackstore.InFlight, "a1", "a2", "a3", "a4")
		r.answers(ackstore.Settled, done("a4"))
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Millisecond)
		r.is(ackstore.InDoubt, "a2")
		require.True(r, r.get("a3").WaitingFor.Resend)
		require.Equal(r, ackstore.ByDisconnect, r.get("a3").Orphan)
		r.is(ackstore.InFlight, "a1")
		r.pass(r.rules.ReconnectGrace)
		require.True(r, r.get("a1").WaitingFor.Resend)
		require.Zero(r, r.get("a1").Attempts+r.get("a1").Resent())
	}},
	{"what was sent by poll is not lost sooner by a restart", func(r *rig) {
		r.push(action("a1"))
		r.polled("a1", 1)
		r.clock.add(time.Hour)
		r.reopen()
		r.pass(r.rules.ReconnectGrace - time.Millisecond)
		r.is(ackstore.InFlight, "a1")
	}},
	{"orphans and what waits for a retry stay so until somebody comes", func(r *rig) {
		r.waitsToBeResent()
		r.reopen()
		r.pass(time.Hour)
		require.Equal(r, []any{ackstore.Queued, 0}, []any{r.get("a1").State, r.get("a1").Resent()})
		r.credit("m1", nil, true)
		require.Equal(r, 1, r.attach(as("i2")).again("a1", 2).Resent)
	}},
	{"seq, event ids and deliveries go on", func(r *rig) {
		seq, event := uint64(0), uint64(0)
		for n := 1; n <= 4; n++ {
			id := fmt.Sprint("b", n)
			got := r.push(action(id), action("a1", lane("s"), resends(9)))
			require.Greater(r, got[0].Seq, seq)
			seq = got[0].Seq
			l := r.attach(as(fmt.Sprint("i", n)))
			for _, d := range l.take() {
				require.Greater(r, d.EventID, event)
				event = d.EventID
				if d.ActionID == "a1" {
					require.Equal(r, n, d.Delivery)
				}
			}
			r.done(id)
			r.reopen()
			require.Equal(r, event, r.machine("m1").LastEventID)
		}
	}},
	{"a dispatch that was not handed over when it crashed spends its number", func(r *rig) {
		l := r.attach()
		l.quiet()
		r.push(action("a1"))
		r.is(ackstore.InFlight, "a1")
		r.reopen()
		d := r.attach(last(0)).expect("a1")[0]
		require.Greater(r, d.Delivery, 1)
		require.Greater(r, d.EventID, uint64(1))
	}},
	{"the order of lanes, priorities and turns is kept", func(r *rig) {
		r.push(action("a1", lane("a")), action("a2", lane("a")), action("b1", lane("b")), action("x1"), action("x2"), action("p1", priority(5)))
		l := r.attach(room(1))
		for _, id := range []string{"p1", "a1", "b1", "a2", "x1", "x2"} {
			l.expect(id)
			r.done(id)
			r.reopen()
			l = r.attach(room(1), last(l.last), as("i1"))
		}
	}},
	{"a long queue keeps its order", func(r *rig) {
		var group []ackstore.NewAction
		for i := range 300 {
			group = append(group, action(fmt.Sprintf("a%03d", i), lane(fmt.Sprint("s", i%3))))
		}
		r.push(group...)
		r.reopen()
		l := r.attach(room(3))
		next := [3]int{0, 1, 2}
		for range 100 {
			for _, d := range l.take() {
				var n int
				_, err := fmt.Sscanf(d.ActionID, "a%d", &n)
				require.NoError(r, err)
				require.Equal(r, next[n%3], n)
				next[n%3] += 3
				r.done(d.ActionID)
			}
		}
		require.Equal(r, [3]int{300, 301, 302}, next)
	}},
	{"a duplicate is known after a crash", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.done("a1")
		r.reopen()
		got := r.push(action("a1"))[0]
		require.True(r, got.Duplicate)
		require.Equal(r, ackstore.Done, got.State)
		r.answers(ackstore.Duplicate, done("a1"))
	}},
	{"a clean close and a crash are the same to a reader", func(r *rig) {
		r.push(action("a1"), action("a2"))
		require.NoError(r, r.store.Close())
		r.store = r.open(r.host, r.dir, r.clock.now, r.heard)
		r.is(ackstore.Queued, "a1", "a2")
		r.attach().expect("a1", "a2")
	}},
}

// retentionChecks is what is forgotten, and when.
var retentionChecks = []check{
	{"done and cancelled go after their time, dead letters after theirs", func(r *rig) {
		l := r.attach()
		r.push(action("done"), action("dead"), action("open", delay(8760*time.Hour)), action("gone"))
		l.take()
		r.done("done")
		r.answers(ackstore.Settled, failed("dead", "permanent"))
		r.cancel("gone")
		r.answers(ackstore.Settled, cancelled("gone"))
		r.pass(r.rules.KeepSettled - time.Second)
		r.is(ackstore.Done, "done")
		r.is(ackstore.Cancelled, "gone")
		r.pass(2 * time.Second)
		r.unknown("done", "gone")
		r.is(ackstore.Failed, "dead")
		r.pass(r.rules.KeepDead - r.rules.KeepSettled)
		r.unknown("dead")
		r.is(ackstore.Scheduled, "open")
		require.Equal(r, []string{"open"}, names(r.list(ackstore.Filter{}, 10)))
	}},
	{"a tombstone still knows the id, its content and its end, and its acks are final", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.done("a1")
		r.pass(r.rules.KeepSettled + time.Second)
		r.unknown("a1")
		r.answers(ackstore.Unknown, done("a1"))
		got := r.push(action("a1"))[0]
		require.True(r, got.Duplicate)
		require.Equal(r, ackstore.Done, got.State)
		require.ErrorIs(r, r.tryPush(action("a1", payload("2"))).Err, ackstore.ErrConflict)
		r.reopen()
		require.True(r, r.push(action("a1"))[0].Duplicate)
		r.pass(r.rules.KeepTombstones)
		require.False(r, r.push(action("a1"))[0].Duplicate, "past the tombstone it is a new one")
	}},
	{"a redriven one is not forgotten by its first end", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1"))
		l.expect("a1")
		r.answers(ackstore.Settled, failed("a1", "permanent"))
		r.credit("m1", new(int), true)
		r.redrive("a1")
		r.pass(r.rules.KeepDead + time.Hour)
		r.is(ackstore.Queued, "a1")
	}},
}
