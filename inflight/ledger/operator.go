package ledger

import (
	"time"

	"pushd/ackstore"
)

// Cancel follows the row of that name of protocol section 12. What is in flight
// is asked to stop; nothing of it is sent again from here on.
func Cancel(a *ackstore.Action, reason string, now time.Time) Effect {
	switch {
	case a.State.Settled() || a.CancelAsked():
		return Effect{}
	case a.State == ackstore.InFlight:
		a.CancelAskedAt, a.CancelReason = now, reason
		a.Record(now, "cancel_asked", reason)
		return Effect{Tell: true, TellReason: reason}
	}
	tell := a.Orphan != 0
	a.CancelReason = reason
	settle(a, ackstore.Cancelled, ackstore.ByOperator, now)
	a.Record(now, "cancelled", reason)
	return Effect{Tell: tell, TellReason: reason}
}

// Redrive makes a dead letter, a cancelled action or one in doubt wait again with
// full budgets; its deliveries and its history go on. It reports whether the
// action's state allows it.
func Redrive(a *ackstore.Action, by string, now time.Time) bool {
	if a.State != ackstore.InDoubt && !a.State.DeadLetter() && a.State != ackstore.Cancelled {
		return false
	}
	leaveFlight(a)
	a.State, a.AvailableAt, a.ExpiresAt = ackstore.Queued, time.Time{}, time.Time{}
	a.ResentTimeout, a.ResentDisconnect, a.Attempts, a.TransientAttempts = 0, 0, 0, 0
	a.QuotaWaits, a.ConfigWaits, a.Releases = 0, 0, 0
	a.SettledAt, a.SettledBy, a.SettledDelivery = time.Time{}, 0, 0
	a.Error, a.HasResult, a.Late, a.CancelConfirmed, a.CancelReason, a.Note = nil, false, false, nil, "", ""
	a.Redrives++
	a.Record(now, "redriven", by)
	return true
}

// Resolve says what became of an action in doubt or given up, by an operator who
// has looked. It reports whether the action's state allows it.
func Resolve(a *ackstore.Action, as ackstore.State, note string, now time.Time) bool {
	if a.State != ackstore.InDoubt && a.State != ackstore.GaveUp {
		return false
	}
	settle(a, as, ackstore.ByOperator, now)
	a.Note = note
	a.Record(now, "resolved", as.String())
	return true
}
