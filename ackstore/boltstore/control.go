package boltstore

import (
	"context"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// act runs an operator's word on one action.
type act func(t *tx, r *rec, w ackstore.Act) bool

func (s *Store) acts(ctx context.Context, r ackstore.Rules, words []ackstore.Act, do act) ([]ackstore.Acted, error) {
	answers := make([]ackstore.Acted, len(words))
	err := s.submit(ctx, r, func(t *tx) {
		for i, w := range words {
			answers[i] = t.act(w, do)
		}
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (t *tx) act(w ackstore.Act, do act) ackstore.Acted {
	r, _, ok := t.find(w.ActionID)
	if !ok || r == nil {
		return ackstore.Acted{Err: ackstore.ErrUnknown}
	}
	if !do(t, r, w) {
		return ackstore.Acted{Action: r.a, Err: &ackstore.NotEligibleError{ActionID: w.ActionID, State: r.a.State}}
	}
	return ackstore.Acted{Action: r.a}
}

// Cancel ends what waits, and asks the agent of what is in flight to stop.
func (s *Store) Cancel(ctx context.Context, r ackstore.Rules, words []ackstore.Act) ([]ackstore.Acted, error) {
	return s.acts(ctx, r, words, cancel)
}

func cancel(t *tx, r *rec, w ackstore.Act) bool {
	if !cancellable(&r.a) {
		return true // unchanged, and that is an answer
	}
	t.change(r, func(a *ackstore.Action) ledger.Effect { return ledger.Cancel(a, reasonOf(w), t.now) })
	return true
}

func cancellable(a *ackstore.Action) bool { return !a.State.Settled() && !a.CancelAsked() }

func reasonOf(w ackstore.Act) string {
	switch {
	case w.Note != "":
		return w.Note
	case w.By != "":
		return "cancelled by " + w.By
	}
	return "cancelled by an operator"
}

// Redrive makes settled or doubtful actions wait again.
func (s *Store) Redrive(ctx context.Context, r ackstore.Rules, words []ackstore.Act) ([]ackstore.Acted, error) {
	return s.acts(ctx, r, words, redrive)
}

func redrive(t *tx, r *rec, w ackstore.Act) bool {
	if !redrivable(&r.a) {
		return false
	}
	t.appear(r.m) // it may have been deleted
	t.change(r, func(a *ackstore.Action) ledger.Effect {
		ledger.Redrive(a, w.By, t.now)
		t.del(bucketResults, be(a.Ord))
		return ledger.Effect{}
	})
	return true
}

func redrivable(a *ackstore.Action) bool {
	trial := *a
	return ledger.Redrive(&trial, "", a.CreatedAt)
}

// Resolve says what became of actions in doubt or given up.
func (s *Store) Resolve(ctx context.Context, r ackstore.Rules, words []ackstore.Act) ([]ackstore.Acted, error) {
	return s.acts(ctx, r, words, func(t *tx, r *rec, w ackstore.Act) bool {
		if r.a.State != ackstore.InDoubt && r.a.State != ackstore.GaveUp {
			return false
		}
		t.change(r, func(a *ackstore.Action) ledger.Effect {
			ledger.Resolve(a, w.As, w.Note, t.now)
			return ledger.Effect{}
		})
		return true
	})
}

// Bulk looks at a slice of what a filter selects, and acts on what it may.
func (s *Store) Bulk(ctx context.Context, r ackstore.Rules, req ackstore.BulkReq) (ackstore.BulkResult, error) {
	from, err := parseCursor(req.Cursor)
	if err != nil {
		return ackstore.BulkResult{}, err
	}
	var result ackstore.BulkResult
	err = s.submit(ctx, r, func(t *tx) {
		ords, next := t.slice(req.Filter, from, req.Limit)
		result = ackstore.BulkResult{Next: next}
		for _, ord := range ords {
			if r := t.sound(ord); r != nil && matches(&req.Filter, &r.a) && t.actInBulk(r, req) {
				result.Count++
			}
		}
	})
	return result, err
}

func (t *tx) actInBulk(r *rec, req ackstore.BulkReq) bool {
	may, do := cancellable(&r.a), act(cancel)
	if req.Redrive {
		may, do = redrivable(&r.a), redrive
	}
	return may && (req.DryRun || do(t, r, ackstore.Act{ActionID: r.a.ID, By: req.By}))
}

// slice is the next few ords that a filter's index knows, newest first.
func (t *tx) slice(f ackstore.Filter, from uint64, limit int) (ords []uint64, next string) {
	walk := newWalk(t.bt, f, from)
	for ord, ok := walk.next(); ok; ord, ok = walk.next() {
		if len(ords) == limit {
			return ords, cursorOf(ords[limit-1])
		}
		ords = append(ords, ord)
	}
	return ords, ""
}
