package storetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// scopes are the three that a pause may hold, as a1 of m1 meets them.
var scopes = map[ackstore.Scope]string{ackstore.OfMachine: "m1", ackstore.OfSession: "s1", ackstore.OfReplay: "r1"}

// dead leaves s1 on m1 paused on_dead by a1, which was given up, a2 behind it.
func (r *rig) dead() *line {
	r.Helper()
	l := r.attach()
	r.push(action("a1", lane("s1"), resends(0)), action("a2", lane("s1")))
	l.expect("a1")
	r.pass(r.rules.OrphanTimeout)
	r.is(ackstore.GaveUp, "a1")
	require.Equal(r, []string{ackstore.HeldOnDead}, r.causes(ackstore.OfSession, "s1"))
	l.quiet()
	return l
}

// pauseChecks is protocol section 12 on pauses.
var pauseChecks = []check{
	{"each scope stops what waits, lets go on what is out, and resumes", func(r *rig) {
		for scope, id := range scopes {
			l := r.attach(as("i." + string(scope)))
			one, two := "1-"+string(scope), "2-"+string(scope)
			r.push(action(one, lane("s1"), replay("r1")))
			l.expect(one)
			r.hold(scope, id, note("looking"))
			r.hold(scope, id, note("looking closer"))
			r.answers(ackstore.Accepted, received(one))
			r.push(action(two, lane("s1"), replay("r1")))
			r.done(one)
			l.quiet()
			w := r.waitsFor(two, "paused")
			require.Equal(r, []string{string(scope), id, "operator", "looking closer", "operator"}, []string{string(w.Hold.Scope), w.Hold.ID, w.Hold.Cause, w.Hold.Note, w.Hold.By})
			require.Len(r, r.overview().Holds, 1, "the same cause again replaces its words")
			if scope != ackstore.OfMachine {
				r.push(action("free-" + string(scope)))
				l.expect("free-" + string(scope))
				r.done("free-" + string(scope))
			}
			r.unhold(scope, id)
			r.unhold(scope, id)
			require.Empty(r, r.overview().Holds)
			l.expect(two)
			r.done(two)
		}
	}},
	{"nothing is sent while any of several scopes is paused", func(r *rig) {
		l := r.attach()
		for scope, id := range scopes {
			r.hold(scope, id)
		}
		r.push(action("a1", lane("s1"), replay("r1")))
		for scope, id := range scopes {
			l.quiet()
			r.unhold(scope, id)
		}
		l.expect("a1")
	}},
	{"a scope may be paused before its first action", func(r *rig) {
		for scope, id := range scopes {
			r.hold(scope, id)
		}
		r.push(action("a1", lane("s1")), action("a2", replay("r1")))
		l := r.attach()
		l.quiet()
		for scope, id := range scopes {
			r.unhold(scope, id)
		}
		require.ElementsMatch(r, []string{"a1", "a2"}, idsOf(l.take()))
	}},
	{"a session is paused everywhere, or on one machine", func(r *rig) {
		one, two := r.attach(), r.attach(on("m2"))
		r.hold(ackstore.OfSession, "s1", onMachine("m1"))
		r.push(action("a1", lane("s1")), action("b1", lane("s1"), of("m2")))
		one.quiet()
		two.expect("b1")
		r.done("b1")
		r.hold(ackstore.OfSession, "s1")
		r.push(action("b2", lane("s1"), of("m2")))
		two.quiet()
		r.unhold(ackstore.OfSession, "s1") // ends all of them
		one.expect("a1")
		two.expect("b2")
	}},
	{"a resume on one machine leaves the pauses of others, and a closed door, as they are", func(r *rig) {
		one, two := r.attach(), r.attach(on("m2"))
		r.push(action("a1", lane("s1")), action("b1", lane("s1"), of("m2")))
		one.expect("a1")
		two.expect("b1")
		r.hold(ackstore.OfSession, "s1", onMachine("m1"))
		r.hold(ackstore.OfSession, "s1", onMachine("m2"))
		require.NoError(r, r.store.CloseLabel(ctx, ackstore.OfSession, "s1"))
		r.done("a1", "b1")
		require.NoError(r, r.store.Unhold(ctx, r.rules, ackstore.OfSession, "s1", "m2"))
		holds := r.overview().Holds
		require.Len(r, holds, 1)
		require.Equal(r, "m1", holds[0].MachineID)
		require.ErrorIs(r, r.tryPush(action("a2", lane("s1"))).Err, ackstore.ErrClosed)
		require.NoError(r, r.store.Unhold(ctx, r.rules, ackstore.OfSession, "s1", "m3"))
		require.Len(r, r.overview().Holds, 1, "a machine that has none")
		r.unhold(ackstore.OfSession, "s1")
		require.Empty(r, r.overview().Holds)
		r.push(action("a2", lane("s1")))
	}},
	{"a paused head of a lane does not hide other lanes, nor a paused replay its lane's order", func(r *rig) {
		r.hold(ackstore.OfReplay, "r1")
		r.push(action("a1", lane("s"), replay("r1")), action("a2", lane("s")), action("b1", lane("t")))
		l := r.attach()
		l.expect("b1")
		require.Equal(r, "a1", r.waitsFor("a2", "lane").ActionID)
		r.unhold(ackstore.OfReplay, "r1")
		l.expect("a1")
	}},
	{"until ends its own cause, across a crash", func(r *rig) {
		r.dead()
		ends := r.clock.now().Add(time.Minute)
		r.hold(ackstore.OfSession, "s1", until(ends))
		require.Equal(r, []string{ackstore.HeldOnDead, ackstore.HeldByOperator}, r.causes(ackstore.OfSession, "s1"))
		r.reopen()
		require.Equal(r, []string{ackstore.HeldOnDead, ackstore.HeldByOperator}, r.causes(ackstore.OfSession, "s1"))
		r.pass(time.Minute - time.Millisecond)
		require.Len(r, r.causes(ackstore.OfSession, "s1"), 2)
		r.pass(time.Millisecond)
		require.Equal(r, []string{ackstore.HeldOnDead}, r.causes(ackstore.OfSession, "s1"))
		l := r.attach()
		l.quiet()
		r.unhold(ackstore.OfSession, "s1")
		l.expect("a2")
	}},
	{"until lets its scope go by itself", func(r *rig) {
		l := r.attach()
		r.hold(ackstore.OfReplay, "r1", until(r.clock.now().Add(time.Minute)))
		r.push(action("a1", replay("r1")))
		w := r.waitsFor("a1", "paused")
		require.True(r, w.Hold.Until.Equal(r.clock.now().Add(time.Minute)))
		l.quiet()
		r.pass(time.Minute)
		l.expect("a1")
	}},
	{"one resume ends all causes", func(r *rig) {
		l := r.dead()
		r.hold(ackstore.OfSession, "s1")
		require.Len(r, r.causes(ackstore.OfSession, "s1"), 2)
		r.unhold(ackstore.OfSession, "s1")
		require.Empty(r, r.overview().Holds)
		l.expect("a2")
	}},
	{"a redrive of its cause lifts on_dead, not the operator's", func(r *rig) {
		l := r.dead()
		r.hold(ackstore.OfSession, "s1")
		r.redrive("a1")
		require.Equal(r, []string{ackstore.HeldByOperator}, r.causes(ackstore.OfSession, "s1"))
		l.quiet()
		r.unhold(ackstore.OfSession, "s1")
		l.again("a1", 2)
		r.done("a1")
		l.expect("a2")
	}},
	{"a resolve and a late done of its cause lift on_dead", func(r *rig) {
		l := r.dead()
		r.resolve("a1", ackstore.Done)
		require.Empty(r, r.overview().Holds)
		l.expect("a2")
		r.answers(ackstore.Settled, failed("a2", "permanent"))
		require.Equal(r, []string{ackstore.HeldOnDead}, r.causes(ackstore.OfSession, "s1"))
		r.redrive("a2")
		l.again("a2", 2)
		r.done("a2")
		r.push(action("a3", lane("s2"), resends(0)), action("a4", lane("s2")))
		l.expect("a3")
		r.pass(r.rules.OrphanTimeout)
		require.Equal(r, []string{ackstore.HeldOnDead}, r.causes(ackstore.OfSession, "s2"))
		r.answers(ackstore.Late, done("a3"))
		require.Empty(r, r.causes(ackstore.OfSession, "s2"))
		l.expect("a4")
	}},
	{"while paused expiry and backoff run, a failure counts and waits", func(r *rig) {
		l := r.attach()
		r.push(action("fails", lane("s2")))
		l.expect("fails")
		r.hold(ackstore.OfMachine, "m1")
		r.push(action("expires", ttl(time.Second)), action("later", delay(time.Second)))
		r.answers(ackstore.Retry, failed("fails", "error"))
		r.pass(time.Second)
		l.quiet()
		r.is(ackstore.Expired, "expires")
		require.Equal(r, 1, r.get("fails").Attempts)
		r.waitsFor("fails", "paused")
		r.waitsFor("later", "paused")
		r.unhold(ackstore.OfMachine, "m1")
		l.expect("later", "fails")
	}},
	{"a pause outlives a crash, word for word", func(r *rig) {
		r.push(action("a1"))
		r.hold(ackstore.OfMachine, "m1", note("maintenance"))
		r.hold(ackstore.OfSession, "never seen", onMachine("m2"))
		before := r.overview().Holds
		r.reopen()
		r.sameSet(before, r.overview().Holds, "holds")
		l := r.attach()
		l.quiet()
		r.unhold(ackstore.OfMachine, "m1")
		l.expect("a1")
	}},
}

// labelChecks is a session or replay that is closed, and what a label shows.
var labelChecks = []check{
	{"a closed label refuses new actions, group whole, until it is opened", func(r *rig) {
		for _, scope := range []ackstore.Scope{ackstore.OfSession, ackstore.OfReplay} {
			id := "x-" + string(scope)
			field := lane(id)
			if scope == ackstore.OfReplay {
				field = replay(id)
			}
			known, fresh := action("a1"+id, field), action("a2"+id, field)
			r.push(known)
			require.NoError(r, r.store.CloseLabel(ctx, scope, id))
			closed := func() {
				r.Helper()
				p := r.tryPush(action("b1"+id), fresh)
				var err *ackstore.ClosedError
				require.ErrorAs(r, p.Err, &err)
				require.Equal(r, ackstore.ClosedError{Index: 1, Scope: scope, ID: id}, *err)
				r.unknown("b1"+id, "a2"+id)
				require.True(r, r.push(known)[0].Duplicate, "a repeat is none of a new one")
				label, lerr := r.store.Label(ctx, scope, id)
				require.NoError(r, lerr)
				require.True(r, label.Closed)
				require.Equal(r, "closed", label.Status)
			}
			closed()
			r.push(action("c1"+id, lane("open")))
			r.reopen()
			closed()
			r.unhold(scope, id)
			r.push(fresh)
		}
	}},
	{"what a closed label holds already is still sent", func(r *rig) {
		r.push(action("a1", lane("s")))
		require.NoError(r, r.store.CloseLabel(ctx, ackstore.OfSession, "s"))
		r.attach().expect("a1")
	}},
	{"a label shows its counts and its status", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s"), replay("r")), action("a2", lane("s"), replay("r")), action("b1", lane("s"), of("m2")), action("c1"))
		l.expect("a1", "c1")
		r.done("a1")
		l.expect("a2")
		label, err := r.store.Label(ctx, ackstore.OfSession, "s")
		require.NoError(r, err)
		require.Equal(r, "active", label.Status)
		require.Equal(r, map[ackstore.State]int{ackstore.Done: 1, ackstore.InFlight: 1, ackstore.Queued: 1}, positive(label.Counts))
		r.hold(ackstore.OfReplay, "r")
		label, err = r.store.Label(ctx, ackstore.OfReplay, "r")
		require.NoError(r, err)
		require.Equal(r, "paused", label.Status)
		require.Len(r, label.Holds, 1)
		require.Equal(r, map[ackstore.State]int{ackstore.Done: 1, ackstore.InFlight: 1}, positive(label.Counts))
		_, err = r.store.Label(ctx, ackstore.OfReplay, "none")
		require.ErrorIs(r, err, ackstore.ErrUnknown)
	}},
	{"labels are paged in the order of their names", func(r *rig) {
		for _, id := range []string{"c", "a", "e", "b", "d"} {
			r.push(action("of-"+id, lane(id)))
		}
		var got []string
		for after := ""; ; {
			page, err := r.store.Labels(ctx, ackstore.OfSession, after, 2)
			require.NoError(r, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(r, len(page), 2)
			for _, l := range page {
				got = append(got, l.ID)
			}
			after = page[len(page)-1].ID
		}
		require.Equal(r, []string{"a", "b", "c", "d", "e"}, got)
	}},
}

// positive drops the states of which there are none.
func positive(counts map[ackstore.State]int) map[ackstore.State]int {
	kept := map[ackstore.State]int{}
	for s, n := range counts {
		if n != 0 {
			kept[s] = n
		}
	}
	return kept
}
