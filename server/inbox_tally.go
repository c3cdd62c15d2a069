package server

import (
	"maps"
	"sync"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// hookTally counts what came to a route since the start. Who may not deliver leaves
// nothing on disk, or a stranger could fill it: the last refusal is kept here.
type hookTally struct {
	mu       sync.Mutex
	fates    map[ackstore.Fate]int
	repeats  int
	refused  int
	lastWhy  string
	lastAt   time.Time // of a refusal
	signedAt []time.Time
}

func newHookTally(secrets int) *hookTally {
	return &hookTally{fates: map[ackstore.Fate]int{}, signedAt: make([]time.Time, secrets)}
}

// rekeyed is a tally that goes on from t with other secrets: known tells where
// each of them stood before, or -1.
func (t *hookTally) rekeyed(known []int) *hookTally {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := newHookTally(len(known))
	n.fates, n.repeats, n.refused = maps.Clone(t.fates), t.repeats, t.refused
	n.lastWhy, n.lastAt = t.lastWhy, t.lastAt
	for i, at := range known {
		if at >= 0 {
			n.signedAt[i] = t.signedAt[at]
		}
	}
	return n
}

// count notes a delivery's fate.
func (t *hookTally) count(fate ackstore.Fate, duplicate bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if duplicate {
		t.repeats++
		return
	}
	t.fates[fate]++
}

func (t *hookTally) greet() { t.count(ackstore.FateGreeted, false) }

// refuse notes a delivery that was not let in.
func (t *hookTally) refuse(why error, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused++
	t.lastWhy, t.lastAt = textOf(why), at
}

// sign notes which secret was used, so that its owner knows when an old one may go.
func (t *hookTally) sign(secret int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if secret >= 0 && secret < len(t.signedAt) {
		t.signedAt[secret] = at
	}
}

// fill tells a route's counts.
func (t *hookTally) fill(w *api.Webhook) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.Counts = map[string]int{"duplicate": t.repeats, "refused": t.refused}
	for fate, n := range t.fates {
		w.Counts[string(fate)] = n
	}
	for _, at := range t.signedAt {
		w.Secrets = append(w.Secrets, api.WebhookSecret{LastUsedAt: api.At(at)})
	}
	if t.refused > 0 {
		w.LastRefusal = &api.WebhookRefusal{At: api.At(t.lastAt), Why: t.lastWhy}
	}
}
