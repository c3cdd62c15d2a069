package main_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// The diagram of docs/states.md is what the ledger does: many actions are led
// through everything that can happen to one, and each change of state that is
// seen must be drawn, and each that is drawn must be seen.
func TestTheDiagramOfStatesIsWhatTheLedgerDoes(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^    (\w+) --> (\w+):`).FindAllStringSubmatch(read(t, "docs/states.md"), -1) {
		drawn[m[1]+" --> "+m[2]] = true
	}
	seen := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		w := newWalk(random)
		for range 25 {
			before := w.a.State
			w.step()
			if after := w.a.State; after != before {
				seen[fmt.Sprintf("%s --> %s", before, after)] = true
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(drawn)), slices.Sorted(maps.Keys(seen)))
}

// walk is one action and the time it lives in.
type walk struct {
	*rand.Rand
	a    *ackstore.Action
	now  time.Time
	held bool
	r    ackstore.Rules
}

func newWalk(random *rand.Rand) *walk {
	w := &walk{Rand: random, now: time.Unix(1_000_000, 0).UTC(), held: random.IntN(4) == 0}
	w.r = ackstore.Rules{
		OrphanTimeout: time.Minute, InactivityTimeout: time.Minute, Ceiling: 10 * time.Minute, MaxDisconnectResends: 1,
		DisconnectGrace: time.Minute, ReconnectGrace: 2 * time.Minute, CancelGrace: time.Minute, ErrorDelay: time.Second,
		BackoffBase: time.Second, BackoffMax: time.Minute, QuotaDelay: time.Second, ReleaseDelay: time.Second,
		BreakerThreshold: 3, BreakerPause: time.Second,
	}
	w.a = &ackstore.Action{
		ID: "a", MachineID: "m", State: ackstore.Queued, MaxResends: 1, MaxAttempts: 2, TransientMaxAttempts: 2,
		Guarantee: ackstore.Guarantee(random.IntN(2)), CreatedAt: w.now,
	}
	if random.IntN(3) == 0 {
		w.a.State, w.a.AvailableAt = ackstore.Scheduled, w.now.Add(time.Second)
	}
	if random.IntN(3) == 0 {
		w.a.ExpiresAt = w.now.Add(time.Duration(random.IntN(300)) * time.Second)
	}
	return w
}

// step lets one thing happen, as a driver would apply it.
func (w *walk) step() {
	w.now = w.now.Add(time.Duration(w.IntN(100)) * time.Second)
	a := w.a
	switch w.IntN(8) {
	case 0, 1:
		w.time()
	case 2:
		if a.State == ackstore.Queued && !w.held {
			instance := []string{"", "i1", "i2"}[w.IntN(3)]
			ledger.Dispatch(a, ledger.Flight{EventID: uint64(a.Delivery) + 1, Instance: instance}, w.r, w.now)
		}
	case 3, 4:
		w.ack()
	case 5:
		if a.State == ackstore.InFlight || a.State == ackstore.InDoubt || a.Orphan != 0 {
			last := a.EventID - uint64(w.IntN(2))
			ledger.Judge(a, ledger.Return{Instance: []string{"", "i1", "i2"}[w.IntN(3)], Last: &last}, w.r, w.held, w.now)
		}
	case 6:
		w.operate()
	case 7:
		w.held = w.IntN(4) == 0
		if a.State == ackstore.InFlight && a.LostSince.IsZero() {
			a.LostSince = w.now // its stream ends
		}
	}
}

// time applies what has become due.
func (w *walk) time() {
	a := w.a
	switch {
	case a.State.Waits() && !a.ExpiresAt.IsZero() && !w.now.Before(a.ExpiresAt):
		ledger.Expire(a, w.now)
	case a.State == ackstore.Scheduled && !w.now.Before(a.AvailableAt):
		a.State = ackstore.Queued
	case a.Orphan != 0 && !w.held && ledger.Spent(a, w.r):
		ledger.GiveUp(a, w.now)
	case a.State == ackstore.InFlight:
		if at, due := ledger.Deadline(a, w.r); due != ledger.DueNever && !w.now.Before(at) {
			ledger.Pass(a, due, w.r, w.held, w.now)
		}
	}
}

func (w *walk) ack() {
	verbs := []ackstore.Verb{ackstore.SaysReceived, ackstore.SaysWorking, ackstore.SaysDone, ackstore.SaysFailed, ackstore.SaysReleased, ackstore.SaysCancelled}
	k := ackstore.Ack{ActionID: "a", Verb: verbs[w.IntN(len(verbs))], Delivery: max(0, w.a.Delivery-w.IntN(2))}
	if k.Verb == ackstore.SaysFailed {
		k.Error = &ackstore.Failure{Kind: []string{"error", "permanent", "transient", "quota", "config"}[w.IntN(5)]}
	}
	ledger.Ack(w.a, k, w.r, w.now)
}

func (w *walk) operate() {
	switch w.IntN(6) {
	case 0:
		ledger.Cancel(w.a, "operator", w.now)
	case 1, 2:
		ledger.Redrive(w.a, "operator", w.now)
	case 3:
		ledger.Resolve(w.a, ackstore.Done, "", w.now)
	case 4:
		ledger.Resolve(w.a, ackstore.Failed, "", w.now)
	}
}
