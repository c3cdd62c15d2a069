package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/ackstore"
)

// columnOf is a column of the table of protocol section 9.
type columnOf int

const (
	neverSent columnOf = iota
	outNewest
	outOlder
	orphanWaiting
	otherWaits
	doubtful
	endUnknown
	endKnown
	wasCancelled
)

// ackTable is the table of protocol section 9, row by row. A cell is what may be
// answered; which of two, section 11 says.
var ackTable = map[ackstore.Verb][9]string{
	//                     never sent  newest           older       orphan            waits      in doubt    unknown end  known end    cancelled
	ackstore.SaysReceived:  {"conflict", "accepted", "accepted", "revived", "stale", "revived", "late", "duplicate", "late"},
	ackstore.SaysWorking:   {"conflict", "accepted", "accepted", "revived", "stale", "revived", "late", "duplicate", "late"},
	ackstore.SaysDone:      {"conflict", "settled", "settled", "settled", "settled", "settled", "late", "duplicate", "late"},
	ackstore.SaysFailed:    {"conflict", "retry or settled", "stale", "retry or settled", "stale", "settled", "late", "duplicate", "late"},
	ackstore.SaysReleased:  {"conflict", "released", "stale", "released", "stale", "released", "stale", "stale", "stale"},
	ackstore.SaysCancelled: {"conflict", "settled", "stale", "settled", "stale", "settled", "stale", "stale", "duplicate"},
}

// expected is what must follow an ack: one of the outcomes, each with the states
// that may come of it.
type expected map[string][]ackstore.State

// column tells in which column an action stands for an ack of delivery d.
func columnFor(a ackstore.Action, d int) columnOf {
	switch a.State {
	case ackstore.InFlight:
		if d < a.Delivery {
			return outOlder
		}
		return outNewest
	case ackstore.InDoubt:
		return doubtful
	case ackstore.GaveUp, ackstore.Expired:
		return endUnknown
	case ackstore.Failed:
		if a.SettledBy == ackstore.ByWatchdog {
			return endUnknown
		}
		return endKnown
	case ackstore.Done:
		return endKnown
	case ackstore.Cancelled:
		return wasCancelled
	}
	if a.Orphan != 0 {
		return orphanWaiting
	}
	return otherWaits
}

// expects reads the table for one ack of an action as it is.
func (w *world) expects(a ackstore.Action, k ackstore.Ack) expected {
	partial := k.Verb == ackstore.SaysFailed || k.Verb == ackstore.SaysReleased || k.Verb == ackstore.SaysCancelled
	unmoved := []ackstore.State{a.State}
	if k.MachineID != "" && k.MachineID != a.MachineID || a.Delivery == 0 || k.Delivery > a.Delivery {
		return expected{"conflict": unmoved}
	}
	d := k.Delivery
	if d == 0 {
		if d = a.Delivery; partial && d > 1 {
			return expected{"conflict": unmoved}
		}
	}
	said := w.things[a.ID].verdicts[d]
	switch {
	case k.Verb.Verdict() && said == k.Verb:
		return expected{"duplicate": unmoved}
	case k.Verb.Verdict() && said != 0 && !a.State.Settled() && k.Verb != ackstore.SaysDone:
		return expected{"stale": unmoved}
	case partial && d < a.Delivery && !a.State.Settled():
		return expected{"stale": unmoved}
	}
	col := columnFor(a, d)
	switch cell := ackTable[k.Verb][col]; cell {
	case "accepted", "revived":
		return expected{cell: {ackstore.InFlight}}
	case "stale", "duplicate":
		return expected{cell: unmoved}
	case "late":
		switch {
		case col == endUnknown && k.Verb == ackstore.SaysDone:
			return expected{"late": {ackstore.Done}}
		case col == endUnknown && k.Verb == ackstore.SaysFailed:
			return expected{"late": {ackstore.Failed}}
		}
		return expected{"late": unmoved}
	default:
		return w.ends(a, k, col)
	}
}

// ends is section 11 and the notes of section 9 on an ack that is a verdict on
// the execution: what of settled, retry and released follows.
func (w *world) ends(a ackstore.Action, k ackstore.Ack, col columnOf) expected {
	failed := expected{"settled": {ackstore.Failed}}
	retry := expected{"retry": {ackstore.Scheduled}}
	onceOnly := a.Guarantee == ackstore.AtMostOnce
	switch {
	case k.Verb == ackstore.SaysDone:
		return expected{"settled": {ackstore.Done}}
	case a.CancelAsked():
		return expected{"settled": {ackstore.Cancelled}}
	case a.Stall != "" && col == outNewest: // counted like error, whatever was answered
		if onceOnly || a.Attempts+1 >= a.MaxAttempts {
			return failed
		}
		return retry
	case a.Stall != "": // the protocol does not say whether a stall outlives a loss
		return expected{"settled": {ackstore.Failed}, "retry": {ackstore.Scheduled, ackstore.Queued}, "released": {ackstore.Scheduled}}
	case k.Verb == ackstore.SaysReleased:
		if a.Releases >= 30 {
			return failed
		}
		return expected{"released": {ackstore.Scheduled}}
	case k.Verb == ackstore.SaysCancelled || onceOnly:
		return failed
	}
	more := map[string]bool{
		"": a.Attempts+1 < a.MaxAttempts, "error": a.Attempts+1 < a.MaxAttempts,
		"transient": a.TransientAttempts+1 < a.TransientMaxAttempts, "quota": a.QuotaWaits < 3, "config": a.ConfigWaits < 3,
	}
	if !more[k.Error.Kind] {
		return failed
	}
	if k.Error.Kind == "config" {
		return expected{"retry": {ackstore.Queued}}
	}
	return retry
}

// out is what most acks are about, heard what an agent may still speak of.
func out(a ackstore.Action) bool   { return a.State == ackstore.InFlight }
func heard(a ackstore.Action) bool { return a.Delivery > 0 && a.State != ackstore.Done }

// orExpired allows for what would wait again, and is past its expiry: it is
// expired at once, and the protocol does not say which outcome tells so.
func (e expected) orExpired() {
	for _, outcome := range []string{"retry", "released"} {
		if e[outcome] != nil {
			e[outcome] = append(e[outcome], ackstore.Expired)
			e["settled"] = append(e["settled"], ackstore.Expired)
		}
	}
}

// orGivenUp allows for an orphan whose resends are used up. It is given up when
// its turn comes, and that may be in the ack's own commit: a sign of life lets
// the machine take more.
func (e expected) orGivenUp() {
	for outcome, states := range e {
		if slices.Contains(states, ackstore.Queued) {
			e[outcome] = append(slices.Clone(states), ackstore.GaveUp)
		}
	}
}

// spent tells whether there is no resend left for an orphan.
func (w *world) spent(a ackstore.Action) bool {
	switch a.Orphan {
	case ackstore.ByTimeout:
		return a.ResentTimeout >= a.MaxResends
	case ackstore.ByDisconnect:
		return a.ResentDisconnect >= w.rules.MaxDisconnectResends
	}
	return false
}

// givenUp tells whether that has happened to it.
func (w *world) givenUp(before ackstore.Action, rec *ackstore.Record) bool {
	return w.spent(before) && rec.State == ackstore.GaveUp
}

// stepAck sends one ack, holds the answer against the table, and repeats it.
func (w *world) stepAck(t *rapid.T) {
	a := w.pick(t, map[string]func(ackstore.Action) bool{"out": out, "heard": heard}[oneOf(t, "about", "out", "out", "out", "heard", "any")])
	th := w.things[a.ID]
	k := w.drawAck(t, a, th)
	w.begin("ack", a.ID)
	want := w.expects(a, k)
	if !a.ExpiresAt.IsZero() && !w.clock.now().Before(a.ExpiresAt) {
		want.orExpired()
	}
	if w.spent(a) {
		want.orGivenUp()
	}
	got := w.ack(k)
	rec := w.get(a.ID)
	what := fmt.Sprintf("%s of %s delivery %d (newest %d), %s, stall %q", k.Verb, a.ID, k.Delivery, a.Delivery, a.State, a.Stall)
	states, ok := want[got.Outcome.String()]
	require.True(w, ok, "%s: answered %s, the table says %v", what, got.Outcome, want)
	require.Contains(w, states, rec.State, "%s: %s", what, got.Outcome)
	w.tells(what, k, a, got, rec)
	w.reached[[2]int{int(k.Verb), int(columnFor(a, cmp.Or(k.Delivery, a.Delivery)))}]++
	moved := w.givenUp(a, rec)
	if got.Outcome == ackstore.Stale && !moved {
		inv13(w, a)
	}
	w.learn(a, k, got, rec)
	if repeats := oneOf(t, "repeats", 0, 0, 1, 3); repeats > 0 && !moved {
		inv14(w, k, rec, repeats)
	}
}

// tells checks the state and the cancel that an answer bears.
func (w *world) tells(what string, k ackstore.Ack, before ackstore.Action, got ackstore.AckResult, rec *ackstore.Record) {
	w.Helper()
	if got.Outcome == ackstore.Conflict {
		require.Zero(w, got.State, what)
		return
	}
	if !w.givenUp(before, rec) { // which comes behind the ack
		require.Equal(w, rec.State.String(), got.State.String(), "%s: the state told", what)
	}
	beat := !k.Verb.Verdict()
	byAck := rec.State == ackstore.Done || rec.State == ackstore.Cancelled || rec.State == ackstore.Failed && rec.SettledBy == ackstore.ByAck
	switch {
	case got.Outcome == ackstore.Stale, beat && byAck, beat && rec.State == ackstore.InFlight && (rec.CancelAsked() || rec.Stall != ""):
		require.True(w, got.Cancel, "%s: told to stop", what)
	case beat && rec.State == ackstore.InFlight:
		require.False(w, got.Cancel, "%s: not told to stop", what)
	}
	if got.Outcome == ackstore.Retry && rec.State == ackstore.Scheduled {
		require.WithinDuration(w, rec.AvailableAt, got.AvailableAt, time.Millisecond, "%s: available_at", what)
	}
	if got.Outcome == ackstore.Late && k.Verb.Verdict() {
		require.True(w, rec.Late, "%s: marked late", what)
	}
	require.Equal(w, before.Delivery, rec.Delivery, "%s sends nothing of its own action", what)
}

// drawAck makes an ack of any verb for any delivery that was issued, at times
// for none, for one that was not, or for another machine.
func (w *world) drawAck(t *rapid.T, a ackstore.Action, th *thing) ackstore.Ack {
	verb := oneOf(t, "verb", ackstore.SaysReceived, ackstore.SaysWorking, ackstore.SaysDone, ackstore.SaysFailed, ackstore.SaysFailed, ackstore.SaysReleased, ackstore.SaysCancelled)
	k := say(verb, a.ID, spread(oneOf(t, "jitter", 0, 0.5, 0.99)))
	var issued []int
	for d := range th.sends {
		issued = append(issued, d)
	}
	slices.Sort(issued)
	switch choice := oneOf(t, "delivery", "newest", "newest", "issued", "none", "bogus"); {
	case choice == "bogus" || len(issued) == 0:
		k.Delivery = a.Delivery + 1
	case choice == "newest":
		k.Delivery = issued[len(issued)-1]
	case choice == "issued":
		k.Delivery = rapid.SampledFrom(issued).Draw(t, "of")
	case issued[len(issued)-1] != a.Delivery:
		k.Delivery = issued[len(issued)-1] // the newest went back, or is not out yet
	}
	switch verb {
	case ackstore.SaysFailed:
		k.Error = &ackstore.Failure{Kind: oneOf(t, "kind", "", "error", "permanent", "transient", "transient", "quota", "config")}
		k.RetryAfter = oneOf(t, "retry after", 0, 0, 6*time.Second)
	case ackstore.SaysReleased:
		k.Delay = oneOf(t, "release", 0, 3*time.Second)
	case ackstore.SaysWorking:
		if n := oneOf(t, "token", uint64(0), 1, 2); n > 0 {
			k.ActivityToken = &n
		}
	case ackstore.SaysDone:
		k.Result = fmt.Appendf(nil, `"%d"`, rapid.IntRange(0, 999).Draw(t, "result"))
	}
	if oneOf(t, "from", false, false, false, false, false, false, true) {
		k.MachineID = oneOf(t, "machine", machinesOfSim...)
	}
	return k
}

// learn moves the model by an ack that was answered.
func (w *world) learn(a ackstore.Action, k ackstore.Ack, got ackstore.AckResult, rec *ackstore.Record) {
	th := w.things[a.ID]
	d := k.Delivery
	if d == 0 {
		d = a.Delivery
	}
	switch got.Outcome {
	case ackstore.Conflict, ackstore.Stale, ackstore.Duplicate:
		if got.Outcome == ackstore.Stale {
			th.vague[d] = true
		}
		return
	case ackstore.Accepted, ackstore.Revived:
		th.acked[d] = true
		if d < a.Delivery {
			th.vague[a.Delivery] = true
		}
		return
	}
	th.acked[d] = true
	if k.Verb.Verdict() {
		th.verdicts[d] = k.Verb
	}
	if got.Outcome == ackstore.ReleasedBack {
		th.free = true
	}
	if rec.State.Settled() {
		th.over = true
	}
	if k.Verb == ackstore.SaysDone && rec.State == ackstore.Done {
		th.result = string(k.Result)
	}
}
