package ledger

import (
	"time"

	"pushd/ackstore"
)

// Return is an agent that subscribes: what it says it remembers.
type Return struct {
	Instance string  // empty: none
	Last     *uint64 // Last-Event-ID; nil: none, not readable or from the future
	Via      ackstore.Via
	Epoch    uint64 // of the new lease
}

// Judge decides what becomes of the newest delivery of an action that is in
// flight from an earlier stream, or its orphan, or in doubt: the table of
// protocol section 7.
func Judge(a *ackstore.Action, in Return, r ackstore.Rules, held bool, now time.Time) {
	same := in.Instance != "" && a.SentTo == in.Instance
	none := in.Instance == "" && a.SentTo == ""
	covered := in.Last != nil && a.EventID <= *in.Last
	switch {
	case same && !a.Acked && in.Last != nil && !covered:
		neverReceived(a, r, held, now)
	case same && (covered || a.Acked):
		keep(a, in, now)
	case none && (covered || a.Acked):
		keepForGrace(a, in, now)
	case a.State == ackstore.InFlight:
		Lose(a, ackstore.ByDisconnect, r, held, now)
	}
}

// neverReceived sends it again within its caps, at most once too. What waits for
// a resend already does so for the loss it was found missing by.
func neverReceived(a *ackstore.Action, r ackstore.Rules, held bool, now time.Time) {
	if a.Orphan != 0 {
		return
	}
	a.Record(now, "orphan", "never received")
	if a.CancelAsked() {
		cancelled(a, ackstore.ByWatchdog, false, now, "it was never received")
		return
	}
	orphan(a, ackstore.ByDisconnect, r, held, now)
}

// keep leaves it in flight under its delivery: its agent has it. Neither the
// ceiling nor a stall's grace begins again.
func keep(a *ackstore.Action, in Return, now time.Time) {
	backInFlight(a, now)
	a.LostSince = time.Time{}
	a.Epoch = in.Epoch
	if in.Via == ackstore.ViaPoll && a.Via == ackstore.ViaPoll && !a.Acked {
		// A poller tells its last event with each poll, whatever became of the
		// work: only its acks count as receipts.
		return
	}
	a.Via = in.Via
	received(a, now)
	a.ActiveAt = now
}

// keepForGrace leaves what an agent without an instance has received in flight
// for as long as reconnect_grace lets it.
func keepForGrace(a *ackstore.Action, in Return, now time.Time) {
	backInFlight(a, now)
	a.LostSince = now
	a.Epoch = in.Epoch
	received(a, now)
	a.ActiveAt = now
}

func backInFlight(a *ackstore.Action, now time.Time) {
	if a.State != ackstore.InFlight {
		a.Record(now, "revived", "its agent has it")
	}
	a.State, a.Orphan = ackstore.InFlight, 0
}

func received(a *ackstore.Action, now time.Time) {
	a.Acked = true
	if a.ReceivedAt.IsZero() {
		a.ReceivedAt = now
		a.Record(now, "received", "by its Last-Event-ID")
	}
}
