package boltstore

import (
	"bytes"
	"fmt"

	"pushd/ackstore"
)

// reload reads the memory from the file: the machines, what is in flight, and the
// heads of lanes and flows. It takes as long as there are of those, however long
// the queues are. Live leases are carried over.
func (s *Store) reload() error {
	bt, err := s.db.Begin(false)
	if err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	was := s.memory
	s.memory = memory{
		boot: was.boot, booted: was.booted, rules: was.rules, gateMoved: true,
		machines: map[string]*machine{}, live: map[uint64]*rec{},
		holds: map[holdID]*ackstore.Hold{}, heldOn: map[scoped]map[holdID]bool{}, breakers: map[breakerID]*breakerRow{},
	}
	t := newTx(s, bt)
	t.reading = true
	t.readMeta()
	if was.machines == nil {
		s.booted = s.stamp
	}
	t.readMachines(was.machines)
	t.readRows()
	t.readOpen(was.live)
	t.readHeads(bucketLanes, laneOf)
	t.readHeads(bucketLoose, flowHead)
	t.keepTurns(was.machines)
	s.firstTime = firstTime(bt.Bucket(bucketTimes))
	if err := bt.Rollback(); err != nil {
		t.fail(err)
	}
	if t.err != nil {
		s.memory = was // for its leases, when this is tried again
		return t.err
	}
	// Whoever waits on a stream that is still there asks again.
	for id, m := range s.machines {
		if m.lease != nil && s.cfg.Listener != nil {
			s.cfg.Listener.Wake(id)
		}
	}
	return nil
}

func (t *tx) readMeta() {
	meta := t.bucket(bucketMeta)
	if v := meta.Get(keyOrd); v != nil {
		t.s.ord = ordOf(v)
	}
	if v := meta.Get(keyStamp); v != nil {
		t.s.stamp = ordOf(v)
	}
	if v := meta.Get(keyCounts); v != nil {
		t.fail(decode(v, &t.s.counts))
	}
}

// readMachines keeps what is known of machines beside the file: leases, turns and
// signs of life.
func (t *tx) readMachines(was map[string]*machine) {
	t.fail(t.bucket(bucketMachines).ForEach(func(k, v []byte) error {
		m := newMachine(string(k))
		if err := decode(v, &m.row); err != nil {
			return err
		}
		if m.listed = !m.row.Gone; m.listed {
			t.s.known++
		}
		t.s.machines[m.id] = m
		return nil
	}))
	for id, old := range was {
		m := t.s.machines[id]
		if m == nil && old.lease != nil {
			m = t.machine(id)
		}
		if m == nil {
			continue
		}
		m.lease, m.turns, m.looseAt = old.lease, old.turns, old.looseAt
		if old.row.LastSeen.After(m.row.LastSeen) {
			m.row.LastSeen = old.row.LastSeen
		}
	}
}

func (t *tx) keepTurns(was map[string]*machine) {
	for id, old := range was {
		m := t.s.machines[id]
		if m == nil {
			continue
		}
		for session, q := range m.lanes {
			if before := old.lanes[session]; before != nil {
				q.served = before.served
			}
			t.refresh(q)
		}
	}
}

func (t *tx) readRows() {
	t.fail(t.bucket(bucketHolds).ForEach(func(_, v []byte) error {
		h := &ackstore.Hold{}
		err := decode(v, h)
		t.s.addHold(h)
		return err
	}))
	t.fail(t.bucket(bucketBreakers).ForEach(func(_, v []byte) error {
		b := &breakerRow{}
		err := decode(v, b)
		t.s.breakers[breakerID{b.Machine, b.Target}] = b
		return err
	}))
}

// readOpen reads what is in flight, in doubt or waits to be resent. A stream that
// was live when the server ended has ended with it. What a poll is being answered
// with (was) still is.
func (t *tx) readOpen(was map[uint64]*rec) {
	t.fail(t.bucket(bucketOpen).ForEach(func(k, _ []byte) error {
		r := t.load(ordOf(k))
		if r == nil {
			return fmt.Errorf("boltstore: open action %d has no record", ordOf(k))
		}
		a := &r.a
		t.s.live[a.Ord] = r
		r.m.open[a.Ord] = r
		if a.State == ackstore.InFlight {
			r.m.inFlight++
			r.m.bytes += int64(a.PayloadBytes)
		}
		if old := was[a.Ord]; old != nil && old.polling {
			r.polling = a.State == ackstore.InFlight && a.Delivery == old.a.Delivery
		}
		// By its number: the clock may have been set meanwhile.
		if l := r.m.lease; a.Stamp <= t.s.booted && (l == nil || l.epoch != a.Epoch) {
			r.preBoot = true
			if a.Via == ackstore.ViaStream && a.LostSince.IsZero() {
				a.LostSince = t.s.boot
			}
		}
		return nil
	}))
	for _, r := range t.s.live {
		t.s.schedule(r, t.s.rules)
		t.refreshOrphan(r)
	}
}

// headOf makes the queue whose first key this is, and says where the next begins.
type headOf func(t *tx, r *rec) (q *queue, prefix []byte)

func (t *tx) readHeads(bucket []byte, of headOf) {
	c := t.bucket(bucket).Cursor()
	key, v := c.First()
	for key != nil && t.err == nil {
		r := t.load(ordOf(v))
		if r == nil {
			t.fail(fmt.Errorf("boltstore: queued action %d has no record", ordOf(v)))
			return
		}
		q, prefix := of(t, r)
		if !bytes.HasPrefix(key, prefix) {
			t.fail(fmt.Errorf("boltstore: action %s is not where its index says", r.a.ID))
			return
		}
		t.setHead(q, r)
		t.refresh(q)
		key, v = c.Seek(append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 9)...))
	}
}

func laneOf(_ *tx, r *rec) (*queue, []byte) {
	q := &queue{m: r.m, session: r.a.SessionID, readyAt: -1, served: r.m.newTurn()}
	r.m.lanes[q.session] = q
	return q, join(r.m.id, q.session)
}

func flowHead(_ *tx, r *rec) (*queue, []byte) {
	q := &queue{m: r.m, flow: flowOf(&r.a), isFlow: true, readyAt: -1}
	r.m.flows[q.flow] = q
	return q, q.flow.prefix(r.m.id)
}

// Abandon drops the store as a crash would: nothing that waits is answered from
// disk, and nothing more is written. It is for tests of recovery.
func (s *Store) Abandon() error {
	s.in.close()
	<-s.stopped
	return s.db.Close()
}
