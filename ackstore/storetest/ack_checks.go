package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// waitsToBeResent leaves a1 an orphan by timeout: its stream is there, its credit is 0.
func (r *rig) waitsToBeResent(opts ...opt) *line {
	r.Helper()
	l := r.attach()
	r.push(action("a1", opts...))
	l.again("a1", 1)
	r.credit("m1", new(int), true)
	r.pass(r.rules.OrphanTimeout)
	require.True(r, r.get("a1").WaitingFor.Resend)
	l.quiet()
	return l
}

// ackChecks is protocol section 9 beside its matrix.
var ackChecks = []check{
	{"a batch is judged and answered in order", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2", lane("s")), action("a3", lane("s")))
		l.expect("a1", "a2")
		got, err := r.store.Settle(ctx, r.rules, []ackstore.Ack{
			received("a1"), done("nobody"), done("a1", result("1")), done("a1", result("2")),
			{ActionID: "a2", Verb: ackstore.SaysDone, Forbidden: true},
			done("a2", delivery(7)), received("a2"), done("a2"),
		})
		require.NoError(r, err)
		want := []ackstore.Outcome{ackstore.Accepted, ackstore.Unknown, ackstore.Settled, ackstore.Duplicate, ackstore.Forbidden, ackstore.Conflict, ackstore.Accepted, ackstore.Settled}
		require.Len(r, got, len(want))
		for i := range want {
			require.Equal(r, want[i].String(), got[i].Outcome.String(), "item %d", i)
		}
		require.Zero(r, got[1].State)
		require.Zero(r, got[4].State)
		require.Zero(r, got[5].State)
		l.expect("a3")
		require.Equal(r, "1", string(r.get("a1").Result))
	}},
	{"an empty batch is answered by none", func(r *rig) {
		got, err := r.store.Settle(ctx, r.rules, nil)
		require.NoError(r, err)
		require.Empty(r, got)
	}},
	{"what is forbidden moves nothing", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		before := r.get("a1")
		r.answers(ackstore.Forbidden, ackstore.Ack{ActionID: "a1", Verb: ackstore.SaysDone, Forbidden: true})
		r.same(before, r.get("a1"), "nothing moves")
	}},
	{"another machine's action, or a delivery never made, is a conflict", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("b1", of("m2")))
		l.expect("a1")
		before := r.get("a1").Action
		r.answers(ackstore.Conflict, done("a1", from("m2")))
		r.answers(ackstore.Conflict, done("a1", delivery(2)))
		r.answers(ackstore.Conflict, done("b1"))
		r.same(before, r.get("a1").Action, "nothing moves")
		r.answers(ackstore.Settled, done("a1", from("m1")))
	}},
	{"received, working and their times", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		start := r.clock.now()
		r.pass(time.Second)
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Second)
		half := 50.0
		a := working("a1", token(1))
		a.Progress = &ackstore.Progress{Percent: &half, Note: "half"}
		r.answers(ackstore.Accepted, a)
		rec := r.get("a1")
		require.True(r, rec.ReceivedAt.Equal(start.Add(time.Second)))
		require.True(r, rec.LastAckAt.Equal(start.Add(2*time.Second)))
		require.Equal(r, "half", rec.Progress.Note)
		require.Equal(r, half, *rec.Progress.Percent)
		for _, e := range rec.Timeline {
			require.NotEqual(r, "working", e.Event, "never in the timeline")
		}
	}},
	{"done keeps its result and who said so", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.pass(time.Second)
		got := r.answers(ackstore.Settled, done("a1", result(`{"n":1.50}`)))
		l.stops(map[string]string{}) // nobody is told to stop what is done
		require.Equal(r, ackstore.Done, got.State)
		rec := r.get("a1")
		require.Equal(r, `{"n":1.50}`, string(rec.Result))
		require.Equal(r, []any{true, ackstore.ByAck, 1, false}, []any{rec.HasResult, rec.SettledBy, rec.SettledDelivery, rec.Late})
		require.True(r, rec.SettledAt.Equal(r.clock.now()))
		require.Nil(r, rec.WaitingFor)
	}},
	{"the first result is the one kept, of many at a time", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		const racers = 16
		outcomes := make([]ackstore.Outcome, racers)
		var wait sync.WaitGroup
		for i := range racers {
			wait.Go(func() {
				got, err := r.store.Settle(ctx, r.rules, []ackstore.Ack{done("a1", result(fmt.Sprint(i)))})
				if err == nil {
					outcomes[i] = got[0].Outcome
				}
			})
		}
		wait.Wait()
		won := -1
		for i, o := range outcomes {
			if o == ackstore.Settled {
				require.Equal(r, -1, won, "two of them settled it")
				won = i
			} else {
				require.Equal(r, ackstore.Duplicate.String(), o.String())
			}
		}
		require.Equal(r, fmt.Sprint(won), string(r.get("a1").Result))
	}},
	{"a late done drops a queued resend", func(r *rig) {
		l := r.waitsToBeResent()
		r.answers(ackstore.Settled, done("a1", delivery(1)))
		r.credit("m1", nil, true)
		l.quiet()
		rec := r.get("a1")
		require.Equal(r, []any{1, 0, false}, []any{rec.Deliveries, rec.Resent(), rec.Late})
	}},
	{"a late sign of life takes the resend back", func(r *rig) {
		for i, verb := range []ackstore.Verb{ackstore.SaysReceived, ackstore.SaysWorking} {
			if i == 1 {
				r.done("a1")
				r.credit("m1", nil, true)
				l := r.attach(as("i2"))
				r.push(action("a2"))
				l.again("a2", 1)
				r.credit("m1", new(int), true)
				r.pass(r.rules.OrphanTimeout)
			} else {
				r.waitsToBeResent()
			}
			id := fmt.Sprint("a", i+1)
			require.Equal(r, ackstore.InFlight, r.answers(ackstore.Revived, say(verb, id, delivery(1))).State)
			r.answers(ackstore.Accepted, say(verb, id, delivery(1)))
			rec := r.get(id)
			require.Equal(r, []any{ackstore.InFlight, 1, 0, ackstore.Cause(0)}, []any{rec.State, rec.Delivery, rec.Resent(), rec.Orphan})
		}
	}},
	{"a failure of a queued resend is its attempt, and the resend is dropped", func(r *rig) {
		l := r.waitsToBeResent()
		r.answers(ackstore.Retry, failed("a1", "error", delivery(1)))
		r.credit("m1", nil, true)
		l.quiet()
		r.pass(r.rules.ErrorDelay)
		d := l.again("a1", 2)
		require.Equal(r, []int{1, 0}, []int{d.Attempts, d.Resent})
	}},
	{"done of an older delivery settles, and the newer is told to stop", func(r *rig) {
		l := r.attach(as("i1"))
		r.push(action("a1"))
		l.expect("a1")
		l = r.attach(as("i2"))
		l.again("a1", 2)
		r.answers(ackstore.Settled, done("a1", delivery(1), result(`"first"`)))
		l.stops(map[string]string{"a1": ""})
		r.answers(ackstore.Duplicate, done("a1", delivery(2), result(`"second"`)))
		rec := r.get("a1")
		require.Equal(r, []any{`"first"`, 1}, []any{string(rec.Result), rec.SettledDelivery})
		l.quiet()
	}},
	{"a dispatch that was not yet handed over is taken back by a done", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.again("a1", 1)
		r.pass(r.rules.OrphanTimeout) // rides to the parked lease
		require.Equal(r, 2, r.get("a1").Delivery)
		r.answers(ackstore.Settled, done("a1", delivery(1)))
		l.quiet()
	}},
	{"a done of another delivery is noted as a double execution", func(r *rig) {
		l := r.attach(as("i1"))
		r.push(action("a1"))
		l.expect("a1")
		r.attach(as("i2")).again("a1", 2)
		r.done("a1")
		doubles := func() (n int) {
			for _, e := range r.get("a1").Timeline {
				if e.Event == "double_execution" {
					n++
				}
			}
			return n
		}
		r.answers(ackstore.Duplicate, done("a1", delivery(2)))
		require.Zero(r, doubles())
		r.answers(ackstore.Duplicate, done("a1", delivery(1)))
		require.Equal(r, 1, doubles())
		r.answers(ackstore.Duplicate, done("a1", delivery(1)))
		require.Equal(r, 1, doubles(), "an ack repeated leaves the store as one did")
	}},
	{"a delivery takes one verdict: the same is a duplicate, another is stale", func(r *rig) {
		l := r.attach()
		r.push(action("a1", attempts(9)))
		l.again("a1", 1)
		r.answers(ackstore.Retry, failed("a1", "error", delivery(1)))
		r.answers(ackstore.Duplicate, failed("a1", "transient", delivery(1)))
		require.True(r, r.answers(ackstore.Stale, released("a1", delivery(1))).Cancel)
		r.pass(r.rules.ErrorDelay)
		l.again("a1", 2)
		before := r.get("a1")
		r.answers(ackstore.Duplicate, failed("a1", "error", delivery(1)))
		r.answers(ackstore.Stale, cancelled("a1", delivery(1)))
		r.same(before, r.get("a1"), "nothing moves")
		r.answers(ackstore.Settled, done("a1", delivery(1)))
		r.answers(ackstore.Duplicate, failed("a1", "error", delivery(1)))
	}},
	{"what was stale was not taken", func(r *rig) {
		l := r.attach(as("i1"))
		r.push(action("a1"))
		l.expect("a1")
		r.attach(as("i2")).again("a1", 2)
		r.answers(ackstore.Stale, failed("a1", "error", delivery(1)))
		r.answers(ackstore.Stale, failed("a1", "error", delivery(1)))
		r.answers(ackstore.Settled, done("a1", delivery(1)))
	}},
	{"without a delivery, failed, released and cancelled are refused after a second dispatch", func(r *rig) {
		l := r.attach(as("i1"))
		r.push(action("a1"))
		l.expect("a1")
		r.attach(as("i2")).again("a1", 2)
		before := r.get("a1").Action
		for _, a := range []ackstore.Ack{failed("a1", "permanent"), failed("a1", "transient"), released("a1"), cancelled("a1")} {
			r.answers(ackstore.Conflict, a)
		}
		r.same(before, r.get("a1").Action, "nothing moves")
		r.answers(ackstore.Accepted, received("a1"))
		r.answers(ackstore.Accepted, working("a1"))
		r.done("a1")
	}},
	{"a done and a sweep meet at the deadline: nothing is sent after the done", func(r *rig) {
		l := r.attach()
		for i := range 40 {
			id := fmt.Sprint("a", i)
			r.push(action(id, resends(1)))
			l.again(id, 1)
			l.quiet()
			r.clock.add(r.rules.OrphanTimeout)
			var wait sync.WaitGroup
			wait.Go(func() { _, _ = r.store.Settle(ctx, r.rules, []ackstore.Ack{done(id, delivery(1))}) })
			wait.Go(func() { _, _ = r.store.Sweep(ctx, r.rules, 64) })
			wait.Wait()
			l.quiet()
			require.Equal(r, []any{ackstore.Done, 0}, []any{r.get(id).State, r.get(id).Attempts})
		}
	}},
	{"an ack repeated leaves the store as one did", func(r *rig) {
		for _, c := range []struct {
			id  string
			ack ackstore.Ack
		}{
			{"received", received("received")},
			{"working", working("working", token(3))},
			{"done", done("done", result("1"))},
			{"error", failed("error", "error")},
			{"transient", failed("transient", "transient")},
			{"quota", failed("quota", "quota")},
			{"config", failed("config", "config")},
			{"released", released("released")},
			{"cancelled", cancelled("cancelled")},
		} {
			m := "m." + c.id
			l := r.attach(on(m))
			r.push(action(c.id, of(m)))
			l.expect(c.id)
			first := r.ack(c.ack)
			before := r.get(c.id)
			for range 3 {
				require.Equal(r, first.State, r.ack(c.ack).State, c.id)
			}
			r.same(before, r.get(c.id), c.id)
		}
	}},
}
