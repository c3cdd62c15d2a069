package boltstore

import (
	"context"
	"errors"
	"time"

	"pushd/ackstore"
	"pushd/inflight/ledger"
	"pushd/policy"
)

// Sweep applies what time has brought, at most limit of it. Its cost is what is
// due, not what exists.
func (s *Store) Sweep(ctx context.Context, r ackstore.Rules, limit int) (ackstore.Swept, error) {
	var done ackstore.Swept
	err := s.submit(ctx, r, func(t *tx) {
		w := sweep{t: t, left: limit}
		t.reckon()
		w.deadlines()
		w.moments()
		if gate := t.s.nextGate(); !gate.IsZero() && !gate.After(t.now) {
			w.pauses()
			w.breakers()
		}
		w.forgetBreakers()
		w.retention()
		done = w.done
		done.More = w.left <= 0 || w.rest
	})
	return done, err
}

// sweep is one pass of the broom.
type sweep struct {
	t    *tx
	left int
	rest bool // of retention
	done ackstore.Swept
}

// reckon works the deadlines out anew where the rules are not those they were
// worked out by: at the first sweep, and after the settings were reloaded.
func (t *tx) reckon() {
	if t.s.rules == t.r {
		return
	}
	t.s.rules = t.r
	for _, m := range t.s.machines {
		for _, r := range m.open {
			t.s.schedule(r, t.r)
		}
	}
}

func (w *sweep) deadlines() {
	t := w.t
	for ; w.left > 0 && len(t.s.deadline) > 0; w.left-- {
		r := t.s.deadline[0]
		if r.due.After(t.now) {
			return
		}
		was, kind := r.a.State, r.kind
		r.preBoot = false
		t.change(r, func(a *ackstore.Action) ledger.Effect {
			return ledger.Pass(a, kind, t.r, t.held(a) != nil, t.now)
		})
		w.tally(r, was, kind)
	}
}

func (w *sweep) tally(r *rec, was ackstore.State, kind ledger.Due) {
	switch kind {
	case ledger.DueOrphan, ledger.DueGone:
		w.done.Detected++
	case ledger.DueStall, ledger.DueCeiling:
		w.done.Stalled++
	}
	if r.a.State == was {
		return
	}
	switch r.a.State {
	case ackstore.GaveUp:
		w.done.GaveUp++
	case ackstore.InDoubt:
		w.done.Doubted++
	case ackstore.Expired:
		w.done.Expired++
	}
}

// moments makes due what was scheduled and ends what expires, in the order of time.
func (w *sweep) moments() {
	t := w.t
	for ; w.left > 0; w.left-- {
		key, _ := t.bucket(bucketTimes).Cursor().First()
		if key == nil || time.UnixMilli(int64(ordOf(key))).After(t.now) {
			return
		}
		ord, kind := ordOf(key[8:]), key[16]
		r := t.sound(ord)
		if r == nil {
			t.del(bucketTimes, clone(key))
			continue
		}
		switch kind {
		case timeAvailable:
			t.change(r, func(a *ackstore.Action) ledger.Effect { a.State = ackstore.Queued; return ledger.Effect{} })
		case timeExpires:
			w.done.Expired++
			t.change(r, func(a *ackstore.Action) ledger.Effect { ledger.Expire(a, t.now); return ledger.Effect{} })
		}
		if t.err != nil {
			return
		}
	}
}

// sound is load for what goes over many, which a damaged record must not stop for
// all the others: that one is left as it is, with a line in the log; nil.
func (t *tx) sound(ord uint64) *rec {
	if t.err != nil {
		return nil
	}
	r := t.load(ord)
	if errors.Is(t.err, errDamaged) {
		t.s.log.Error().Err(t.err).Uint64("ord", ord).Msg("a record is damaged and left as it is; pushctl verify tells of it")
		t.err = nil
	}
	return r
}

// pauses ends those that were to hold until now.
func (w *sweep) pauses() {
	t := w.t
	for _, h := range t.s.holds {
		if w.left > 0 && !h.Until.IsZero() && !h.Until.After(t.now) {
			w.left--
			t.unhold(h)
		}
	}
}

// breakers looks again at what waits for a door that may open by a crack.
func (w *sweep) breakers() {
	t := w.t
	for id, b := range t.s.breakers {
		if w.left <= 0 || !b.waits() || b.value().Allows(t.now) != policy.PassProbe {
			continue
		}
		w.left--
		b.woken, t.s.gateMoved = true, true
		for _, m := range t.machinesOf(id.machine) {
			t.regate(m)
		}
	}
}

// How long a breaker is remembered that has closed and has no strike, and how
// often it is looked for: what was sent before it closed says nothing of it.
const (
	breakerKept = 24 * time.Hour
	tidyEvery   = time.Hour
)

func (w *sweep) forgetBreakers() {
	t := w.t
	if t.now.Sub(t.s.tidied) < tidyEvery {
		return
	}
	t.s.tidied = t.now
	for id, b := range t.s.breakers {
		if b.State == policy.Closed && b.Strikes == 0 && t.now.Sub(b.Since) > breakerKept {
			t.dropBreaker(id)
		}
	}
}
