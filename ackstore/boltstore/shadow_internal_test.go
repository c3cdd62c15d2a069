package boltstore

import (
	"container/heap"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/storetest"
)

// spoilEach is how often a commit fails first: the memory that is compared must
// have had time to go its own way.
const spoilEach = 3

// openShadowed opens a store whose memory is compared, after each commit, with
// what a reader of the file would make of it; and some commits fail once, as late
// as they can, before they are let through. If that leaves anything behind, beside
// the file or in it, the suite tells.
func openShadowed(t testing.TB, dir string, now func() time.Time, l ackstore.Listener) ackstore.Store {
	t.Helper()
	s, err := read(Config{Dir: dir, Now: now, Listener: l, Logger: zerolog.Nop()})
	require.NoError(t, err)
	spoil := &call{apply: func(t *tx) { t.ride(); t.fail(errFull) }}
	go func() {
		defer close(s.stopped)
		n := 0
		for batch := s.in.take(); len(batch) > 0; batch = s.in.take() {
			if n++; n%spoilEach == 0 {
				_, _ = s.commit(append(slices.Clone(batch), spoil))
			}
			made, err := s.commit(batch)
			if err == nil {
				err = s.compare()
			}
			for _, c := range batch {
				c.answer(err)
			}
			if err == nil {
				s.announce(made)
			}
		}
	}()
	return s
}

func TestStoreWhoseMemoryIsComparedAndWhoseCommitsFail(t *testing.T) { storetest.Run(t, openShadowed) }

func TestSimulationWhoseMemoryIsComparedAndWhoseCommitsFail(t *testing.T) {
	storetest.Simulate(t, openShadowed)
}

// compare reads the file beside the store and tells the first difference.
func (s *Store) compare() error {
	fresh := &Store{cfg: Config{Now: s.cfg.Now}, db: s.db}
	fresh.boot, fresh.booted, fresh.rules = s.boot, s.booted, s.rules
	fresh.machines = map[string]*machine{} // not its first load
	if err := fresh.reload(); err != nil {
		return err
	}
	// Where a pause or a breaker ends by itself a sweep looks at who may go, and not
	// who reads the file.
	still := s.nextGate().IsZero() && fresh.nextGate().IsZero()
	if have, want := s.outline(still), fresh.outline(still); have != want {
		return fmt.Errorf("memory is\n%s\nthe file says\n%s", have, want)
	}
	return s.ordered()
}

// outline spells what must be the same, in an order of its own.
func (s *Store) outline(still bool) string {
	lines := []string{fmt.Sprint("numbers ", s.ord, s.stamp, s.known, s.counts, len(s.live))}
	for id, m := range s.machines {
		lines = append(lines, fmt.Sprint("machine ", id, m.listed, m.inFlight, m.bytes, m.row.Counts, m.row.Seq, m.row.EventID, m.row.Epoch, m.row.GiveUps, len(m.row.LaneGiveUps)))
		for _, r := range m.open {
			lines = append(lines, fmt.Sprint("open ", r.a.Ord, r.a.State, r.a.Delivery, r.a.Seq, r.a.Orphan, r.q != nil, s.live[r.a.Ord] == r))
		}
		for _, q := range m.lanes {
			lines = append(lines, fmt.Sprint("lane ", id, q.session, s.headline(q, &m.ready, still)))
		}
		for _, q := range m.flows {
			lines = append(lines, fmt.Sprint("flow ", id, q.flow, s.headline(q, &m.loose, still)))
		}
		for _, r := range m.orphans {
			if still {
				lines = append(lines, fmt.Sprint("orphan ", id, r.a.Ord))
			}
		}
	}
	for id := range s.holds {
		lines = append(lines, fmt.Sprint("hold ", id))
	}
	for id, b := range s.breakers {
		lines = append(lines, fmt.Sprint("breaker ", id, b.State, b.Strikes, b.Stamp, b.Probe, b.Locked))
	}
	slices.Sort(lines)
	return fmt.Sprintf("%q", lines)
}

// headline of a queue: who is at its head, and whether it may go.
func (s *Store) headline(q *queue, in *queues, still bool) string {
	may := still && q.readyAt >= 0 && (*in)[q.readyAt] == q
	return fmt.Sprint(q.head.a.Ord, q.head.a.State, q.head.q == q, s.live[q.head.a.Ord] == q.head, may)
}

// ordered tells whether the heaps are heaps, and each knows where it stands.
func (s *Store) ordered() error {
	for _, m := range s.machines {
		for name, h := range map[string]heap.Interface{"ready": &m.ready, "loose": &m.loose, "orphans": &m.orphans, "deadlines": &s.deadline} {
			for i := 1; i < h.Len(); i++ {
				if h.Less(i, (i-1)/2) {
					return fmt.Errorf("machine %s: %s is no heap at %d", m.id, name, i)
				}
			}
		}
		for i, r := range m.orphans {
			if r.orphAt != i {
				return fmt.Errorf("machine %s: orphan %s does not know its place", m.id, r.a.ID)
			}
		}
	}
	for i, r := range s.deadline {
		if r.dueAt != i || s.live[r.a.Ord] != r || r.a.State != ackstore.InFlight {
			return fmt.Errorf("the deadline of %s is nobody's", r.a.ID)
		}
	}
	return nil
}
