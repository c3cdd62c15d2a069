package boltstore

import (
	"context"
	"slices"
	"time"

	"pushd/ackstore"
	"pushd/inflight/ledger"
	"pushd/policy"
)

// Bounds of what is handed over at once: a stream takes its next actions only
// once it has handed over these.
const (
	claimMost  = 64
	claimBytes = 1 << 20 // of payload; one action always may be
)

// Claim hands over what is in the lease's box, or asks the committer for what is due.
func (s *Store) Claim(ctx context.Context, r ackstore.Rules, reqs []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
	answers := make([]ackstore.Claimed, len(reqs))
	for i, req := range reqs {
		answer, err := s.claimOne(ctx, r, req)
		if err != nil {
			return nil, err
		}
		answers[i] = answer
	}
	return answers, nil
}

func (s *Store) claimOne(ctx context.Context, r ackstore.Rules, req ackstore.ClaimReq) (ackstore.Claimed, error) {
	for {
		if p := s.boxes.take(req.Lease, req.Max); !p.empty() {
			return ackstore.Claimed{Dispatches: p.dispatches, Cancels: p.cancels}, nil
		}
		var answer ackstore.Claimed
		again := false
		err := s.submit(ctx, r, func(t *tx) { answer, again = t.claim(req) })
		if err != nil || !again {
			return answer, err
		}
	}
}

// claim dispatches what is due, or parks the stream. It asks to be called again
// where the box was filled while the call waited in line.
func (t *tx) claim(req ackstore.ClaimReq) (answer ackstore.Claimed, again bool) {
	m := t.s.machines[req.Lease.MachineID]
	if m == nil || m.lease == nil || m.lease.epoch != req.Lease.Epoch {
		return ackstore.Claimed{Err: ackstore.ErrFenced}, false
	}
	if t.s.boxes.full(m.lease) || t.mail[m.lease] != nil {
		return ackstore.Claimed{}, true
	}
	answer.Dispatches = t.dispatch(m, req.Max)
	t.park(m.lease, m.lease.via == ackstore.ViaStream && len(answer.Dispatches) == 0)
	return answer, false
}

// park notes whether a stream has nothing left to write.
func (t *tx) park(l *lease, parked bool) {
	was := l.parked
	l.parked = parked
	t.undo = append(t.undo, func() { l.parked = was })
}

// dispatch puts what may go in flight: the committer's heart, for a claim as for
// a ride.
func (t *tx) dispatch(m *machine, most int) []ackstore.Dispatch {
	if most <= 0 || most > claimMost {
		most = claimMost
	}
	var out []ackstore.Dispatch
	var bytes int64
	for len(out) < most && m.inFlight < m.credit() && t.takes(m) {
		r := m.best()
		if r == nil {
			break
		}
		if t.overdue(r) {
			continue
		}
		size := int64(r.a.PayloadBytes)
		if m.inFlight > 0 && m.bytes+size > t.r.MaxInFlightBytes {
			break
		}
		if len(out) > 0 && bytes+size > claimBytes {
			break
		}
		bytes += size
		out = append(out, t.send(r))
	}
	return out
}

// takes tells whether a machine is to get anything now.
func (t *tx) takes(m *machine) bool {
	return t.heldMachine(m.id) == nil && !m.lease.suspect(t.now, t.r)
}

// suspect tells whether a lease that has begun to beat has stopped.
func (l *lease) suspect(now time.Time, r ackstore.Rules) bool {
	return l.beats && r.SuspectAfter > 0 && now.Sub(l.signed) >= r.SuspectAfter
}

// overdue ends what may no longer go: expired, or an orphan with no resend left.
func (t *tx) overdue(r *rec) bool {
	a := &r.a
	switch {
	case !a.ExpiresAt.IsZero() && !t.now.Before(a.ExpiresAt):
		t.change(r, func(a *ackstore.Action) ledger.Effect { ledger.Expire(a, t.now); return ledger.Effect{} })
	case ledger.Spent(a, t.r):
		t.change(r, func(a *ackstore.Action) ledger.Effect { ledger.GiveUp(a, t.now); return ledger.Effect{} })
	default:
		return false
	}
	return true
}

// send puts one action in flight. Its numbers are on disk with this commit,
// before a byte of it leaves.
func (t *tx) send(r *rec) ackstore.Dispatch {
	m, l := r.m, r.m.lease
	t.probing(r)
	m.row.EventID++
	t.touch(m)
	f := ledger.Flight{
		EventID: m.row.EventID, Stamp: t.stamp(), Epoch: l.epoch, Via: l.via,
		Instance: m.row.Instance, OrphanTimeout: m.row.SubOrphan,
	}
	r.preBoot, r.polling = false, l.via == ackstore.ViaPoll
	t.change(r, func(a *ackstore.Action) ledger.Effect {
		ledger.Dispatch(a, f, t.r, t.now)
		return ledger.Effect{Door: policy.DoorNone}
	})
	t.serve(r)
	return t.parcel(r)
}

// parcel is what goes out, with the payload as it was pushed.
func (t *tx) parcel(r *rec) ackstore.Dispatch {
	a := &r.a
	d := ackstore.Dispatch{
		ActionID: a.ID, MachineID: a.MachineID, SessionID: a.SessionID, ReplayID: a.ReplayID, Type: a.Type,
		Payload: clone(t.bucket(bucketBodies).Get(be(a.Ord))), Guarantee: a.Guarantee, Labels: a.Labels,
		Delivery: a.Delivery, EventID: a.EventID, Resent: a.Resent(),
		Attempts: a.Attempts, TransientAttempts: a.TransientAttempts,
		DispatchedAt: a.DispatchedAt, AckBy: a.DispatchedAt.Add(a.OrphanAfter),
		DueSince: a.CreatedAt, Trace: a.Trace,
	}
	if a.AvailableAt.After(d.DueSince) {
		d.DueSince = a.AvailableAt
	}
	return d
}

// clone: what bbolt gives is gone with its transaction.
func clone(b []byte) []byte { return append([]byte(nil), b...) }

// ride dispatches, in the commit that made it possible, to every machine whose
// stream has nothing left to write, and wakes the others.
func (t *tx) ride() {
	for len(t.kicked) > 0 && t.err == nil {
		kicked := t.kicked
		t.kicked = map[*machine]ackstore.Rules{}
		for m, rules := range kicked {
			l := m.lease
			if l == nil {
				continue
			}
			t.r = rules
			if l.via == ackstore.ViaPoll {
				t.wakes[m.id] = true
				continue
			}
			if !l.parked {
				continue
			}
			if sent := t.dispatch(m, 0); len(sent) > 0 {
				t.park(l, false)
				t.letter(l).dispatches = append(t.letter(l).dispatches, sent...)
				t.wakes[m.id] = true
			}
		}
	}
}

// tell leaves word for a machine's stream to stop an action; without a stream
// there is nobody to tell.
func (t *tx) tell(m *machine, note ackstore.CancelNote) {
	if m.lease == nil || m.lease.via != ackstore.ViaStream {
		return
	}
	t.letter(m.lease).cancels = append(t.letter(m.lease).cancels, note)
	t.wakes[m.id] = true
}

// recall takes a delivery that is in flight no more out of the box in which it
// waits to be handed over: after a result no byte of its action goes out.
func (t *tx) recall(m *machine, ref ackstore.Ref) {
	if m.lease == nil {
		return
	}
	gone := func(d ackstore.Dispatch) bool { return d.ActionID == ref.ActionID && d.Delivery == ref.Delivery }
	if p := t.mail[m.lease]; p != nil {
		p.dispatches = slices.DeleteFunc(p.dispatches, gone)
	}
	l := m.lease
	if taken := t.s.boxes.pick(l, gone); len(taken) > 0 {
		t.undo = append(t.undo, func() { t.s.boxes.put(l, &post{dispatches: taken}) })
	}
}

func (t *tx) letter(l *lease) *post {
	if t.mail[l] == nil {
		t.mail[l] = &post{}
	}
	return t.mail[l]
}

// deliver puts the mail of a commit in the boxes, after it is on disk.
func (t *tx) deliver() {
	for l, p := range t.mail {
		t.s.boxes.put(l, p)
	}
}
