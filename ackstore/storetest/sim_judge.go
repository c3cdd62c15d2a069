package storetest

import (
	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// judging is a subscription as protocol section 7 looks at it.
type judging struct {
	machine, instance string
	last              uint64
	readable          bool // last was given and is not from the future
}

// rowFor finds the row of the table of section 7 for an action's newest delivery.
func (j judging) rowFor(a ackstore.Action, acked bool) string {
	covered := j.readable && a.EventID <= j.last
	sameOne := j.instance != "" && a.SentTo == j.instance
	neither := j.instance == "" && a.SentTo == ""
	switch {
	case sameOne && !acked && j.readable && !covered:
		return resent
	case sameOne && (covered || acked):
		return kept
	case neither && (covered || acked):
		return graced
	}
	return lost
}

// judged holds a subscription against the table of section 7.
func (w *world) judged(before, after snapshot, l *line, j judging) {
	w.Helper()
	held := map[string]int{}
	for _, h := range l.hello.InFlight {
		held[h.ActionID] = h.Delivery
	}
	for _, id := range w.ids {
		a, there := before.actions[id]
		th := w.things[id]
		open := a.State == ackstore.InFlight || a.Orphan != 0 || a.State == ackstore.InDoubt && th.verdicts[a.Delivery] == 0
		if !there || a.MachineID != j.machine || !open || a.Delivery == 0 {
			continue
		}
		covered := j.readable && a.EventID <= j.last
		row := j.rowFor(a, th.acked[a.Delivery])
		if _, out := th.sends[a.Delivery]; !out || th.vague[a.Delivery] || a.Stall != "" {
			th.vague[a.Delivery], th.free = true, true // what the protocol leaves open
			continue
		}
		if covered && row != lost {
			th.acked[a.Delivery] = true
		}
		w.verdictOf(row, a, after.actions[id], held)
		if row == resent {
			th.free = true
		}
	}
}

// verdictOf wants what a row says of one action.
func (w *world) verdictOf(row string, a, now ackstore.Action, held map[string]int) {
	w.Helper()
	if row == kept || row == graced {
		require.Equal(w, []any{ackstore.InFlight.String(), a.Delivery}, []any{now.State.String(), now.Delivery}, "%s (%s, orphan %v) is %s", a.ID, a.State, a.Orphan, row)
		require.Equal(w, a.Delivery, held[a.ID], "hello tells of %s", a.ID)
		return
	}
	require.NotEqual(w, a.Delivery, held[a.ID], "hello tells of %s, which is %s", a.ID, row)
	expired := !a.ExpiresAt.IsZero() && !w.clock.now().Before(a.ExpiresAt) && now.State == ackstore.Expired
	switch {
	case a.CancelAsked() && a.State == ackstore.InFlight:
		require.Equal(w, ackstore.Cancelled.String(), now.State.String(), "%s, asked to cancel, is %s", a.ID, row)
	case expired:
	case row == lost && a.Guarantee == ackstore.AtMostOnce && !(a.Orphan != 0 && w.things[a.ID].free): // free: shown before, and said for good
		require.Equal(w, ackstore.InDoubt.String(), now.State.String(), "%s is lost", a.ID)
	default:
		again := now.State == ackstore.InFlight && now.Delivery > a.Delivery
		waits := now.State.Waits() && now.Orphan != 0
		spent := now.State == ackstore.GaveUp || now.State == ackstore.InDoubt && a.Guarantee == ackstore.AtMostOnce
		require.True(w, again || waits || spent, "%s is %s: it is %s delivery %d, was %s delivery %d", a.ID, row, now.State, now.Delivery, a.State, a.Delivery)
	}
}
