package boltstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// SetCredit changes max_in_flight. An operator's lasts until an operator changes
// it; an agent's until another instance subscribes.
func (s *Store) SetCredit(ctx context.Context, r ackstore.Rules, reqs []ackstore.CreditReq) ([]ackstore.Machine, error) {
	answers := make([]ackstore.Machine, len(reqs))
	var refused error
	err := s.submit(ctx, r, func(t *tx) {
		if refused = t.crowded(each(reqs, func(r *ackstore.CreditReq) string { return r.MachineID })); refused != nil {
			return
		}
		for i, req := range reqs {
			m := t.machine(req.MachineID)
			t.appear(m)
			if req.ByOperator {
				m.row.OpCredit, m.row.OpWhy = req.Max, req.Reason
			} else {
				m.row.AgentCredit, m.row.AgentWhy = req.Max, req.Reason
			}
			t.touch(m)
			t.wrote = true
			limit := "none"
			if req.Max != nil {
				limit = strconv.Itoa(*req.Max)
			}
			t.say(ackstore.Change{MachineID: m.id, Event: "credit", Detail: limit + " " + req.Reason})
			t.kick(m)
			answers[i] = t.show(m)
		}
	})
	if err = cmp.Or(err, refused); err != nil {
		return nil, err
	}
	return answers, nil
}

// DropMachine forgets a machine; its numbers stay, so that neither seq nor event
// ids begin again if it comes back.
func (s *Store) DropMachine(ctx context.Context, r ackstore.Rules, id string) error {
	var refused error
	err := s.submit(ctx, r, func(t *tx) {
		refused = nil
		m := t.s.machines[id]
		if m == nil || !m.listed {
			refused = ackstore.ErrUnknown
			return
		}
		if shown := t.show(m); shown.Presence != ackstore.Offline || shown.Unsettled > 0 {
			refused = ackstore.ErrNotEligible
			return
		}
		t.drop(m)
	})
	if err != nil {
		return err
	}
	return refused
}

func (t *tx) drop(m *machine) {
	m.listed = false
	t.s.known--
	if l := m.lease; l != nil { // of polls that have ended
		t.s.boxes.close(l)
		m.lease = nil
		t.undo = append(t.undo, func() { m.lease = l; t.s.boxes.open(l) })
	}
	m.row = machineRow{Gone: true, Seq: m.row.Seq, EventID: m.row.EventID, Epoch: m.row.Epoch}
	t.touch(m)
	t.wrote = true
	for _, h := range t.holdsOn(ackstore.OfMachine, m.id) {
		t.unhold(&h)
	}
	for id := range t.s.breakers {
		if id.machine == m.id {
			t.dropBreaker(id)
		}
	}
	t.say(ackstore.Change{MachineID: m.id, Event: "deleted"})
}

// PutToken keeps a token.
func (s *Store) PutToken(ctx context.Context, tok ackstore.Token) error {
	if !tok.ExpiresAt.IsZero() {
		tok.ExpiresAt = ledger.CeilMilli(tok.ExpiresAt)
	}
	return s.submit(ctx, ackstore.Rules{}, func(t *tx) { t.put(bucketTokens, []byte(tok.ID), encode(tok)) })
}

// DropToken forgets a token.
func (s *Store) DropToken(ctx context.Context, id string) error {
	known := false
	err := s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		if known = t.bucket(bucketTokens).Get([]byte(id)) != nil; known {
			t.del(bucketTokens, []byte(id))
		}
	})
	if err == nil && !known {
		return ackstore.ErrUnknown
	}
	return err
}

// Tokens lists the tokens, oldest first.
func (s *Store) Tokens(ctx context.Context) ([]ackstore.Token, error) {
	var all []ackstore.Token
	err := s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		all = nil
		t.fail(t.bucket(bucketTokens).ForEach(func(_, v []byte) error {
			var tok ackstore.Token
			if err := decode(v, &tok); err != nil {
				return err
			}
			all = append(all, tok)
			return nil
		}))
	})
	slices.SortFunc(all, func(a, b ackstore.Token) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return all, err
}
