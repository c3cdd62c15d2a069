package storetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// invariants are those of design section 7 that are looked at after each step;
// the others are called where what they speak of happens.
var invariants = []struct {
	text  string
	holds func(*world)
}{
	{"1. Every accepted push is in exactly one state.", inv1},
	{"5. Nothing is sent while an older unsettled action of its lane exists.", inv5},
	{"6. A dispatch never makes in-flight exceed credit.", inv6},
	{"7. Resends, attempts and transient attempts stay within their caps, and move only when bytes go out or an ack comes in.", inv7},
	{"8. A settled state never changes, except that a result beats an unknown outcome, and by redrive.", inv8},
	{"9. The first result is the one kept.", inv9},
	{"10. Nothing paused, cancelled (or asked to be) or past its expiry is sent.", inv10},
	{"12. The counts equal a full scan.", inv12},
}

// inv1: every accepted push is in exactly one state.
func inv1(w *world) {
	w.Helper()
	for _, id := range w.ids {
		a, there := w.cur.actions[id]
		if there {
			require.Contains(w, ackstore.States(), a.State, "state of %s", id)
			continue
		}
		if w.forgotten[id] {
			continue
		}
		before := w.prev.actions[id]
		require.True(w, before.State.Settled(), "%s was %s and is gone", id, before.State)
		require.False(w, before.SettledAt.Add(w.rules.KeepSettled).After(w.cur.now), "%s is gone before its time", id)
		w.forgotten[id] = true
	}
}

// inv2: no bytes of an action after an accepted result.
func inv2(w *world, th *thing, d ackstore.Dispatch) {
	w.Helper()
	require.False(w, th.over, "%s delivery %d is sent after a result was taken", d.ActionID, d.Delivery)
}

// inv3: delivery strictly grows per action, event ids per machine, across restarts.
func inv3(w *world, th *thing, d ackstore.Dispatch) {
	w.Helper()
	require.Greater(w, d.Delivery, th.newest, "delivery of %s", d.ActionID)
	require.Greater(w, d.EventID, w.events[d.MachineID], "event id of %s", d.ActionID)
}

// inv4: at_most_once is never sent again after it may have been received.
func inv4(w *world, th *thing, d ackstore.Dispatch) {
	w.Helper()
	if th.pushed.Guarantee == ackstore.AtMostOnce && th.newest > 0 {
		require.True(w, th.free, "%s delivery %d: delivery %d may have been received", d.ActionID, d.Delivery, th.newest)
	}
}

// sent lists what was dispatched in the last step: before and after.
func (w *world) sent() map[string][2]ackstore.Action {
	sent := map[string][2]ackstore.Action{}
	for id, a := range w.cur.actions {
		if a.Delivery > w.prev.actions[id].Delivery {
			sent[id] = [2]ackstore.Action{w.prev.actions[id], a}
		}
	}
	return sent
}

// inv5: nothing is sent while an older unsettled action of its lane exists.
func inv5(w *world) {
	w.Helper()
	for id, a := range w.sent() {
		for other, o := range w.cur.actions {
			older := o.MachineID == a[1].MachineID && o.SessionID == a[1].SessionID && o.SessionID != "" && o.Seq < a[1].Seq
			require.False(w, older && !o.State.Settled(), "%s was sent while %s is %s", id, other, o.State)
		}
	}
}

// inv6: a dispatch never makes in-flight exceed credit.
func inv6(w *world) {
	w.Helper()
	for id, a := range w.sent() {
		out := 0
		for _, o := range w.cur.actions {
			if o.MachineID == a[1].MachineID && o.State == ackstore.InFlight {
				out++
			}
		}
		m := w.machine(a[1].MachineID)
		require.LessOrEqual(w, out, m.Credit, "%s was sent: in flight on %s", id, m.ID)
		require.NotNil(w, w.lines[m.ID], "%s was sent to a machine that is not there", id)
	}
}

// inv7: resends, attempts and transient attempts stay within their caps, and
// move only when bytes go out or a verdict comes in.
func inv7(w *world) {
	w.Helper()
	for id, a := range w.cur.actions {
		b, known := w.prev.actions[id]
		require.LessOrEqual(w, a.ResentTimeout, a.MaxResends, "resends of %s by timeout", id)
		require.LessOrEqual(w, a.ResentDisconnect, w.rules.MaxDisconnectResends, "resends of %s by disconnect", id)
		require.LessOrEqual(w, a.Attempts, a.MaxAttempts, "attempts of %s", id)
		require.LessOrEqual(w, a.TransientAttempts, a.TransientMaxAttempts, "transient attempts of %s", id)
		require.LessOrEqual(w, max(a.QuotaWaits, a.ConfigWaits), 4, "waits of %s", id)
		if !known {
			continue
		}
		if a.Delivery == b.Delivery {
			require.LessOrEqual(w, a.Resent(), b.Resent(), "resent_count of %s moved with no bytes", id)
		} else {
			require.LessOrEqual(w, a.Resent(), b.Resent()+a.Delivery-b.Delivery, "resent_count of %s", id)
		}
		if said := w.step.name == "ack" && w.step.id == id; !said {
			require.LessOrEqual(w, a.TransientAttempts, b.TransientAttempts, "transient attempts of %s moved with no ack", id)
			require.True(w, a.Attempts <= b.Attempts || b.Stall != "" && b.State == ackstore.InFlight, "attempts of %s moved with no verdict", id)
		}
	}
}

// inv8: a settled state never changes, except that a result beats an unknown
// outcome, and by redrive (or the operator's word on a give-up).
func inv8(w *world) {
	w.Helper()
	for id, a := range w.cur.actions {
		b, known := w.prev.actions[id]
		if !known || !b.State.Settled() || a.State == b.State {
			continue
		}
		mine := w.step.id == id
		unknownEnd := columnFor(b, b.Delivery) == endUnknown
		switch {
		case mine && w.step.name == "redrive":
		case mine && w.step.name == "resolve" && b.State == ackstore.GaveUp:
		case mine && w.step.name == "ack" && unknownEnd && (a.State == ackstore.Done || a.State == ackstore.Failed):
		default:
			require.Fail(w, "a settled state changed", "%s was %s and is %s after %s", id, b.State, a.State, w.step.name)
		}
	}
}

// inv9: the first result is the one kept.
func inv9(w *world) {
	w.Helper()
	for id, a := range w.cur.actions {
		if a.State == ackstore.Done && a.SettledBy == ackstore.ByAck {
			rec := w.get(id)
			require.True(w, bytes.Equal(rec.Result, []byte(w.things[id].result)), "%s has result %s, the first was %s", id, rec.Result, w.things[id].result)
		}
	}
}

// inv10: nothing paused, cancelled (or asked to be) or past its expiry is sent;
// nor before it is due, or behind an open breaker.
func inv10(w *world) {
	w.Helper()
	for id, a := range w.sent() {
		before, after := a[0], a[1]
		for _, h := range w.cur.holds {
			fresh := w.step.name == "pass" && !contains(w.prev.holds, h) // the same sweep may have paused it after
			require.False(w, !fresh && covers(h, after), "%s was sent while %s %s is paused (%s)", id, h.Scope, h.ID, h.Cause)
		}
		require.False(w, before.CancelAsked() && w.step.name != "redrive", "%s was sent though a cancel is asked", id)
		require.False(w, before.State == ackstore.Cancelled && w.step.name != "redrive", "%s was cancelled and sent", id)
		if !after.ExpiresAt.IsZero() {
			require.True(w, after.DispatchedAt.Before(after.ExpiresAt), "%s was sent past its expiry", id)
		}
		if before.State == ackstore.Scheduled && w.step.name != "redrive" && after.Delivery == before.Delivery+1 {
			require.False(w, after.DispatchedAt.Before(before.AvailableAt), "%s was sent before it was due", id)
		}
		for _, b := range w.cur.breakers {
			same := b.Target == after.Target && (b.MachineID == after.MachineID || b.MachineID == "" && strings.HasPrefix(b.Target, "shared/"))
			require.False(w, same && b.State == "open" && contains(w.prev.breakers, b), "%s was sent behind an open breaker", id)
			require.False(w, same && b.State == "half_open" && b.Probe != id && b.Probe != "" && contains(w.prev.breakers, b), "%s was sent beside the probe %s", id, b.Probe)
		}
	}
}

// covers tells whether a pause holds an action.
func covers(h ackstore.Hold, a ackstore.Action) bool {
	switch h.Scope {
	case ackstore.OfMachine:
		return h.ID == a.MachineID
	case ackstore.OfSession:
		return h.ID == a.SessionID && (h.MachineID == "" || h.MachineID == a.MachineID)
	}
	return h.ID == a.ReplayID
}

func contains[T any](list []T, x T) bool {
	for _, y := range list {
		if fmt.Sprint(x) == fmt.Sprint(y) {
			return true
		}
	}
	return false
}

// inv11: with a healthy agent and nothing paused, all settles.
func inv11(w *world) {
	w.Helper()
	for _, a := range w.list(ackstore.Filter{}, 500) {
		if !a.State.Settled() {
			rec := w.get(a.ID)
			require.Fail(w, "not all settles", "%s is %s and waits for %+v", a.ID, a.State, rec.WaitingFor)
		}
	}
}

// inv12: the counts equal a full scan.
func inv12(w *world) {
	w.Helper()
	w.tally()
}

// inv13: a stale failure moves nothing.
func inv13(w *world, before ackstore.Action) {
	w.Helper()
	w.still(before, "what is stale moves nothing")
}

// inv14: an ack repeated k times leaves the store as one did.
func inv14(w *world, k ackstore.Ack, once *ackstore.Record, repeats int) {
	w.Helper()
	for range repeats {
		w.ack(k)
	}
	w.same(once.Action, w.get(k.ActionID).Action, "%s repeated", k.Verb)
}

// inv15: what was answered survives a crash at any instant.
func inv15(w *world) {
	w.Helper()
	w.survives()
}
