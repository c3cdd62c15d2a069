package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// operatorRow is a line of the second table of protocol section 12: a state,
// and what cancel, redrive, resolve as done and resolve as failed make of it.
type operatorRow struct {
	name  string
	setup func(r *rig, id, machine string)
	want  [4]string
}

const (
	unchanged = "="
	refused   = "409"
	asked     = "asked"
)

var operatorTable = []operatorRow{
	{"never sent", func(r *rig, id, m string) { r.push(action(id, of(m))) }, [4]string{"cancelled", refused, refused, refused}},
	{"delayed", func(r *rig, id, m string) { r.push(action(id, of(m), delay(time.Hour))) }, [4]string{"cancelled", refused, refused, refused}},
	{"waits for a retry", func(r *rig, id, m string) {
		inFlight(r, id, m, attempts(2))
		r.answers(ackstore.Retry, failed(id, "error", after(time.Hour)))
	}, [4]string{"cancelled", refused, refused, refused}},
	{"released", func(r *rig, id, m string) {
		inFlight(r, id, m)
		r.answers(ackstore.ReleasedBack, released(id, inAtLeast(time.Hour)))
	}, [4]string{"cancelled", refused, refused, refused}},
	{"orphan", func(r *rig, id, m string) { orphaned(r, id, m) }, [4]string{"cancelled", refused, refused, refused}},
	{"in flight", func(r *rig, id, m string) { inFlight(r, id, m) }, [4]string{asked, refused, refused, refused}},
	{"in doubt", doubted, [4]string{"cancelled", "queued", "done", "failed"}},
	{"gave up", givenUp, [4]string{unchanged, "queued", "done", "failed"}},
	{"failed", func(r *rig, id, m string) {
		inFlight(r, id, m)
		r.answers(ackstore.Settled, failed(id, "permanent"))
	}, [4]string{unchanged, "queued", refused, refused}},
	{"failed by the watchdog", func(r *rig, id, m string) {
		inFlight(r, id, m, idle(time.Second))
		r.answers(ackstore.Accepted, received(id))
		r.pass(time.Second)
		r.pass(r.rules.CancelGrace)
	}, [4]string{unchanged, "queued", refused, refused}},
	{"expired", func(r *rig, id, m string) {
		r.push(action(id, of(m), ttl(time.Second)))
		r.pass(time.Second)
	}, [4]string{unchanged, "queued", refused, refused}},
	{"done", func(r *rig, id, m string) {
		inFlight(r, id, m)
		r.done(id)
	}, [4]string{unchanged, refused, refused, refused}},
	{"cancelled", func(r *rig, id, m string) {
		r.push(action(id, of(m)))
		r.cancel(id)
	}, [4]string{unchanged, "queued", refused, refused}},
}

// operatorChecks makes a check of each line.
func operatorChecks() []check {
	checks := slices.Clone(operatorErrors)
	for _, row := range operatorTable {
		checks = append(checks, check{row.name, row.judge})
	}
	return checks
}

func (row operatorRow) judge(r *rig) {
	for i, call := range []string{"cancel", "redrive", "resolve-done", "resolve-failed"} {
		id, machine, want := call, "m."+call, row.want[i]
		row.setup(r, id, machine)
		r.credit(machine, new(int), true) // what is redriven stays where it can be seen
		before := r.get(id)
		verb := r.store.Cancel
		act := ackstore.Act{ActionID: id, Note: "looked at the screen"}
		switch i {
		case 1:
			verb = r.store.Redrive
		case 2, 3:
			verb, act.As = r.store.Resolve, []ackstore.State{ackstore.Done, ackstore.Failed}[i-2]
		}
		got := r.act(verb, act)
		switch want {
		case refused:
			var not *ackstore.NotEligibleError
			require.ErrorAs(r, got.Err, &not, "%s", call)
			require.Equal(r, ackstore.NotEligibleError{ActionID: id, State: before.State}, *not)
			r.same(before, r.get(id), "nothing moves")
			continue
		case unchanged:
			r.same(before, r.get(id), "nothing moves")
			want = before.State.String()
		case asked:
			want = "in_flight"
			rec := r.get(id)
			require.True(r, rec.CancelAsked())
		}
		require.NoError(r, got.Err, "%s", call)
		require.Equal(r, want, got.Action.State.String(), "%s answers", call)
		require.Equal(r, want, r.get(id).State.String(), "after %s", call)
		require.Equal(r, before.Delivery, r.get(id).Delivery)
	}
}

var operatorErrors = []check{
	{"an action that nobody knows", func(r *rig) {
		for _, verb := range []string{"cancel", "redrive", "resolve"} {
			f := r.store.Cancel
			switch verb {
			case "redrive":
				f = r.store.Redrive
			case "resolve":
				f = r.store.Resolve
			}
			require.ErrorIs(r, r.act(f, ackstore.Act{ActionID: "nobody", As: ackstore.Done}).Err, ackstore.ErrUnknown, verb)
		}
	}},
	{"items fail apart", func(r *rig) {
		r.push(action("a1"), action("a2"))
		got, err := r.store.Cancel(ctx, r.rules, []ackstore.Act{{ActionID: "a1"}, {ActionID: "nobody"}, {ActionID: "a2"}})
		require.NoError(r, err)
		require.NoError(r, got[0].Err)
		require.ErrorIs(r, got[1].Err, ackstore.ErrUnknown)
		require.NoError(r, got[2].Err)
		r.is(ackstore.Cancelled, "a1", "a2")
	}},
	{"a resolve keeps the operator's word and opens the lane", func(r *rig) {
		for _, as := range []ackstore.State{ackstore.Done, ackstore.Failed} {
			id, m := as.String(), "m."+as.String()
			l := r.attach(on(m))
			r.push(action(id, of(m), lane("s"), once, skip), action("after-"+id, of(m), lane("s")))
			l.expect(id)
			r.pass(r.rules.OrphanTimeout)
			r.resolve(id, as)
			rec := r.get(id)
			require.Equal(r, []any{as, ackstore.ByOperator, "looked at the screen"}, []any{rec.State, rec.SettledBy, rec.Note})
			l.expect("after-" + id)
			r.done("after-" + id)
		}
	}},
}

// confirmed tells whether the agent confirmed a cancel; it wants the state first.
func (r *rig) confirmed(id string) bool {
	r.Helper()
	r.is(ackstore.Cancelled, id)
	rec := r.get(id)
	require.NotNil(r, rec.CancelConfirmed, "cancel_confirmed")
	return *rec.CancelConfirmed
}

// cancelChecks is what becomes of an action that is to be cancelled.
var cancelChecks = []check{
	{"what was not sent is cancelled and never sent", func(r *rig) {
		r.push(action("a1"), action("a2", delay(time.Minute)), action("a3"))
		r.cancel("a1")
		r.cancel("a2")
		l := r.attach()
		l.expect("a3")
		r.pass(time.Hour)
		r.is(ackstore.Cancelled, "a1", "a2")
		require.NotContains(r, idsOf(l.take()), "a2")
		require.Equal(r, ackstore.ByOperator, r.get("a1").SettledBy)
	}},
	{"cancelling the head of a lane opens it", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s"), delay(time.Minute)), action("a2", lane("s")))
		l.quiet()
		r.cancel("a1")
		l.expect("a2")
	}},
	{"in flight: the agent is told, and its cancelled ends it", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.heard.forget("m1")
		require.Equal(r, ackstore.InFlight, r.cancel("a1").State)
		require.True(r, r.heard.woken("m1"))
		l.stops(map[string]string{"a1": ""})
		l.stops(map[string]string{})
		require.True(r, r.answers(ackstore.Accepted, working("a1")).Cancel)
		require.Equal(r, ackstore.Cancelled, r.answers(ackstore.Settled, cancelled("a1")).State)
		require.True(r, r.confirmed("a1"))
	}},
	{"in flight: a done in time is done", func(r *rig) {
		inFlight(r, "a1", "m1")
		r.cancel("a1")
		r.done("a1")
	}},
	{"in flight: whatever else the agent says ends it cancelled", func(r *rig) {
		for _, verb := range []string{"failed", "failed error", "failed transient", "failed quota", "failed config", "released"} {
			id := "of-" + verb[len(verb)-5:]
			l := inFlight(r, id, "m."+id, attempts(5))
			r.cancel(id)
			require.Equal(r, ackstore.Cancelled, r.answers(ackstore.Settled, ackOf(verb, id)).State, verb)
			require.True(r, r.confirmed(id), verb)
			r.pass(time.Hour)
			l.quiet()
		}
	}},
	{"in flight: over after cancel_grace, a result after that is kept", func(r *rig) {
		l := r.attach()
		r.push(action("a1", orphan(time.Hour)))
		l.expect("a1")
		r.cancel("a1")
		r.pass(r.rules.CancelGrace - time.Millisecond)
		r.is(ackstore.InFlight, "a1")
		r.pass(time.Millisecond)
		require.False(r, r.confirmed("a1"))
		require.Equal(r, ackstore.Cancelled, r.answers(ackstore.Late, done("a1", result(`"too late"`))).State)
		rec := r.get("a1")
		require.Equal(r, []any{`"too late"`, true}, []any{string(rec.Result), rec.Late})
	}},
	{"in flight: over when its timeout passes", func(r *rig) {
		inFlight(r, "a1", "m1")
		r.cancel("a1")
		r.pass(r.rules.OrphanTimeout)
		require.False(r, r.confirmed("a1"))
	}},
	{"in flight: over when its stream is lost", func(r *rig) {
		l := inFlight(r, "a1", "m1", orphan(time.Hour))
		r.cancel("a1")
		l.end()
		r.pass(r.rules.DisconnectGrace)
		require.False(r, r.confirmed("a1"))
		r.attach(as("i2")).quiet()
	}},
	{"in flight: over when another instance comes", func(r *rig) {
		inFlight(r, "a1", "m1")
		r.cancel("a1")
		r.attach(as("i2")).quiet()
		require.False(r, r.confirmed("a1"))
	}},
	{"in flight: a stall ends it at once", func(r *rig) {
		inFlight(r, "a1", "m1", idle(20*time.Second), attempts(5))
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(10 * time.Second)
		r.cancel("a1")
		r.pass(10 * time.Second)
		require.False(r, r.confirmed("a1"))
	}},
	{"an orphan's agent is told, for it may work on it", func(r *rig) {
		l := r.waitsToBeResent()
		require.Equal(r, ackstore.Cancelled, r.cancel("a1").State)
		l.stops(map[string]string{"a1": ""})
		r.credit("m1", nil, true)
		l.quiet()
	}},
	{"asked twice it is asked once", func(r *rig) {
		l := inFlight(r, "a1", "m1", orphan(time.Hour))
		r.cancel("a1")
		l.stops(map[string]string{"a1": ""})
		r.pass(r.rules.CancelGrace / 2)
		r.cancel("a1")
		r.pass(r.rules.CancelGrace / 2)
		require.False(r, r.confirmed("a1"), "the grace runs from the first")
	}},
	{"a dispatch that was not handed over is cancelled or told to stop, never lost", func(r *rig) {
		l := r.attach()
		l.quiet()
		r.push(action("a1"))
		state := r.cancel("a1").State
		sent := l.take()
		if state == ackstore.Cancelled {
			require.Empty(r, sent)
			return
		}
		require.Equal(r, ackstore.InFlight, state)
		l.stops(map[string]string{"a1": ""})
	}},
	{"a cancel outlives a crash", func(r *rig) {
		l := r.attach()
		r.push(action("a1", orphan(time.Hour)), action("a2", delay(time.Minute)))
		event := l.expect("a1")[0].EventID
		r.cancel("a1")
		r.cancel("a2")
		r.reopen()
		r.is(ackstore.Cancelled, "a2")
		l = r.attach(last(event))
		require.True(r, l.hello.InFlight[0].Cancel, "hello says it, its stream repeats it")
		r.pass(r.rules.CancelGrace)
		require.False(r, r.confirmed("a1"))
	}},
}
