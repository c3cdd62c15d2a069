package boltstore

import (
	"fmt"
	"time"

	"pushd/ackstore"
	"pushd/inflight/ledger"
	"pushd/policy"
)

// endings is what the end of an action does to others: its lane is paused, a
// client that answers nothing is found dead, a pause that it caused is lifted.
func (t *tx) endings(r *rec, old *ackstore.Action) {
	a := &r.a
	t.freeProbe(r)
	if old.State == a.State {
		return
	}
	switch {
	case a.SettledBy == ackstore.ByOperator:
		t.liftOnDead(a)
	case a.State == ackstore.Done, old.State.Settled() && !a.State.Settled():
		t.liftOnDead(a)
	case old.State.Settled(): // a late failure: its lane is paused already
	case a.State == ackstore.GaveUp:
		t.onDead(a)
		t.deadLane(r)
		t.deadMachine(r)
	case a.State == ackstore.Failed:
		t.onDead(a)
	}
}

func (t *tx) onDead(a *ackstore.Action) {
	if a.SessionID == "" || a.OnDead == ackstore.SkipDead {
		return
	}
	t.hold(ackstore.Hold{
		Scope: ackstore.OfSession, ID: a.SessionID, MachineID: a.MachineID, Cause: ackstore.HeldOnDead,
		ActionID: a.ID, By: "pushd", Note: fmt.Sprintf("action %s is %s", a.ID, a.State),
	})
}

func (t *tx) liftOnDead(a *ackstore.Action) {
	if a.SessionID == "" {
		return
	}
	h := t.s.holds[holdID{ackstore.OfSession, a.SessionID, a.MachineID, ackstore.HeldOnDead}]
	if h != nil && h.ActionID == a.ID {
		t.unhold(h)
	}
}

// giveUpKept is for how long a lane's give-up is remembered at least.
const giveUpKept = time.Hour

// deadLane pauses a lane in which two actions were given up within the time that
// two exhausted budgets take, whatever their on_dead.
func (t *tx) deadLane(r *rec) {
	a, row := &r.a, &r.m.row
	if a.SessionID == "" {
		return
	}
	window := max(time.Minute, 2*time.Duration(a.MaxResends+1)*a.OrphanAfter)
	before, had := row.LaneGiveUps[a.SessionID]
	t.touch(r.m)
	for session, at := range row.LaneGiveUps { // else lanes that are no more stay for ever
		if t.now.Sub(at) > max(window, giveUpKept) {
			delete(row.LaneGiveUps, session)
		}
	}
	if !had || t.now.Sub(before) > window {
		if row.LaneGiveUps == nil {
			row.LaneGiveUps = map[string]time.Time{}
		}
		row.LaneGiveUps[a.SessionID] = t.now
		return
	}
	delete(row.LaneGiveUps, a.SessionID)
	t.hold(ackstore.Hold{
		Scope: ackstore.OfSession, ID: a.SessionID, MachineID: a.MachineID, Cause: ackstore.HeldNeedHelp,
		ActionID: a.ID, By: "pushd",
		Note: fmt.Sprintf("two actions given up since %s, the last is %s: look at the agent of %s, then resume the session", before.UTC().Format(time.RFC3339), a.ID, a.MachineID),
	})
}

// deadMachine pauses a machine on which two actions were given up with no ack
// from it between them. Its next ack lifts that.
func (t *tx) deadMachine(r *rec) {
	row := &r.m.row
	row.GiveUps++
	t.touch(r.m)
	if row.GiveUps < 2 {
		return
	}
	seen := "never"
	if !row.LastSeen.IsZero() {
		seen = row.LastSeen.UTC().Format(time.RFC3339)
	}
	t.hold(ackstore.Hold{
		Scope: ackstore.OfMachine, ID: r.m.id, Cause: ackstore.HeldNeedHelp, ActionID: r.a.ID, By: "pushd",
		Note: fmt.Sprintf("%d actions given up with no ack between them, last sign of life %s: restart its agent, or resume the machine", row.GiveUps, seen),
	})
}

// heard notes that an agent speaks for its machine.
func (t *tx) heard(m *machine) {
	m.row.LastSeen = t.now
	if l := m.lease; l != nil {
		if l.suspect(t.now, t.r) {
			t.kick(m)
		}
		l.signed = t.now
	}
	if m.row.GiveUps > 0 {
		m.row.GiveUps = 0
		t.touch(m)
	}
	t.liftNeedHelp(m)
}

func (t *tx) liftNeedHelp(m *machine) {
	if h := t.s.holds[holdID{ackstore.OfMachine, m.id, "", ackstore.HeldNeedHelp}]; h != nil {
		t.unhold(h)
	}
}

// breakersOf are the doors an action goes through: its machine's own, and for a
// shared target the shared one.
func breakersOf(a *ackstore.Action) [2]breakerID {
	ids := [2]breakerID{{machine: a.MachineID, target: a.Target}}
	if isShared(a.Target) {
		ids[1] = breakerID{target: a.Target}
	}
	return ids
}

func isShared(target string) bool {
	return len(target) > len("shared/") && target[:len("shared/")] == "shared/"
}

// shutFor is the breaker that holds an action, or nil.
func (t *tx) shutFor(r *rec) *breakerRow {
	for _, id := range breakersOf(&r.a) {
		if b := t.s.breakers[id]; b != nil && !t.lets(b, r) {
			return b
		}
	}
	return nil
}

// lets tells whether a breaker lets an action through: the probe and its resends
// too, while it is out.
func (t *tx) lets(b *breakerRow, r *rec) bool {
	if b.Probe == r.a.Ord && b.Probe != 0 {
		return true
	}
	switch b.value().Allows(t.now) {
	case policy.PassAll:
		return true
	case policy.PassProbe:
		return b.Probe == 0
	}
	return false
}

// probing notes that an action goes through a door that is open by a crack.
func (t *tx) probing(r *rec) {
	for _, id := range breakersOf(&r.a) {
		b := t.s.breakers[id]
		if b == nil || b.Probe == r.a.Ord || b.value().Allows(t.now) != policy.PassProbe {
			continue
		}
		b.set(b.value().Probe(t.now))
		b.Probe, b.ProbeID = r.a.Ord, r.a.ID
		t.putBreaker(id, b)
	}
}

// report tells the action's breaker what an end of an execution says of the
// service. Deliveries sent before its last change say nothing, but the probe's.
func (t *tx) report(r *rec, old *ackstore.Action, word ledger.Effect) {
	if word.Door == policy.DoorNone {
		return
	}
	id := breakerID{machine: old.MachineID, target: old.Target}
	if isShared(old.Target) && word.Door != policy.DoorLocked {
		id.machine = ""
	}
	b := t.s.breakers[id]
	if b == nil {
		if word.Door == policy.DoorAnswered {
			return
		}
		b = &breakerRow{Machine: id.machine, Target: id.target}
	}
	probe := b.Probe == old.Ord && b.Probe != 0
	if !probe && old.Stamp < b.Stamp {
		return
	}
	strikes := b.Strikes
	next, changed := b.value().Report(word.Door, word.DoorFor, probe, t.now, policy.BreakerNumbers{
		Threshold: t.r.BreakerThreshold, Pause: t.r.BreakerPause,
	})
	b.set(next)
	if changed {
		b.Stamp, b.Probe, b.ProbeID = t.stamp(), 0, ""
		t.say(ackstore.Change{MachineID: id.machine, Event: "breaker_" + b.State.String(), Detail: id.target})
	}
	switch {
	case changed:
		t.putBreaker(id, b)
	case b.Strikes != strikes: // nothing waits for that
		t.keepBreaker(id, b)
	}
}

// freeProbe gives a probe's place to the next, where it ended without a word of
// the service.
func (t *tx) freeProbe(r *rec) {
	a := &r.a
	if a.State == ackstore.InFlight || a.Orphan != 0 {
		return
	}
	for _, id := range breakersOf(a) {
		b := t.s.breakers[id]
		if b == nil || b.Probe != a.Ord || b.Probe == 0 {
			continue
		}
		b.set(b.value().LoseProbe())
		b.Probe, b.ProbeID = 0, ""
		t.putBreaker(id, b)
	}
}

// putBreaker writes a breaker and looks again at all that it may hold.
func (t *tx) putBreaker(id breakerID, b *breakerRow) {
	// Who waits for a door that may open by a crack is told here; the sweep need not,
	// and a moment that is past would hide those to come.
	b.woken = b.value().Allows(t.now) == policy.PassProbe
	t.keepBreaker(id, b)
	for _, m := range t.machinesOf(id.machine) {
		t.regate(m)
	}
}

func (t *tx) keepBreaker(id breakerID, b *breakerRow) {
	t.s.breakers[id] = b
	t.s.gateMoved = true
	t.put(bucketBreakers, join(id.machine, id.target), encode(b))
}
