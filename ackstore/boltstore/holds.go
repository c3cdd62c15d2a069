package boltstore

import (
	"context"
	"time"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

func idOf(h *ackstore.Hold) holdID { return holdID{h.Scope, h.ID, h.MachineID, h.Cause} }

// causes in the order in which they are told.
var causes = [...]string{ackstore.HeldByOperator, ackstore.HeldOnDead, ackstore.HeldNeedHelp}

// held is the pause that holds an action, or nil.
func (t *tx) held(a *ackstore.Action) *ackstore.Hold {
	if h := t.heldMachine(a.MachineID); h != nil {
		return h
	}
	return t.heldByLabel(a)
}

func (t *tx) heldMachine(id string) *ackstore.Hold { return t.heldBy(ackstore.OfMachine, id, "") }

func (t *tx) heldByLabel(a *ackstore.Action) *ackstore.Hold {
	if len(t.s.holds) == 0 {
		return nil
	}
	if a.SessionID != "" {
		if h := t.heldBy(ackstore.OfSession, a.SessionID, ""); h != nil {
			return h
		}
		if h := t.heldBy(ackstore.OfSession, a.SessionID, a.MachineID); h != nil {
			return h
		}
	}
	if a.ReplayID != "" {
		if h := t.heldBy(ackstore.OfReplay, a.ReplayID, ""); h != nil {
			return h
		}
		return t.heldBy(ackstore.OfReplay, a.ReplayID, a.MachineID)
	}
	return nil
}

func (t *tx) heldBy(scope ackstore.Scope, id, machine string) *ackstore.Hold {
	if len(t.s.holds) == 0 {
		return nil
	}
	for _, cause := range causes {
		h := t.s.holds[holdID{scope, id, machine, cause}]
		if h != nil && (h.Until.IsZero() || t.now.Before(h.Until)) {
			return h
		}
	}
	return nil
}

// hold pauses a scope; the same cause again replaces its words, not its since.
func (t *tx) hold(h ackstore.Hold) {
	h.Since = t.now
	if !h.Until.IsZero() {
		h.Until = ledger.CeilMilli(h.Until)
	}
	if was := t.s.holds[idOf(&h)]; was != nil {
		h.Since = was.Since
	}
	t.s.holds[idOf(&h)] = &h
	t.put(bucketHolds, holdKey(&h), encode(&h))
	t.say(ackstore.Change{ActionID: h.ActionID, MachineID: h.MachineID, Event: "paused", Detail: string(h.Scope) + " " + h.ID + " " + h.Cause})
	t.regateScope(h.Scope, h.ID, h.MachineID)
}

func (t *tx) unhold(h *ackstore.Hold) {
	delete(t.s.holds, idOf(h))
	t.del(bucketHolds, holdKey(h))
	t.say(ackstore.Change{MachineID: h.MachineID, Event: "resumed", Detail: string(h.Scope) + " " + h.ID + " " + h.Cause})
	t.regateScope(h.Scope, h.ID, h.MachineID)
}

func (t *tx) regateScope(scope ackstore.Scope, id, machine string) {
	if scope == ackstore.OfMachine {
		machine = id
	}
	if machine != "" {
		if m := t.s.machines[machine]; m != nil {
			t.regate(m)
		}
		return
	}
	for _, m := range t.s.machines {
		if scope == ackstore.OfSession && m.lanes[id] == nil {
			continue
		}
		t.regate(m)
	}
}

// Hold pauses a scope.
func (s *Store) Hold(ctx context.Context, r ackstore.Rules, h ackstore.Hold) error {
	return s.submit(ctx, r, func(t *tx) {
		if h.Scope == ackstore.OfMachine {
			h.MachineID = ""
		}
		t.hold(h)
	})
}

// Unhold ends every cause of a scope, or those on one machine; give-ups are
// counted anew after it.
func (s *Store) Unhold(ctx context.Context, r ackstore.Rules, scope ackstore.Scope, id, machineID string) error {
	return s.submit(ctx, r, func(t *tx) {
		within := machineID != "" && scope != ackstore.OfMachine
		for _, h := range t.holdsOn(scope, id) {
			if !within || h.MachineID == machineID {
				t.unhold(&h)
			}
		}
		if within {
			t.forgetGiveUpsOn(machineID, scope, id)
			return
		}
		switch scope {
		case ackstore.OfMachine:
			if m := t.s.machines[id]; m != nil && m.row.GiveUps > 0 {
				m.row.GiveUps = 0
				t.touch(m)
			}
			return
		case ackstore.OfSession:
			t.forgetGiveUps(id)
		}
		if row := t.labelIf(scope, id); row != nil && row.Closed {
			row.Closed = false
			t.wrote = true
		}
	})
}

func (t *tx) forgetGiveUpsOn(machineID string, scope ackstore.Scope, id string) {
	m := t.s.machines[machineID]
	if m == nil || scope != ackstore.OfSession {
		return
	}
	if _, had := m.row.LaneGiveUps[id]; had {
		delete(m.row.LaneGiveUps, id)
		t.touch(m)
	}
}

func (t *tx) forgetGiveUps(session string) {
	for _, m := range t.s.machines {
		if _, had := m.row.LaneGiveUps[session]; had {
			delete(m.row.LaneGiveUps, session)
			t.touch(m)
		}
	}
}

// labelIf is the row of a label that there is, or nil.
func (t *tx) labelIf(scope ackstore.Scope, id string) *labelRow {
	key := labelKey(scope, id)
	if t.labels[string(key)] == nil && t.bucket(bucketLabels).Get(key) == nil {
		return nil
	}
	return t.label(scope, id)
}

// CloseLabel refuses new actions of a session or replay.
func (s *Store) CloseLabel(ctx context.Context, scope ackstore.Scope, id string) error {
	return s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		t.label(scope, id).Closed = true
		t.wrote = true
		t.say(ackstore.Change{Event: "closed", Detail: string(scope) + " " + id})
	})
}

// CloseBreaker closes a breaker by hand; deliveries sent before say nothing of
// it any more.
func (s *Store) CloseBreaker(ctx context.Context, r ackstore.Rules, machineID, target string) error {
	return s.submit(ctx, r, func(t *tx) { t.closeBreaker(breakerID{machineID, target}) })
}

func (t *tx) closeBreaker(id breakerID) {
	b := t.s.breakers[id]
	if b == nil {
		return
	}
	b.set(b.value().Close(t.now))
	b.Stamp, b.Probe, b.ProbeID = t.stamp(), 0, ""
	t.say(ackstore.Change{MachineID: id.machine, Event: "breaker_closed", Detail: id.target})
	t.putBreaker(id, b)
}

// holdsOn are all causes for which a scope is paused.
func (t *tx) holdsOn(scope ackstore.Scope, id string) []ackstore.Hold {
	var all []ackstore.Hold
	for key, h := range t.s.holds {
		if key.scope == scope && key.id == id {
			all = append(all, *h)
		}
	}
	sortHolds(all)
	return all
}

// nextDue is the next moment at which Sweep has something to do.
func (s *Store) nextDue() time.Time {
	next := s.firstTime
	first := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if len(s.deadline) > 0 {
		first(s.deadline[0].due)
	}
	for _, h := range s.holds {
		first(h.Until)
	}
	for _, b := range s.breakers {
		if b.waits() {
			first(b.Until)
		}
	}
	return next
}
