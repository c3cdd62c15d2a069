package ledger

import (
	"time"

	"pushd/ackstore"
	"pushd/policy"
)

// Effect is what a transition asks of the driver beyond writing the action.
type Effect struct {
	Outcome     ackstore.Outcome // of an ack
	Cancel      bool             // the ack's answer tells the agent to stop
	AvailableAt time.Time        // of a retry

	KeepResult bool        // the ack's result is the action's now
	Tell       bool        // the stream is to be told to stop the newest delivery
	TellReason string      // why
	Door       policy.Door // word about the breaker of the action's target
	DoorFor    time.Duration
	DoorReason string
	Answered   bool // `done`: the service answered
}

// settle ends an action; now is the store's.
func settle(a *ackstore.Action, s ackstore.State, by ackstore.Settler, now time.Time) {
	a.State = s
	a.SettledAt = now
	a.SettledBy = by
	leaveFlight(a)
	a.AvailableAt = time.Time{}
}

// leaveFlight forgets what only a delivery that is out has.
func leaveFlight(a *ackstore.Action) {
	a.Orphan = 0
	a.Stall, a.StalledAt = "", time.Time{}
	a.CancelAskedAt = time.Time{}
	a.LostSince = time.Time{}
}

// cancelled ends an action as asked; confirmed tells whether its agent said so.
func cancelled(a *ackstore.Action, by ackstore.Settler, confirmed bool, now time.Time, why string) {
	settle(a, ackstore.Cancelled, by, now)
	a.CancelConfirmed = &confirmed
	a.Record(now, "cancelled", why)
}

// wait sends an action back to its place, to be dispatched at now+delay.
func wait(a *ackstore.Action, delay time.Duration, now time.Time) {
	leaveFlight(a)
	a.State, a.AvailableAt, a.Delayed = ackstore.Queued, time.Time{}, false
	if delay > 0 {
		a.State, a.AvailableAt, a.Delayed = ackstore.Scheduled, CeilMilli(now.Add(delay)), true
	}
	expireIfDue(a, now)
}

// expireIfDue ends what comes back to the queue after its expiry.
func expireIfDue(a *ackstore.Action, now time.Time) bool {
	if a.ExpiresAt.IsZero() || now.Before(a.ExpiresAt) {
		return false
	}
	Expire(a, now)
	return true
}

// Expire ends an action that waits past its expiry.
func Expire(a *ackstore.Action, now time.Time) {
	settle(a, ackstore.Expired, ackstore.ByWatchdog, now)
	a.Record(now, "expired", "")
}

// CeilMilli rounds up to the milliseconds in which the protocol tells times, so
// that no one can see something happen before the time it was told for.
func CeilMilli(t time.Time) time.Time {
	if f := t.Truncate(time.Millisecond); !f.Equal(t) {
		return f.Add(time.Millisecond)
	}
	return t
}

func capsOf(a *ackstore.Action) policy.Caps {
	return policy.Caps{Attempts: a.MaxAttempts, Transient: a.TransientMaxAttempts}
}

func countersOf(a *ackstore.Action) policy.Counters {
	return policy.Counters{
		Attempts: a.Attempts, Transient: a.TransientAttempts,
		Quota: a.QuotaWaits, Config: a.ConfigWaits, Releases: a.Releases,
	}
}

func setCounters(a *ackstore.Action, c policy.Counters) {
	a.Attempts, a.TransientAttempts = c.Attempts, c.Transient
	a.QuotaWaits, a.ConfigWaits, a.Releases = c.Quota, c.Config, c.Releases
}

// NumbersOf picks what policy decides by.
func NumbersOf(r ackstore.Rules) policy.Numbers {
	return policy.Numbers{
		ErrorDelay: r.ErrorDelay, BackoffBase: r.BackoffBase, BackoffMax: r.BackoffMax,
		QuotaDelay: r.QuotaDelay, ReleaseDelay: r.ReleaseDelay,
	}
}
