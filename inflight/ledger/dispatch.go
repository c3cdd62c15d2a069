package ledger

import (
	"time"

	"pushd/ackstore"
)

// Flight says how a delivery goes out.
type Flight struct {
	EventID, Stamp, Epoch uint64
	Via                   ackstore.Via
	Instance              string
	OrphanTimeout         time.Duration // of the subscription; 0: the server's
}

// Dispatch puts an action that waits in flight under its next delivery number.
// A resend is counted here, when it goes out, and not when it was found missing.
func Dispatch(a *ackstore.Action, f Flight, r ackstore.Rules, now time.Time) {
	a.State = ackstore.InFlight
	a.Delivery++
	a.Deliveries++
	a.EventID, a.Stamp, a.Epoch, a.Via, a.SentTo = f.EventID, f.Stamp, f.Epoch, f.Via, f.Instance
	a.SentAs, a.Orphan = a.Orphan, 0
	event := "dispatched"
	switch a.SentAs {
	case ackstore.ByTimeout:
		a.ResentTimeout++
	case ackstore.ByDisconnect:
		a.ResentDisconnect++
	}
	if a.SentAs != 0 {
		event, a.LastResentAt = "resent", now
	}
	if a.FirstDispatchedAt.IsZero() {
		a.FirstDispatchedAt = now
	}
	a.DispatchedAt = now
	a.OrphanAfter = orphanTimeout(a, f, r)
	a.Acked, a.ReceivedAt, a.LastAckAt, a.ActiveAt, a.ActivityToken = false, time.Time{}, time.Time{}, time.Time{}, nil
	a.Stall, a.StalledAt, a.LostSince = "", time.Time{}, time.Time{}
	a.Record(now, event, "")
}

func orphanTimeout(a *ackstore.Action, f Flight, r ackstore.Rules) time.Duration {
	switch {
	case a.OrphanTimeout > 0:
		return a.OrphanTimeout
	case f.OrphanTimeout > 0:
		return f.OrphanTimeout
	case f.Via == ackstore.ViaPoll:
		return r.PollOrphanTimeout
	}
	return r.OrphanTimeout
}

// Unsend takes back a delivery of which no byte was written: it is not counted,
// and its number stays spent. It may have been taken for lost meanwhile, where
// the stream it was to go out on hung; that loss was none. It reports whether
// the delivery was still unanswered.
func Unsend(a *ackstore.Action, delivery int, now time.Time) bool {
	out := a.State == ackstore.InFlight || a.State == ackstore.InDoubt || a.Orphan != 0
	if !out || a.Delivery != delivery || a.Acked {
		return false
	}
	a.Deliveries--
	switch a.SentAs {
	case ackstore.ByTimeout:
		a.ResentTimeout--
	case ackstore.ByDisconnect:
		a.ResentDisconnect--
	}
	if a.Deliveries == 0 {
		a.FirstDispatchedAt = time.Time{}
	}
	a.Record(now, "unsent", "no byte of it was written")
	if a.CancelAsked() {
		cancelled(a, ackstore.ByWatchdog, false, now, "never sent")
		return true
	}
	was := a.SentAs
	wait(a, 0, now)
	if a.State == ackstore.Queued {
		a.Orphan = was
	}
	return true
}
