package storetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// cells is a column of the matrix: verb to "outcome state", and " cancel" where
// the answer must tell the agent to stop (`?`: where it may). A state of `*` is
// that from before. What the protocol does not decide is absent.
type cells map[string]string

// column brings an action of its own machine into a state.
type column struct {
	name     string
	delivery int // that its acks name
	newest   int // how many there have been
	setup    func(r *rig, id, machine string)
	cells    cells
}

var matrixVerbs = []string{
	"received", "working", "done", "failed permanent", "failed", "failed error", "failed transient", "failed quota",
	"failed config", "released", "cancelled",
}

// matrixChecks is the table of protocol section 9, a column a check, each verb
// once with its delivery named and once without.
func matrixChecks() []check {
	var checks []check
	for _, c := range matrixColumns {
		checks = append(checks, check{c.name, c.judge})
	}
	return checks
}

func (c column) judge(r *rig) {
	r.rules.BreakerThreshold = 100_000
	r.rules.ErrorDelay, r.rules.BackoffBase = time.Minute, time.Minute
	for verb := range c.cells {
		require.Contains(r, matrixVerbs, verb)
	}
	for _, verb := range matrixVerbs {
		want, decided := c.cells[verb]
		if !decided {
			continue
		}
		c.cell(r, verb, want, true)
		switch {
		case c.delivery != c.newest && c.newest > 0: // it would speak of another
		case c.newest > 1 && (strings.HasPrefix(verb, "failed") || verb == "released" || verb == "cancelled"):
			c.cell(r, verb, "conflict *", false)
		default:
			c.cell(r, verb, want, false)
		}
	}
}

// cell sends one verb to a fresh action in the column's state.
func (c column) cell(r *rig, verb, want string, named bool) {
	r.Helper()
	id := strings.ReplaceAll(verb, " ", "-")
	if named {
		id += "-named"
	}
	machine := "m." + id
	c.setup(r, id, machine)
	a := ackOf(verb, id)
	if named {
		a.Delivery = c.delivery
	}
	before := r.get(id).State
	outcome, rest, _ := strings.Cut(want, " ")
	state, flag, _ := strings.Cut(rest, " ")
	if state == "*" {
		state = before.String()
	}
	got := r.ack(a)
	require.Contains(r, strings.Split(outcome, "|"), got.Outcome.String(), "outcome of %s", id)
	require.Equal(r, state, r.get(id).State.String(), "state after %s", id)
	if outcome == "conflict" {
		require.Zero(r, got.State, "a conflict tells no state")
		return
	}
	require.Equal(r, state, got.State.String(), "state told to %s", id)
	if got.Outcome == ackstore.Stale {
		flag = "cancel"
	}
	if flag != "?" {
		require.Equal(r, flag == "cancel", got.Cancel, "cancel told to %s", id)
	}
	if got.Outcome == ackstore.Retry && state == "scheduled" {
		require.True(r, got.AvailableAt.Equal(r.get(id).AvailableAt), "a retry bears available_at")
	}
	require.Equal(r, got.Outcome == ackstore.Late, r.get(id).Late || got.Outcome == ackstore.Late && !a.Verb.Verdict(), "late of %s", id)
}

// ackOf makes the ack of a verb of the matrix.
func ackOf(verb, id string) ackstore.Ack {
	switch verb {
	case "received":
		return received(id)
	case "working":
		return working(id, token(1))
	case "done":
		return done(id)
	case "released":
		return released(id, inAtLeast(30*time.Second))
	case "cancelled":
		return cancelled(id)
	}
	return failed(id, strings.TrimPrefix(strings.TrimPrefix(verb, "failed"), " "))
}
