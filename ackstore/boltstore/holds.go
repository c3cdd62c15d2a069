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
	t.s.addHold(&h)
	t.put(bucketHolds, holdKey(&h), encode(&h))
	t.say(ackstore.Change{ActionID: h.ActionID, MachineID: h.MachineID, Event: "paused", Detail: string(h.Scope) + " " + h.ID + " " + h.Cause})
	t.regateScope(h.Scope, h.ID, h.MachineID)
}

func (t *tx) unhold(h *ackstore.Hold) {
	t.s.dropHold(h)
	t.del(bucketHolds, holdKey(h))
	t.say(ackstore.Change{MachineID: h.MachineID, Event: "resumed", Detail: string(h.Scope) + " " + h.ID + " " + h.Cause})
	t.regateScope(h.Scope, h.ID, h.MachineID)
}

func (t *tx) regateScope(scope ackstore.Scope, id, machine string) {
	if scope == ackstore.OfMachine {
		machine = id
	}
	for _, m := range t.machinesOf(machine) {
		switch {
		case scope != ackstore.OfSession:
			t.regate(m)
		case m.lanes[id] != nil:
			t.regateLane(m, id)
		}
	}
}

// machinesOf is one machine, or with no name all of them.
func (t *tx) machinesOf(id string) map[string]*machine {
	if id == "" {
		return t.s.machines
	}
	if m := t.s.machines[id]; m != nil {
		return map[string]*machine{id: m}
	}
	return nil
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
		if scope == ackstore.OfMachine {
			machineID = ""
		}
		t.forgetGiveUps(scope, id, machineID) // before: those that the resume itself brings count
		for _, h := range t.holdsOn(scope, id) {
			if machineID == "" || h.MachineID == machineID {
				t.unhold(&h)
			}
		}
		if scope == ackstore.OfMachine || machineID != "" {
			return
		}
		if row := t.labelIf(scope, id); row != nil && row.Closed {
			row.Closed = false
			t.wrote = true
		}
	})
}

func (t *tx) forgetGiveUps(scope ackstore.Scope, id, machineID string) {
	switch scope {
	case ackstore.OfMachine:
		if m := t.s.machines[id]; m != nil && m.row.GiveUps > 0 {
			m.row.GiveUps = 0
			t.touch(m)
		}
	case ackstore.OfSession:
		for _, m := range t.machinesOf(machineID) {
			if _, had := m.row.LaneGiveUps[id]; had {
				delete(m.row.LaneGiveUps, id)
				t.touch(m)
			}
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

func (t *tx) dropBreaker(id breakerID) {
	delete(t.s.breakers, id)
	t.s.gateMoved = true
	t.del(bucketBreakers, join(id.machine, id.target))
}

// holdsOn are all causes for which a scope is paused.
func (t *tx) holdsOn(scope ackstore.Scope, id string) []ackstore.Hold {
	var all []ackstore.Hold
	for key := range t.s.heldOn[scoped{scope, id}] {
		all = append(all, *t.s.holds[key])
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
	first(s.nextGate())
	return next
}
