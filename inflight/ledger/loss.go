package ledger

import (
	"time"

	"pushd/ackstore"
	"pushd/policy"
)

// Due is what happens to an action in flight when a deadline passes.
type Due uint8

// The deadlines of protocol sections 7, 8 and 12.
const (
	DueNever       Due = iota
	DueOrphan          // no ack within its orphan timeout
	DueGone            // its stream has ended and the grace is over
	DueStall           // received, and no activity for too long
	DueCeiling         // received, and out for too long
	DueStallGrace      // told to stop, and no verdict
	DueCancelGrace     // asked to cancel, and no answer
)

// Deadline is the next moment at which something happens to an action in flight.
func Deadline(a *ackstore.Action, r ackstore.Rules) (time.Time, Due) {
	if a.State != ackstore.InFlight {
		return time.Time{}, DueNever
	}
	var at time.Time
	due := DueNever
	first := func(t time.Time, d Due) {
		if due == DueNever || t.Before(at) {
			at, due = t, d
		}
	}
	if a.CancelAsked() {
		first(a.CancelAskedAt.Add(r.CancelGrace), DueCancelGrace)
	}
	if a.Stall != "" {
		first(a.StalledAt.Add(r.CancelGrace), DueStallGrace)
	}
	if r.WatchdogOff {
		return at, due
	}
	switch {
	case !a.LostSince.IsZero() && a.Acked:
		first(later(a.LostSince, a.LastAckAt).Add(r.ReconnectGrace), DueGone)
	case !a.LostSince.IsZero():
		first(a.LostSince.Add(r.DisconnectGrace), DueGone)
	case !a.Acked:
		first(a.DispatchedAt.Add(a.OrphanAfter), DueOrphan)
	}
	if a.Acked && a.Stall == "" {
		first(a.ActiveAt.Add(orElse(a.InactivityTimeout, r.InactivityTimeout)), DueStall)
		first(a.DispatchedAt.Add(orElse(a.Ceiling, r.Ceiling)), DueCeiling)
	}
	return at, due
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func orElse(own, server time.Duration) time.Duration {
	if own > 0 {
		return own
	}
	return server
}

// Pass applies a deadline that has passed. Held tells whether a pause holds the
// action: then a loss waits, and is resent or given up after the resume.
func Pass(a *ackstore.Action, due Due, r ackstore.Rules, held bool, now time.Time) Effect {
	switch due {
	case DueOrphan:
		Lose(a, ackstore.ByTimeout, r, held, now)
	case DueGone:
		Lose(a, ackstore.ByDisconnect, r, held, now)
	case DueStall:
		return stall(a, string(policy.Stalled), now)
	case DueCeiling:
		return stall(a, string(policy.Ceiling), now)
	case DueStallGrace:
		return stallOver(a, r, now)
	case DueCancelGrace:
		cancelled(a, ackstore.ByWatchdog, false, now, "no answer within cancel_grace")
	}
	return Effect{}
}

// Lose takes the newest delivery for lost: its action waits to be resent, or it
// is in doubt, given up, expired, or cancelled where that was asked.
func Lose(a *ackstore.Action, cause ackstore.Cause, r ackstore.Rules, held bool, now time.Time) {
	a.Record(now, "orphan", cause.String())
	if cause == ackstore.ByDisconnect && a.LostSince.IsZero() {
		a.LostSince = now
	}
	switch {
	case a.CancelAsked():
		cancelled(a, ackstore.ByWatchdog, false, now, "its delivery was lost")
	case a.Guarantee == ackstore.AtMostOnce:
		doubt(a, now)
	default:
		orphan(a, cause, r, held, now)
	}
}

// doubt keeps LostSince: a sign of life brings the delivery back with its grace.
func doubt(a *ackstore.Action, now time.Time) {
	a.State = ackstore.InDoubt
	a.Orphan = 0
	a.Stall, a.StalledAt = "", time.Time{}
	a.Record(now, "in_doubt", "")
}

// orphan makes the action wait for its resend, if its budget has one left.
func orphan(a *ackstore.Action, cause ackstore.Cause, r ackstore.Rules, held bool, now time.Time) {
	a.State, a.AvailableAt, a.Orphan = ackstore.Queued, time.Time{}, cause
	a.Stall, a.StalledAt = "", time.Time{}
	if !held && Spent(a, r) {
		GiveUp(a, now)
		return
	}
	expireIfDue(a, now)
}

// Spent tells whether an orphan has used up the resends of its cause.
func Spent(a *ackstore.Action, r ackstore.Rules) bool {
	switch a.Orphan {
	case ackstore.ByTimeout:
		return a.ResentTimeout >= a.MaxResends
	case ackstore.ByDisconnect:
		return a.ResentDisconnect >= r.MaxDisconnectResends
	}
	return false
}

// GiveUp ends an orphan whose resends are used up.
func GiveUp(a *ackstore.Action, now time.Time) {
	why := a.Orphan.String()
	settle(a, ackstore.GaveUp, ackstore.ByWatchdog, now)
	a.Record(now, "gave_up", why)
}

// stall tells the agent to stop. The delivery stays in flight until its verdict
// or the grace; where a cancel was asked already, a stall is its end.
func stall(a *ackstore.Action, kind string, now time.Time) Effect {
	if a.CancelAsked() {
		cancelled(a, ackstore.ByWatchdog, false, now, kind)
		return Effect{Tell: true, TellReason: kind}
	}
	a.Stall, a.StalledAt = kind, now
	a.Record(now, kind, "told to stop")
	return Effect{Tell: true, TellReason: kind}
}

// stallOver counts a stall that nobody answered for as a failed attempt.
func stallOver(a *ackstore.Action, r ackstore.Rules, now time.Time) Effect {
	switch {
	case a.CancelAsked():
		cancelled(a, ackstore.ByWatchdog, false, now, a.Stall)
		return Effect{}
	case a.Guarantee == ackstore.AtMostOnce:
		doubt(a, now)
		return Effect{}
	}
	return fail(a, stallFailure(a, ""), failing{by: ackstore.ByWatchdog}, r, now)
}

// stallFailure is the error of stalled work, whatever its agent says of it.
func stallFailure(a *ackstore.Action, said string) *ackstore.Failure {
	message := "no activity within its inactivity timeout"
	if a.Stall == string(policy.Ceiling) {
		message = "in work for longer than its ceiling"
	}
	if said != "" {
		message += "; its agent said: " + said
	}
	return &ackstore.Failure{Kind: a.Stall, Message: message}
}

// failing says in which way an execution failed.
type failing struct {
	by         ackstore.Settler
	retryAfter time.Duration
	jitter     float64
	final      bool // whatever the budgets: late, or in doubt
	silent     bool // says nothing of the service
}

// fail counts a failed execution and sends the action back or ends it.
func fail(a *ackstore.Action, f *ackstore.Failure, how failing, r ackstore.Rules, now time.Time) Effect {
	v := policy.Decide(policy.Failure{
		Kind: policy.Kind(f.Kind), RetryAfter: how.retryAfter, Jitter: how.jitter,
		Final: how.final || a.Guarantee == ackstore.AtMostOnce,
	}, countersOf(a), capsOf(a), NumbersOf(r))
	setCounters(a, v.Counters)
	a.Error = f
	a.Record(now, "failed", f.Kind)
	e := Effect{Door: v.Door, DoorFor: v.DoorFor, DoorReason: f.Kind}
	if how.silent {
		e.Door = policy.DoorNone
	}
	if v.Failed {
		settle(a, ackstore.Failed, how.by, now)
		e.Outcome = ackstore.Settled
		return e
	}
	a.ResentTimeout, a.ResentDisconnect = 0, 0 // a new execution, a full budget
	wait(a, v.Wait, now)
	e.Outcome, e.AvailableAt = ackstore.Retry, a.AvailableAt
	if a.State == ackstore.Expired {
		e.Outcome = ackstore.Settled
	}
	if e.AvailableAt.IsZero() {
		e.AvailableAt = CeilMilli(now)
	}
	return e
}
