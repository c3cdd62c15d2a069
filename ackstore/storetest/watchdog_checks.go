package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// watchdogChecks is protocol section 8 on deliveries that were not received.
var watchdogChecks = []check{
	{"an unanswered delivery is resent max_resends times, then given up", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		for n := 1; n <= 3; n++ {
			require.Equal(r, n-1, l.again("a1", n).Resent)
			r.pass(r.rules.OrphanTimeout - time.Millisecond)
			l.quiet()
			r.is(ackstore.InFlight, "a1")
			swept := r.pass(time.Millisecond)
			require.Equal(r, 1, swept.Detected, "the last loss is a loss as well")
			require.Equal(r, n == 3, swept.GaveUp == 1)
		}
		rec := r.get("a1")
		require.Equal(r, []any{ackstore.GaveUp, 3, 2, 0, 0, 0}, []any{rec.State, rec.Deliveries, rec.ResentTimeout, rec.ResentDisconnect, rec.Attempts, rec.TransientAttempts})
		require.Equal(r, ackstore.ByWatchdog, rec.SettledBy)
		require.True(r, rec.SettledAt.Equal(r.clock.now()))
		l.quiet()
	}},
	{"max_resends of 0 gives up at the first loss", func(r *rig) {
		l := r.attach()
		r.push(action("a1", resends(0)))
		l.expect("a1")
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.GaveUp, "a1")
		l.quiet()
	}},
	{"an action's own timeout goes before the subscription's, that before the server's", func(r *rig) {
		l := r.attach(within(8 * time.Second))
		require.Equal(r, 8*time.Second, l.hello.OrphanTimeout)
		r.push(action("own", orphan(4*time.Second)), action("of the agent"), action("b", of("m2")))
		sent := l.expect("own", "of the agent")
		require.True(r, sent[0].AckBy.Equal(r.clock.now().Add(4*time.Second)))
		require.True(r, sent[1].AckBy.Equal(r.clock.now().Add(8*time.Second)))
		other := r.attach(on("m2"))
		require.Equal(r, r.rules.OrphanTimeout, other.hello.OrphanTimeout)
		other.expect("b")
		r.pass(4 * time.Second)
		l.expect("own")
		r.pass(4 * time.Second)
		require.Contains(r, idsOf(l.take()), "of the agent")
		r.pass(7 * time.Second)
		other.expect("b")
	}},
	{"the timeout runs from the dispatch, not from the push", func(r *rig) {
		l := r.attach(room(0))
		r.push(action("a1", resends(0)))
		r.pass(time.Hour)
		r.is(ackstore.Queued, "a1")
		nine := 9
		r.credit("m1", &nine, false)
		l.expect("a1")
	}},
	{"a receipt ends the orphan timeout", func(r *rig) {
		l := r.attach()
		r.push(action("a1", resends(0)))
		l.expect("a1")
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(2 * r.rules.OrphanTimeout)
		r.is(ackstore.InFlight, "a1")
	}},
	{"nothing counts while a resend waits", func(r *rig) {
		l := r.waitsToBeResent()
		r.pass(time.Hour)
		rec := r.get("a1")
		require.Equal(r, []any{ackstore.Queued, 1, 0, ackstore.ByTimeout}, []any{rec.State, rec.Deliveries, rec.Resent(), rec.Orphan})
		require.Equal(r, "credit", rec.WaitingFor.Reason)
		r.credit("m1", nil, true)
		require.Equal(r, 1, l.again("a1", 2).Resent)
	}},
	{"resends of several go to their own places, before what is new", func(r *rig) {
		l := r.attach()
		ids := []string{}
		for i := range 5 {
			ids = append(ids, fmt.Sprint("s", i))
			r.push(action(ids[i], lane(ids[i])))
		}
		l.expect(ids...)
		r.credit("m1", new(int), true)
		r.pass(r.rules.OrphanTimeout)
		r.push(action("new", priority(9)))
		r.credit("m1", nil, true)
		l.expect(append(ids, "new")...)
	}},
	{"a lane waits while its head is resent", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s")), action("a2", lane("s")))
		l.again("a1", 1)
		r.pass(r.rules.OrphanTimeout)
		l.again("a1", 2)
		r.done("a1")
		l.expect("a2")
	}},
	{"at_most_once is in doubt, not settled, and closes its lane", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s"), once, skip), action("a2", lane("s")))
		l.expect("a1")
		require.Equal(r, 1, r.pass(r.rules.OrphanTimeout).Doubted)
		rec := r.get("a1")
		require.Equal(r, ackstore.InDoubt, rec.State)
		require.True(r, rec.SettledAt.IsZero())
		r.pass(time.Hour)
		l.quiet()
		require.Equal(r, "a1", r.waitsFor("a2", "lane").ActionID)
		r.done("a1")
		l.expect("a2")
	}},
	{"a give-up opens its lane where it may skip", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s"), skip, resends(0)), action("a2", lane("s")))
		l.expect("a1")
		r.pass(r.rules.OrphanTimeout)
		l.expect("a2")
	}},
	{"resent_count starts again with each execution, deliveries never", func(r *rig) {
		l := r.attach()
		r.push(action("a1", resends(1)))
		l.again("a1", 1)
		r.pass(r.rules.OrphanTimeout)
		require.Equal(r, 1, l.again("a1", 2).Resent)
		r.answers(ackstore.Retry, failed("a1", "error", delivery(2)))
		r.pass(r.rules.ErrorDelay)
		d := l.again("a1", 3)
		require.Equal(r, []int{0, 1}, []int{d.Resent, d.Attempts})
		r.pass(r.rules.OrphanTimeout)
		require.Equal(r, 1, l.again("a1", 4).Resent, "a failure gives the budget back")
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.GaveUp, "a1")
		require.Equal(r, 4, r.get("a1").Deliveries)
	}},
	{"nothing paused is resent or given up", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s")), action("a2", replay("r"), resends(0)), action("a3", lane("t"), resends(0)))
		l.expect("a1", "a2", "a3")
		r.hold(ackstore.OfSession, "s")
		r.hold(ackstore.OfReplay, "r")
		r.hold(ackstore.OfSession, "t", onMachine("m1"))
		r.pass(time.Hour)
		l.quiet()
		for _, id := range []string{"a1", "a2", "a3"} {
			rec := r.get(id)
			require.False(r, rec.State.Settled(), "%s is %s", id, rec.State)
			require.Equal(r, []int{1, 0}, []int{rec.Deliveries, rec.Resent()})
		}
		r.unhold(ackstore.OfSession, "s")
		r.sweep()
		l.again("a1", 2)
		r.unhold(ackstore.OfReplay, "r")
		r.unhold(ackstore.OfSession, "t")
		r.sweep()
		r.is(ackstore.GaveUp, "a2", "a3")
	}},
	{"a paused at_most_once orphan is in doubt at once", func(r *rig) {
		l := r.attach()
		r.push(action("a1", once, lane("s")))
		l.expect("a1")
		r.hold(ackstore.OfSession, "s")
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.InDoubt, "a1")
	}},
	{"a watchdog that is off resends and gives up nothing by time", func(r *rig) {
		r.rules.WatchdogOff = true
		l := r.attach()
		r.push(action("a1", resends(0)), action("a2"))
		l.expect("a1", "a2")
		r.answers(ackstore.Accepted, received("a2"))
		r.pass(10 * time.Hour)
		l.quiet()
		r.is(ackstore.InFlight, "a1", "a2")
		r.done("a1", "a2")
	}},
	{"a sweep is cut into slices and says that there is more", func(r *rig) {
		l := r.attach(room(20))
		for i := range 10 {
			r.push(action(fmt.Sprint("a", i), resends(0)))
		}
		require.Len(r, l.take(), 10)
		r.credit("m1", new(int), true)
		r.clock.add(r.rules.OrphanTimeout)
		total, calls := 0, 0
		for more := true; more; calls++ {
			s, err := r.store.Sweep(ctx, r.rules, 3)
			require.NoError(r, err)
			require.LessOrEqual(r, s.Detected, 3)
			total, more = total+s.Detected, s.More
			require.Less(r, calls, 100)
		}
		require.GreaterOrEqual(r, calls, 4)
		require.Equal(r, 10, total)
	}},
	{"a listener is told when there is something to sweep", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		due := func() time.Time {
			r.heard.mu.Lock()
			defer r.heard.mu.Unlock()
			return r.heard.due
		}
		require.Eventually(r, func() bool {
			return !due().IsZero() && !due().After(r.clock.now().Add(r.rules.OrphanTimeout))
		}, 5*time.Second, time.Millisecond, "Due is no later than the orphan timeout")
	}},
}

// stallChecks is protocol section 8 on deliveries that were received.
var stallChecks = []check{
	{"silence after a receipt: told to stop, then a failed attempt", func(r *rig) {
		l := r.attach()
		r.push(action("a1", idle(time.Minute), lane("s")), action("a2", lane("s")))
		l.expect("a1")
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Minute - time.Millisecond)
		l.stops(map[string]string{})
		require.Equal(r, 1, r.pass(time.Millisecond).Stalled)
		l.stops(map[string]string{"a1": "stalled"})
		r.pass(r.rules.CancelGrace - time.Millisecond)
		l.quiet()
		rec := r.get("a1")
		require.Equal(r, []any{ackstore.InFlight, 0}, []any{rec.State, rec.Attempts})
		require.Equal(r, "a1", r.waitsFor("a2", "lane").ActionID)
		r.pass(time.Millisecond)
		rec = r.get("a1")
		require.Equal(r, []any{ackstore.Scheduled, 1, 0, "stalled"}, []any{rec.State, rec.Attempts, rec.Resent(), rec.Error.Kind})
		r.pass(r.rules.ErrorDelay)
		require.Equal(r, 1, l.again("a1", 2).Attempts)
	}},
	{"it holds credit until then", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1", idle(time.Second)), action("a2"))
		l.expect("a1")
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Second)
		l.quiet()
		r.pass(r.rules.CancelGrace)
		l.expect("a2")
	}},
	{"a token that differs holds it off, one that stays the same does not", func(r *rig) {
		l := r.attach()
		r.push(action("a1", idle(10*time.Second)))
		l.expect("a1")
		for n := uint64(9); n > 0; n-- {
			r.answers(ackstore.Accepted, working("a1", token(n)))
			r.pass(8 * time.Second)
			require.Empty(r, r.get("a1").Stall)
		}
		r.answers(ackstore.Accepted, working("a1", token(1)))
		r.pass(2 * time.Second)
		require.Equal(r, "stalled", r.get("a1").Stall)
	}},
	{"working without a token holds it off each time, received only the first", func(r *rig) {
		l := r.attach()
		r.push(action("a1", idle(10*time.Second)))
		l.expect("a1")
		for range 5 {
			r.answers(ackstore.Accepted, working("a1"))
			r.pass(8 * time.Second)
		}
		require.Empty(r, r.get("a1").Stall)
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(2 * time.Second)
		require.Equal(r, "stalled", r.get("a1").Stall)
	}},
	{"the ceiling ends work however active", func(r *rig) {
		l := r.attach()
		r.push(action("a1", ceiling(time.Minute), attempts(1)))
		l.expect("a1")
		for range 6 {
			require.False(r, r.answers(ackstore.Accepted, working("a1")).Cancel)
			r.pass(10 * time.Second)
		}
		l.stops(map[string]string{"a1": "ceiling"})
		for range 3 {
			require.True(r, r.answers(ackstore.Accepted, working("a1")).Cancel)
			r.pass(r.rules.CancelGrace / 3)
		}
		rec := r.get("a1")
		require.Equal(r, []any{ackstore.Failed, 1, "ceiling", ackstore.ByWatchdog}, []any{rec.State, rec.Attempts, rec.Error.Kind, rec.SettledBy})
	}},
	{"whatever the agent answers it is counted as a stall, but a done wins", func(r *rig) {
		for i, a := range []func(string) ackstore.Ack{
			func(id string) ackstore.Ack { return failed(id, "transient") },
			func(id string) ackstore.Ack { return failed(id, "permanent") },
			func(id string) ackstore.Ack { return released(id) },
			func(id string) ackstore.Ack { return cancelled(id) },
			func(id string) ackstore.Ack { return done(id) },
		} {
			id := fmt.Sprint("a", i)
			l := inFlight(r, id, "m."+id, idle(time.Second))
			r.answers(ackstore.Accepted, received(id))
			r.pass(time.Second)
			l.stops(map[string]string{id: "stalled"})
			r.answers(ackstore.Settled, a(id))
			rec := r.get(id)
			if i == 4 {
				require.Equal(r, []any{ackstore.Done, 0}, []any{rec.State, rec.Attempts})
				continue
			}
			require.Equal(r, []any{ackstore.Failed, 1, 0, 0, "stalled"}, []any{rec.State, rec.Attempts, rec.TransientAttempts, rec.Releases, rec.Error.Kind})
		}
	}},
	{"a stalled at_most_once with no answer is in doubt", func(r *rig) {
		l := inFlight(r, "a1", "m1", idle(time.Second), once)
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Second)
		l.stops(map[string]string{"a1": "stalled"})
		r.pass(r.rules.CancelGrace)
		r.is(ackstore.InDoubt, "a1")
		r.done("a1")
	}},
	{"a stall spends no resends", func(r *rig) {
		l := r.attach()
		r.push(action("a1", idle(time.Second), resends(0), attempts(9)))
		for n := 1; n <= 3; n++ {
			l.again("a1", n)
			r.answers(ackstore.Accepted, received("a1"))
			r.pass(time.Second)
			r.pass(r.rules.CancelGrace)
			r.pass(time.Minute)
		}
		rec := r.get("a1")
		require.Equal(r, []int{3, 0}, []int{rec.Attempts, rec.Resent()})
	}},
	{"a failure that comes after a stall was counted is of the same execution: counted once", func(r *rig) {
		inFlight(r, "a1", "m1", idle(time.Second))
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Second)
		r.pass(r.rules.CancelGrace)
		r.is(ackstore.Failed, "a1")
		r.answers(ackstore.Late, failed("a1", "error"))
		require.Equal(r, 1, r.get("a1").Attempts, "max_attempts is 1")
		require.Equal(r, ackstore.ByAck, r.get("a1").SettledBy)
	}},
	{"an ack between the stall and its end does not take it back", func(r *rig) {
		inFlight(r, "a1", "m1", idle(time.Second))
		r.answers(ackstore.Accepted, working("a1"))
		r.pass(time.Second)
		require.True(r, r.answers(ackstore.Accepted, working("a1")).Cancel)
		r.pass(r.rules.CancelGrace)
		r.is(ackstore.Failed, "a1")
	}},
}
