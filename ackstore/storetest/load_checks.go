package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// loadChecks is many callers at once; the detector of races looks on, and the
// counts are compared with a full scan when they are gone.
var loadChecks = []check{
	{"all verbs at once: each delivery is handed over once, and the counts hold", func(r *rig) {
		const machines, each = 4, 25
		r.rules.MaxDisconnectResends = 1000
		wires := make([]*wire, machines)
		var agents, others sync.WaitGroup
		for m := range machines {
			wires[m] = &wire{r: r, machine: fmt.Sprint("m", m), rng: rand.New(rand.NewPCG(uint64(m), 7)), seen: map[ackstore.Ref]bool{}}
			agents.Go(func() { wires[m].work(each) })
		}
		for o := range 2 {
			others.Go(func() { r.disturb(rand.New(rand.NewPCG(uint64(o), 9)), machines, each) })
		}
		others.Wait()
		agents.Wait()
		for _, w := range wires {
			require.Empty(r, w.trouble)
		}
		require.Len(r, r.list(ackstore.Filter{}, 50), machines*each)
	}},
	{"a reader sees no half of a group", func(r *rig) {
		const groups, size = 20, 5
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			for g := range groups {
				var group []ackstore.NewAction
				for i := range size {
					group = append(group, action(fmt.Sprintf("g%02d-%d", g, i)))
				}
				_, _ = r.store.Push(ctx, r.rules, [][]ackstore.NewAction{group})
			}
		}()
		for open := true; open; {
			select {
			case <-gone:
				open = false
			default:
			}
			items, _, err := r.store.List(ctx, ackstore.Filter{}, "", groups*size)
			require.NoError(r, err)
			require.Zero(r, len(items)%size, "actions seen")
		}
	}},
}

// wire is an agent that pushes for itself, works, loses its stream, and notes
// what breaks the rules of the wire.
type wire struct {
	r       *rig
	machine string
	rng     *rand.Rand
	seen    map[ackstore.Ref]bool
	events  uint64
	trouble []string
}

// work pushes and settles until all are done; it gives up after a minute.
func (w *wire) work(total int) {
	finished := map[string]bool{}
	var lease ackstore.Lease
	began := time.Now() // of this machine, which may be slow
	for round := 0; len(finished) < total && time.Since(began) < time.Minute; round++ {
		if round < total {
			id := fmt.Sprintf("%s-%d", w.machine, round)
			_, _ = w.r.store.Push(ctx, w.r.rules, [][]ackstore.NewAction{{action(id, of(w.machine), lane(fmt.Sprint("s", round%3)), resends(1000))}})
		}
		if round%10 == 0 { // what was released comes due
			w.r.clock.add(100 * time.Millisecond)
			_, _ = w.r.store.Sweep(ctx, w.r.rules, 8)
		}
		if lease.Epoch == 0 || w.rng.IntN(40) == 0 {
			got, err := w.r.store.Attach(ctx, w.r.rules, []ackstore.AttachReq{{MachineID: w.machine, InstanceID: fmt.Sprint(round / 400), MaxInFlight: 3, LastEventID: &w.events}})
			if err != nil {
				continue
			}
			lease = got[0].Lease
			for _, h := range got[0].InFlight {
				w.finish(finished, h.ActionID, h.Delivery)
			}
		}
		got, err := w.r.store.Claim(ctx, w.r.rules, []ackstore.ClaimReq{{Lease: lease}})
		if err != nil {
			continue
		}
		for _, d := range got[0].Dispatches {
			if w.seen[ref(d)] || d.EventID <= w.events || finished[d.ActionID] {
				w.trouble = append(w.trouble, fmt.Sprintf("%s delivery %d, event %d", d.ActionID, d.Delivery, d.EventID))
			}
			w.seen[ref(d)], w.events = true, d.EventID
			if w.rng.IntN(5) > 0 {
				w.finish(finished, d.ActionID, d.Delivery)
			} else {
				_, _ = w.r.store.Settle(ctx, w.r.rules, []ackstore.Ack{released(d.ActionID, delivery(d.Delivery))})
			}
		}
	}
	if len(finished) < total {
		w.trouble = append(w.trouble, fmt.Sprintf("%d of %d are done", len(finished), total))
	}
}

func (w *wire) finish(finished map[string]bool, id string, number int) {
	got, err := w.r.store.Settle(ctx, w.r.rules, []ackstore.Ack{done(id, delivery(number))})
	if err == nil && got[0].State == ackstore.Done {
		finished[id] = true
	}
}

// disturb sweeps, pauses, resumes, reads and moves the clock meanwhile.
func (r *rig) disturb(rng *rand.Rand, machines, rounds int) {
	for range rounds * 20 {
		m := fmt.Sprint("m", rng.IntN(machines))
		switch rng.IntN(6) {
		case 0:
			_ = r.store.Hold(ctx, r.rules, ackstore.Hold{Scope: ackstore.OfMachine, ID: m, Cause: ackstore.HeldByOperator})
		case 1:
			_, _ = r.store.Overview(ctx, r.rules)
			_, _ = r.store.Machine(ctx, r.rules, m)
		case 2:
			_, _, _ = r.store.List(ctx, ackstore.Filter{MachineID: m}, "", 10)
		default:
			r.clock.add(300 * time.Millisecond)
			_, _ = r.store.Sweep(ctx, r.rules, 8)
		}
		_ = r.store.Unhold(ctx, r.rules, ackstore.OfMachine, m, "")
	}
}
