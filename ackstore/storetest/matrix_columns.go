package storetest

import (
	"maps"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// inFlight leaves an action in flight under delivery 1 on a stream of i1.
func inFlight(r *rig, id, machine string, opts ...opt) *line {
	r.Helper()
	r.push(action(id, append([]opt{of(machine), attempts(1)}, opts...)...))
	l := r.attach(on(machine))
	l.again(id, 1)
	return l
}

// secondOut leaves it in flight under delivery 2.
func secondOut(r *rig, id, machine string) *line {
	r.Helper()
	inFlight(r, id, machine)
	l := r.attach(on(machine), as("i2"))
	l.again(id, 2)
	return l
}

func orphaned(r *rig, id, machine string, opts ...opt) {
	r.Helper()
	inFlight(r, id, machine, opts...).end()
	r.pass(r.rules.DisconnectGrace)
	r.is(ackstore.Queued, id)
}

func doubted(r *rig, id, machine string) {
	r.Helper()
	inFlight(r, id, machine, once, orphan(time.Second))
	r.pass(time.Second)
	r.is(ackstore.InDoubt, id)
}

func givenUp(r *rig, id, machine string) {
	r.Helper()
	inFlight(r, id, machine, orphan(time.Second), resends(0))
	r.pass(time.Second)
	r.is(ackstore.GaveUp, id)
}

func resolvedAs(state ackstore.State) func(r *rig, id, machine string) {
	return func(r *rig, id, machine string) {
		r.Helper()
		doubted(r, id, machine)
		r.resolve(id, state)
	}
}

// newestOut is the column "in flight, the newest" with no attempts left.
var newestOut = cells{
	"received": "accepted in_flight", "working": "accepted in_flight", "done": "settled done",
	"failed": "settled failed", "failed error": "settled failed", "failed permanent": "settled failed",
	"failed transient": "retry scheduled", "failed quota": "retry scheduled", "failed config": "retry queued",
	"released": "released scheduled", "cancelled": "settled failed",
}

var orphanWaits = with(newestOut, cells{"received": "revived in_flight", "working": "revived in_flight"})

// otherwiseWaits is the column "waits otherwise", with the verdict it waits for.
func otherwiseWaits(own string) cells {
	c := cells{"done": "settled done"}
	for _, verb := range matrixVerbs {
		if verb != "done" {
			c[verb] = "stale *"
		}
	}
	for _, verb := range matrixVerbs {
		if own == "failed" && len(verb) >= 6 && verb[:6] == "failed" || verb == own {
			c[verb] = "duplicate *"
		}
	}
	return c
}

// outcomeUnknown is the column of gave_up, expired and failed by the watchdog.
func outcomeUnknown(state string) cells {
	return cells{
		"received": "late " + state, "working": "late " + state, "done": "late done",
		"failed": "late failed", "failed error": "late failed", "failed permanent": "late failed", "failed transient": "late failed",
		"failed quota": "late failed", "failed config": "late failed",
		"released": "stale " + state, "cancelled": "stale " + state,
	}
}

// outcomeKnown is the column of done and failed by ack or operator.
func outcomeKnown(state, stop string) cells {
	c := cells{"released": "stale " + state, "cancelled": "stale " + state, "done": "duplicate " + state}
	for _, verb := range matrixVerbs[3:9] {
		c[verb] = "duplicate " + state
	}
	c["received"], c["working"] = "duplicate "+state+stop, "duplicate "+state+stop
	return c
}

var afterCancel = cells{
	"received": "late cancelled cancel", "working": "late cancelled cancel", "done": "late cancelled",
	"failed": "late cancelled", "failed permanent": "late cancelled", "failed transient": "late cancelled",
	"released": "stale cancelled", "cancelled": "duplicate cancelled",
}

func with(c, more cells) cells {
	c = maps.Clone(c)
	maps.Copy(c, more)
	return c
}

func all(outcome string, verbs ...string) cells {
	c := cells{}
	for _, verb := range verbs {
		c[verb] = outcome
	}
	return c
}

var failures = []string{"failed", "failed error", "failed permanent", "failed transient", "failed quota", "failed config"}

var matrixColumns = []column{
	{"never sent", 1, 0, func(r *rig, id, machine string) { r.push(action(id, of(machine))) }, all("conflict *", matrixVerbs...)},
	{"cancelled before it was sent", 1, 0, func(r *rig, id, machine string) {
		r.push(action(id, of(machine)))
		r.cancel(id)
	}, all("conflict *", matrixVerbs...)},
	{"in flight", 1, 1, func(r *rig, id, machine string) { inFlight(r, id, machine) }, newestOut},
	{"in flight, received", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine)
		r.answers(ackstore.Accepted, received(id))
	}, newestOut},
	{"in flight, its stream gone", 1, 1, func(r *rig, id, machine string) { inFlight(r, id, machine).end() }, newestOut},
	{"in flight, after a crash", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine)
		r.reopen()
	}, newestOut},
	{"in flight, attempts left", 1, 1, func(r *rig, id, machine string) { inFlight(r, id, machine, attempts(2)) }, with(newestOut, cells{
		"failed error": "retry scheduled", "failed": "retry scheduled",
	})},
	{
		"in flight, at_most_once", 1, 1, func(r *rig, id, machine string) { inFlight(r, id, machine, once, attempts(5)) },
		with(newestOut, all("settled failed", failures...)),
	},
	{"in flight, asked to cancel", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine, attempts(5))
		r.cancel(id)
	}, with(all("settled cancelled", append(failures, "released", "cancelled")...), cells{
		"received": "accepted in_flight cancel", "working": "accepted in_flight cancel", "done": "settled done",
	})},
	{"in flight, stalled", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine, idle(time.Second), attempts(5))
		r.answers(ackstore.Accepted, received(id))
		r.pass(time.Second)
		require.Equal(r, "stalled", r.get(id).Stall)
	}, with(all("retry scheduled", append(failures, "released", "cancelled")...), cells{
		"received": "accepted in_flight cancel", "working": "accepted in_flight cancel", "done": "settled done",
	})},
	{"in flight, the second", 2, 2, func(r *rig, id, machine string) { secondOut(r, id, machine) }, newestOut},
	{
		"in flight, an older one", 1, 2, func(r *rig, id, machine string) { secondOut(r, id, machine) },
		with(all("stale in_flight", append(failures, "released", "cancelled")...), cells{
			"received": "accepted in_flight", "working": "accepted in_flight", "done": "settled done",
		}),
	},
	{"orphan", 1, 1, func(r *rig, id, machine string) { orphaned(r, id, machine) }, orphanWaits},
	{"orphan, the second", 2, 2, func(r *rig, id, machine string) {
		secondOut(r, id, machine).end()
		r.pass(r.rules.DisconnectGrace)
	}, orphanWaits},
	{"orphan, an older one", 1, 2, func(r *rig, id, machine string) {
		secondOut(r, id, machine).end()
		r.pass(r.rules.DisconnectGrace)
	}, with(all("stale queued", append(failures, "released", "cancelled")...), cells{"done": "settled done"})},
	{"waits for a retry", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine)
		r.answers(ackstore.Retry, failed(id, "transient"))
	}, otherwiseWaits("failed")},
	{"waits after a release", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine)
		r.answers(ackstore.ReleasedBack, released(id, inAtLeast(time.Hour)))
	}, otherwiseWaits("released")},
	{"waits after a redrive", 1, 1, func(r *rig, id, machine string) {
		givenUp(r, id, machine)
		r.credit(machine, new(int), true)
		r.redrive(id)
	}, otherwiseWaits("")},
	{"in doubt", 1, 1, doubted, with(with(newestOut, all("settled failed", failures...)), cells{
		"received": "revived in_flight", "working": "revived in_flight",
	})},
	{"gave up", 1, 1, givenUp, outcomeUnknown("gave_up")},
	{"expired after a loss", 1, 1, func(r *rig, id, machine string) {
		orphaned(r, id, machine, ttl(30*time.Second))
		r.pass(30 * time.Second)
		r.is(ackstore.Expired, id)
	}, outcomeUnknown("expired")},
	{"failed by the watchdog", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine, idle(time.Second))
		r.answers(ackstore.Accepted, received(id))
		r.pass(time.Second)
		r.pass(r.rules.CancelGrace)
		r.is(ackstore.Failed, id)
	}, outcomeUnknown("failed")},
	{"done", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine)
		r.done(id)
	}, with(outcomeKnown("done", " cancel"), all("duplicate|stale done", failures...))},
	{"failed", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine)
		r.answers(ackstore.Settled, failed(id, "permanent"))
	}, outcomeKnown("failed", " cancel")},
	{"done by operator", 1, 1, resolvedAs(ackstore.Done), outcomeKnown("done", " cancel")},
	{"failed by operator", 1, 1, resolvedAs(ackstore.Failed), outcomeKnown("failed", " ?")},
	{"cancelled as an orphan", 1, 1, func(r *rig, id, machine string) {
		orphaned(r, id, machine)
		r.cancel(id)
	}, afterCancel},
	{"cancelled by its agent", 1, 1, func(r *rig, id, machine string) {
		inFlight(r, id, machine)
		r.cancel(id)
		r.answers(ackstore.Settled, cancelled(id))
	}, with(afterCancel, cells{"released": "stale cancelled"})},
}
