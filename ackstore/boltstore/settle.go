package boltstore

import (
	"context"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// Settle applies acks in order, in one transaction.
func (s *Store) Settle(ctx context.Context, r ackstore.Rules, acks []ackstore.Ack) ([]ackstore.AckResult, error) {
	answers := make([]ackstore.AckResult, len(acks))
	err := s.submit(ctx, r, func(t *tx) {
		for i := range acks {
			answers[i] = t.settle(&acks[i])
		}
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (t *tx) settle(k *ackstore.Ack) ackstore.AckResult {
	answer := ackstore.AckResult{ActionID: k.ActionID, Outcome: ackstore.Unknown}
	if k.Forbidden {
		answer.Outcome = ackstore.Forbidden
		return answer
	}
	r, _, ok := t.find(k.ActionID)
	if !ok || r == nil {
		return answer
	}
	e := t.ack(r, k)
	answer.Outcome, answer.Cancel, answer.AvailableAt = e.Outcome, e.Cancel, e.AvailableAt
	if e.Outcome != ackstore.Conflict {
		answer.State = r.a.State
	}
	return answer
}

// ack runs the table. A word that moves nothing writes nothing.
func (t *tx) ack(r *rec, k *ackstore.Ack) ledger.Effect {
	trial := r.a
	probe := ledger.Ack(&trial, *k, t.r, t.now)
	if probe.Outcome == ackstore.Conflict {
		return probe
	}
	if !idle(probe.Outcome) || !sameRecord(&trial, &r.a) {
		r.preBoot = false
		t.change(r, func(a *ackstore.Action) ledger.Effect {
			*a = trial
			if probe.KeepResult {
				t.keepResult(a, k)
			}
			return probe
		})
	}
	// Behind its own action: the end of a pause may give up what waited, and this
	// one has just been heard of.
	t.heard(r.m)
	return probe
}

// keepResult keeps what an ack brought. One of an attempt that failed before goes.
func (t *tx) keepResult(a *ackstore.Action, k *ackstore.Ack) {
	switch {
	case k.Result != nil:
		a.HasResult = true
		t.append(bucketResults, be(a.Ord), k.Result)
	case a.HasResult && k.Verb == ackstore.SaysDone:
		a.HasResult = false
		t.del(bucketResults, be(a.Ord))
	}
}

// idle outcomes leave the action as it was, but for a note now and then.
func idle(o ackstore.Outcome) bool {
	return o == ackstore.Duplicate || o == ackstore.Stale || o == ackstore.Late
}

func sameRecord(a, b *ackstore.Action) bool {
	return a.State == b.State && a.Late == b.Late && len(a.Verdicts) == len(b.Verdicts) &&
		len(a.Timeline)+a.TimelineCut == len(b.Timeline)+b.TimelineCut
}
