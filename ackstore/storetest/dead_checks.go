package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// frozen pauses m1 by two give-ups in lanes of their own; a0 is still out.
func (r *rig) frozen() *line {
	r.Helper()
	l := r.attach()
	r.push(action("a0", orphan(time.Hour)),
		action("a1", lane("s1"), resends(0), skip), action("a2", lane("s2"), resends(0), skip))
	l.expect("a0", "a1", "a2")
	r.pass(r.rules.OrphanTimeout)
	r.is(ackstore.GaveUp, "a1", "a2")
	require.Equal(r, []string{ackstore.HeldNeedHelp}, r.causes(ackstore.OfMachine, "m1"))
	r.push(action("b1"))
	l.quiet()
	r.waitsFor("b1", "paused")
	return l
}

// twoInLane gives up a1 and a2 of lane s on m1 while b1 keeps the machine well;
// a3 and a4 are behind them.
func (r *rig) twoInLane() *line {
	r.Helper()
	l := r.attach()
	r.push(action("b1", orphan(24*time.Hour)))
	l.expect("b1")
	for i := 1; i <= 4; i++ {
		r.push(action(fmt.Sprint("a", i), lane("s"), skip, resends(0)))
	}
	for _, id := range []string{"a1", "a2"} {
		l.expect(id)
		r.answers(ackstore.Accepted, working("b1"))
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.GaveUp, id)
	}
	r.answers(ackstore.Accepted, working("b1"))
	return l
}

// deadClientChecks is the end of protocol section 8, and on_dead.
var deadClientChecks = []check{
	{"two give-ups in one lane pause it, on_dead skip or not", func(r *rig) {
		l := r.twoInLane()
		require.Equal(r, []string{ackstore.HeldNeedHelp}, r.causes(ackstore.OfSession, "s"))
		require.Empty(r, r.causes(ackstore.OfMachine, "m1"), "the machine itself is well")
		l.quiet()
		r.waitsFor("a3", "paused")
		label, err := r.store.Label(ctx, ackstore.OfSession, "s")
		require.NoError(r, err)
		require.Equal(r, "paused_need_help", label.Status)
		require.Equal(r, "m1", label.Holds[0].MachineID)
		r.unhold(ackstore.OfSession, "s")
		l.expect("a3")
	}},
	{"give-ups are counted anew after a resume", func(r *rig) {
		l := r.twoInLane()
		r.unhold(ackstore.OfSession, "s")
		l.expect("a3")
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.GaveUp, "a3")
		require.Empty(r, r.causes(ackstore.OfSession, "s"))
		l.expect("a4")
	}},
	{"give-ups far apart do not count together", func(r *rig) {
		l := r.attach()
		r.push(action("b1", orphan(24*time.Hour)), action("a1", lane("s"), skip, resends(0)))
		l.expect("b1", "a1")
		r.pass(r.rules.OrphanTimeout)
		r.answers(ackstore.Accepted, working("b1"))
		r.pass(time.Minute)
		r.push(action("a2", lane("s"), skip, resends(0)))
		l.expect("a2")
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.GaveUp, "a2")
		require.Empty(r, r.causes(ackstore.OfSession, "s"))
	}},
	{"the window scales with what a give-up takes", func(r *rig) {
		l := r.attach()
		r.push(action("b1", orphan(24*time.Hour)),
			action("a1", lane("s"), skip, resends(2), orphan(50*time.Second)), action("a2", lane("s"), skip, resends(2), orphan(50*time.Second)))
		l.expect("b1", "a1")
		for _, id := range []string{"a1", "a2"} {
			for range 3 { // 150 s apart, more than 60 s
				r.answers(ackstore.Accepted, working("b1"))
				r.pass(50 * time.Second)
				l.take()
			}
			r.is(ackstore.GaveUp, id)
		}
		require.Equal(r, []string{ackstore.HeldNeedHelp}, r.causes(ackstore.OfSession, "s"))
	}},
	{"give-ups of the same session on another machine are another lane's", func(r *rig) {
		for _, m := range []string{"m1", "m2"} {
			l := r.attach(on(m))
			r.push(action("a."+m, of(m), lane("s"), skip, resends(0)))
			l.expect("a." + m)
		}
		r.pass(r.rules.OrphanTimeout)
		require.Empty(r, r.causes(ackstore.OfSession, "s"))
	}},
	{"one give-up pauses its lane by default, on that machine only", func(r *rig) {
		l, other := r.attach(), r.attach(on("m2"))
		r.push(action("a1", lane("s"), resends(0)), action("a2", lane("s")), action("b1", of("m2"), lane("s")), action("b2", of("m2"), lane("s")))
		l.expect("a1")
		other.expect("b1")
		r.done("b1")
		other.expect("b2")
		r.pass(r.rules.OrphanTimeout)
		require.Equal(r, []string{ackstore.HeldOnDead}, r.causes(ackstore.OfSession, "s"))
		l.quiet()
		w := r.waitsFor("a2", "paused")
		require.Equal(r, []string{ackstore.HeldOnDead, "m1", "a1"}, []string{w.Hold.Cause, w.Hold.MachineID, w.Hold.ActionID})
		other.expect("b2")
		r.unhold(ackstore.OfSession, "s")
		l.expect("a2")
	}},
	{"without a session on_dead pauses nothing", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1"), action("a2"))
		l.expect("a1")
		r.answers(ackstore.Settled, failed("a1", "permanent"))
		l.expect("a2")
		require.Empty(r, r.overview().Holds)
	}},
	{"expired and cancelled never pause", func(r *rig) {
		r.push(action("a1", lane("s"), ttl(time.Second)), action("a2", lane("s")), action("a3", lane("s")))
		r.pass(time.Second)
		r.is(ackstore.Expired, "a1")
		r.cancel("a2")
		r.attach().expect("a3")
	}},
	{"two give-ups on one machine pause it, and its next ack lifts that", func(r *rig) {
		l := r.frozen()
		_, err := r.store.Beat(ctx, r.rules, []ackstore.Lease{l.lease})
		require.NoError(r, err)
		l.quiet() // a beat is not an ack
		r.answers(ackstore.Accepted, received("a0"))
		require.Empty(r, r.causes(ackstore.OfMachine, "m1"))
		l.expect("b1")
	}},
	{"another instance lifts a machine's pause, the same one does not", func(r *rig) {
		r.frozen()
		r.attach(last(1)).quiet()
		require.Equal(r, []string{ackstore.HeldNeedHelp}, r.causes(ackstore.OfMachine, "m1"))
		r.attach(as("i2")).expect("a0", "b1")
	}},
	{"an operator lifts it too", func(r *rig) {
		l := r.frozen()
		r.unhold(ackstore.OfMachine, "m1")
		l.expect("b1")
	}},
	{"an ack between two give-ups keeps the machine going", func(r *rig) {
		l := r.attach()
		r.push(action("a0", orphan(time.Hour)), action("a1", resends(0)))
		l.expect("a0", "a1")
		r.pass(r.rules.OrphanTimeout)
		r.answers(ackstore.Accepted, received("a0"))
		r.push(action("a2", resends(0)))
		l.expect("a2")
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.GaveUp, "a1", "a2")
		require.Empty(r, r.overview().Holds)
	}},
	{"a machine's pause by give-ups outlives a crash", func(r *rig) {
		r.frozen()
		r.reopen()
		require.Equal(r, []string{ackstore.HeldNeedHelp}, r.causes(ackstore.OfMachine, "m1"))
		r.attach(last(1)).quiet()
	}},
}

// timeChecks is available_at and expires_at.
var timeChecks = []check{
	{"a delay runs from the store's now, an instant is as it was sent", func(r *rig) {
		now := r.clock.now()
		r.push(action("a1", delay(time.Minute)), action("a2", func(a *ackstore.NewAction) { a.AvailableAt = now.Add(time.Hour) }),
			action("a3", orphan(time.Hour), func(a *ackstore.NewAction) { a.AvailableAt = now.Add(-time.Hour) }))
		require.True(r, r.get("a1").AvailableAt.Equal(now.Add(time.Minute)))
		require.True(r, r.get("a2").AvailableAt.Equal(now.Add(time.Hour)))
		r.is(ackstore.Scheduled, "a1", "a2")
		r.is(ackstore.Queued, "a3")
		r.waitsFor("a1", "available_at")
		l := r.attach()
		l.expect("a3")
		r.pass(time.Minute)
		l.expect("a1")
		r.pass(time.Hour)
		r.is(ackstore.InFlight, "a2")
	}},
	{"what is due without a stream is queued by the sweep", func(r *rig) {
		r.push(action("a1", delay(time.Minute)))
		r.pass(time.Minute)
		r.is(ackstore.Queued, "a1")
	}},
	{"what waits expires, what is out does not", func(r *rig) {
		now := r.clock.now()
		l := r.attach(room(1))
		r.push(action("out", ttl(time.Second)), action("a1", ttl(2*time.Second)), action("a2", func(a *ackstore.NewAction) { a.ExpiresAt = now.Add(3 * time.Second) }),
			action("a3", ttl(4*time.Second), delay(3*time.Second)))
		l.expect("out")
		require.Equal(r, 1, r.pass(2*time.Second).Expired)
		r.is(ackstore.Expired, "a1")
		r.is(ackstore.InFlight, "out")
		r.pass(time.Second)
		r.is(ackstore.Expired, "a2")
		r.pass(time.Second)
		r.is(ackstore.Expired, "a3")
		require.Equal(r, ackstore.ByWatchdog, r.get("a3").SettledBy)
		r.done("out")
	}},
	{"nothing past its expiry is sent, swept or not", func(r *rig) {
		r.push(action("a1", ttl(time.Second)), action("a2"))
		r.clock.add(time.Second)
		r.attach().expect("a2")
	}},
	{"an expired head opens its lane", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s")), action("a2", lane("s"), ttl(time.Second)), action("a3", lane("s")))
		l.expect("a1")
		r.pass(time.Second)
		r.is(ackstore.Expired, "a2")
		r.done("a1")
		l.expect("a3")
	}},
	{"a lost or failed one expires while it waits, and its lane goes on", func(r *rig) {
		l := r.attach()
		r.push(action("lost", lane("l"), ttl(time.Minute)), action("failed", lane("f"), ttl(time.Minute), target("x")), action("after lost", lane("l")), action("after failed", lane("f"), target("y")))
		l.expect("lost", "failed")
		r.answers(ackstore.Retry, failed("failed", "quota"))
		r.credit("m1", new(int), true)
		r.pass(r.rules.OrphanTimeout)
		r.pass(time.Minute)
		r.is(ackstore.Expired, "lost", "failed")
		require.Equal(r, []int{1, 0}, []int{r.get("lost").Deliveries, r.get("lost").Resent()})
		r.credit("m1", nil, true)
		l.expect("after lost", "after failed")
		require.Equal(r, ackstore.Done, r.answers(ackstore.Late, done("lost")).State)
		require.True(r, r.get("lost").Late)
	}},
}
