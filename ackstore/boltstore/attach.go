package boltstore

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// Attach begins streams and polls.
func (s *Store) Attach(ctx context.Context, r ackstore.Rules, reqs []ackstore.AttachReq) ([]ackstore.Attached, error) {
	answers := make([]ackstore.Attached, len(reqs))
	var refused error
	err := s.submit(ctx, r, func(t *tx) {
		if refused = t.crowded(each(reqs, func(r *ackstore.AttachReq) string { return r.MachineID })); refused != nil {
			return
		}
		for i, req := range reqs {
			answers[i] = t.attach(req)
		}
	})
	if err = cmp.Or(err, refused); err != nil {
		return nil, err
	}
	return answers, nil
}

// each are the machines of requests.
func each[R any](reqs []R, machine func(*R) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range reqs {
			if !yield(machine(&reqs[i])) {
				return
			}
		}
	}
}

func (t *tx) attach(req ackstore.AttachReq) ackstore.Attached {
	m := t.machine(req.MachineID)
	t.appear(m)
	other := m.row.Ever && req.InstanceID != m.row.Instance
	joins := m.lease != nil && m.lease.via == ackstore.ViaPoll && req.Via == ackstore.ViaPoll && !other
	judges := req.Via == ackstore.ViaStream || (req.InstanceID != "" && (req.LastEventID != nil || other || !m.row.Ever))
	if !joins {
		t.replace(m, req)
	}
	t.introduce(m, req, other)
	if joins {
		t.countPoll(m.lease, 1)
	}
	if judges {
		t.judge(m, req, joins)
	}
	m.lease.signed = t.now
	m.lease.lastPoll = t.now
	t.kick(m)
	return t.attached(m, req)
}

// replace ends the machine's lease and begins another: its epoch fences the old.
func (t *tx) replace(m *machine, req ackstore.AttachReq) {
	if old := m.lease; old != nil {
		t.endLease(m, old, nil, false)
	}
	was := m.lease
	t.undo = append(t.undo, func() { t.s.boxes.close(m.lease); m.lease = was; t.s.boxes.open(was) })
	m.row.Epoch++
	m.lease = &lease{machine: m.id, epoch: m.row.Epoch, via: req.Via, parked: req.Via == ackstore.ViaStream}
	if req.Via == ackstore.ViaPoll {
		m.lease.polls = 1
	} else {
		m.row.Attached = t.now
	}
	t.s.boxes.open(m.lease)
	t.touch(m)
	t.say(ackstore.Change{MachineID: m.id, Event: "attached", Detail: req.Address})
}

// introduce notes who it is that has come. Another instance has forgotten what
// stopped the one before it.
func (t *tx) introduce(m *machine, req ackstore.AttachReq, other bool) {
	row := &m.row
	if other {
		row.AgentCredit, row.AgentWhy = nil, ""
		row.GiveUps = 0
		t.liftNeedHelp(m)
		for id, b := range t.s.breakers {
			if id.machine == m.id && b.Locked {
				t.closeBreaker(id)
			}
		}
	}
	if !row.Ever || other || row.SubCredit != req.MaxInFlight || row.SubOrphan != req.OrphanTimeout || row.Address != req.Address {
		t.touch(m)
	}
	row.Ever, row.Instance, row.Address, row.StreamID, row.Via = true, req.InstanceID, req.Address, req.StreamID, req.Via
	row.SubCredit, row.SubOrphan, row.LastSeen = req.MaxInFlight, req.OrphanTimeout, t.now
}

// judge decides on all that an earlier stream has left, in seq order.
func (t *tx) judge(m *machine, req ackstore.AttachReq, joins bool) {
	in := ledger.Return{Instance: req.InstanceID, Last: req.LastEventID, Via: req.Via, Epoch: m.lease.epoch}
	if in.Last != nil && *in.Last > m.row.EventID {
		in.Last = nil // from the future
	}
	for _, r := range t.openOf(m) {
		if joins && !t.unheardByPoll(r, in) {
			continue
		}
		r.preBoot = false
		t.change(r, func(a *ackstore.Action) ledger.Effect {
			ledger.Judge(a, in, t.r, t.held(a) != nil, t.now)
			return ledger.Effect{}
		})
	}
}

// unheardByPoll tells whether a poll of the instance that polls already shows a
// loss. What one of its polls is still being answered with is not lost, and what
// it has needs no judgement.
func (t *tx) unheardByPoll(r *rec, in ledger.Return) bool {
	return !r.polling && !r.a.Acked && in.Last != nil && r.a.EventID > *in.Last
}

func (t *tx) openOf(m *machine) []*rec {
	open := make([]*rec, 0, len(m.open))
	for _, r := range m.open {
		open = append(open, r)
	}
	slices.SortFunc(open, bySeq)
	return open
}

func bySeq(a, b *rec) int { return cmp.Compare(a.a.Seq, b.a.Seq) }

func (t *tx) attached(m *machine, req ackstore.AttachReq) ackstore.Attached {
	answer := ackstore.Attached{
		Lease:  ackstore.Lease{MachineID: m.id, Epoch: m.lease.epoch},
		Credit: m.credit(), OrphanTimeout: req.OrphanTimeout, Now: t.now,
	}
	if answer.OrphanTimeout == 0 {
		answer.OrphanTimeout = t.r.OrphanTimeout
		if req.Via == ackstore.ViaPoll {
			answer.OrphanTimeout = t.r.PollOrphanTimeout
		}
	}
	for _, r := range t.openOf(m) {
		a := &r.a
		if a.State != ackstore.InFlight {
			continue
		}
		h := ackstore.Held{ActionID: a.ID, Delivery: a.Delivery}
		switch {
		case a.CancelAsked():
			h.Cancel, h.CancelReason = true, a.CancelReason
		case a.Stall != "":
			h.Cancel, h.CancelReason = true, a.Stall
		}
		answer.InFlight = append(answer.InFlight, h)
	}
	return answer
}

// Detach ends streams and polls.
func (s *Store) Detach(ctx context.Context, r ackstore.Rules, reqs []ackstore.DetachReq) error {
	return s.submit(ctx, r, func(t *tx) {
		for _, req := range reqs {
			t.detach(req)
		}
	})
}

func (t *tx) detach(req ackstore.DetachReq) {
	m := t.s.machines[req.Lease.MachineID]
	if m == nil {
		return
	}
	l := m.lease
	if l == nil || l.epoch != req.Lease.Epoch {
		t.unsend(m, req.Lease.Epoch, req.Unwritten)
		return
	}
	if l.via == ackstore.ViaPoll {
		t.unsend(m, l.epoch, req.Unwritten)
		t.endPoll(m, l)
		return
	}
	t.endLease(m, l, req.Unwritten, req.Quiet)
	t.undo = append(t.undo, func() { m.lease = l; t.s.boxes.open(l) })
	m.lease = nil
	if !req.Quiet {
		m.row.Detached = t.now
		t.touch(m)
	}
	t.say(ackstore.Change{MachineID: m.id, Event: "detached"})
}

func (t *tx) countPoll(l *lease, by int) {
	l.polls += by
	t.undo = append(t.undo, func() { l.polls -= by })
}

func (t *tx) endPoll(m *machine, l *lease) {
	t.countPoll(l, -1)
	l.lastPoll = t.now
	m.row.LastSeen = t.now
	if l.polls > 0 {
		return
	}
	for _, r := range m.open {
		if r.polling {
			r.polling = false
			t.undo = append(t.undo, func() { r.polling = true })
		}
	}
}

// endLease takes back what was never written, and starts the graces of the rest.
func (t *tx) endLease(m *machine, l *lease, unwritten []ackstore.Ref, quiet bool) {
	t.s.boxes.close(l)
	t.unsend(m, l.epoch, unwritten)
	box := t.s.boxes.empty(l)
	t.undo = append(t.undo, func() { t.s.boxes.put(l, &box) })
	boxed := box.dispatches
	if p := t.mail[l]; p != nil { // of this very batch
		boxed = append(boxed, p.dispatches...)
		delete(t.mail, l)
	}
	for _, d := range boxed {
		t.unsend(m, l.epoch, []ackstore.Ref{{ActionID: d.ActionID, Delivery: d.Delivery}})
	}
	if quiet || l.via == ackstore.ViaPoll {
		return
	}
	for _, r := range t.openOf(m) {
		if r.a.Epoch != l.epoch || r.a.Via != ackstore.ViaStream || !r.a.LostSince.IsZero() {
			continue
		}
		t.change(r, func(a *ackstore.Action) ledger.Effect { a.LostSince = t.now; return ledger.Effect{} })
	}
}

// unsend takes back deliveries of which no byte was written.
func (t *tx) unsend(m *machine, epoch uint64, refs []ackstore.Ref) {
	for _, ref := range refs {
		r, _, ok := t.find(ref.ActionID)
		if !ok || r == nil || r.m != m || r.a.Epoch != epoch {
			continue
		}
		t.change(r, func(a *ackstore.Action) ledger.Effect {
			ledger.Unsend(a, ref.Delivery, t.now)
			return ledger.Effect{}
		})
	}
}

// Beat notes signs of life; a machine that was suspect gets its work again.
func (s *Store) Beat(ctx context.Context, r ackstore.Rules, leases []ackstore.Lease) ([]error, error) {
	answers := make([]error, len(leases))
	err := s.submit(ctx, r, func(t *tx) {
		for i, of := range leases {
			answers[i] = t.beat(of)
		}
	})
	return answers, err
}

func (t *tx) beat(of ackstore.Lease) error {
	m := t.s.machines[of.MachineID]
	if m == nil || m.lease == nil || m.lease.epoch != of.Epoch {
		return ackstore.ErrFenced
	}
	if m.lease.suspect(t.now, t.r) {
		t.kick(m)
	}
	m.lease.beats, m.lease.signed, m.row.LastSeen = true, t.now, t.now
	return nil
}
