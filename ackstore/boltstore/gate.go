package boltstore

import (
	"slices"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// open tells whether neither a pause of its labels nor a breaker holds it. A
// pause of its machine is looked at when the machine is dispatched to.
func (t *tx) open(r *rec) bool {
	return t.heldByLabel(&r.a) == nil && t.shutFor(r) == nil
}

// regate looks again at all that waits on a machine, after a pause or a breaker
// of its has changed.
func (t *tx) regate(m *machine) {
	for _, q := range m.lanes {
		t.refresh(q)
	}
	for _, q := range m.flows {
		t.refresh(q)
	}
	t.regateOpen(m, "")
}

// regateLane does it for one lane that there is: a machine may have very many.
func (t *tx) regateLane(m *machine, session string) {
	t.refresh(m.lanes[session])
	t.regateOpen(m, session)
}

// regateOpen looks at orphans, those of one session or all. What was lost while
// it was paused is given up after the resume, in the order of its places, until
// that pauses the rest anew.
func (t *tx) regateOpen(m *machine, session string) {
	spent := func(r *rec) bool {
		return r.a.Orphan != 0 && ledger.Spent(&r.a, t.r) && t.held(&r.a) == nil
	}
	var over []*rec
	for _, r := range m.open {
		if session != "" && r.a.SessionID != session {
			continue
		}
		t.refreshOrphan(r)
		if spent(r) {
			over = append(over, r)
		}
	}
	slices.SortFunc(over, bySeq)
	for _, r := range over {
		if spent(r) {
			t.change(r, func(a *ackstore.Action) ledger.Effect { ledger.GiveUp(a, t.now); return ledger.Effect{} })
		}
	}
	t.kick(m)
}
