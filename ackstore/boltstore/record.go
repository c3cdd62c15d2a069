package boltstore

import (
	"bytes"
	"container/heap"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// change runs a transition on an action and writes all that follows from it: the
// record, the indexes, the counts, the lanes, the deadlines, breakers and pauses.
func (t *tx) change(r *rec, f func(a *ackstore.Action) ledger.Effect) ledger.Effect {
	old := r.a
	e := f(&r.a)
	// What was never written is no loss: it keeps its place.
	if r.a.Orphan != 0 && old.Orphan == 0 && r.a.Deliveries == old.Deliveries && t.r.RepushTail {
		r.m.row.Seq++
		r.a.Seq = r.m.row.Seq
		t.touch(r.m)
	}
	if old.State == ackstore.InFlight && (r.a.State != ackstore.InFlight || r.a.Delivery != old.Delivery) {
		t.recall(r.m, ackstore.Ref{ActionID: old.ID, Delivery: old.Delivery})
	}
	t.write(r, &old)
	t.report(r, &old, e) // it may look again at all that waits, and this must be in its place
	t.retell(r, &old)
	t.endings(r, &old)
	t.note(r, &old)
	if e.Tell {
		t.tell(r.m, ackstore.CancelNote{ActionID: r.a.ID, Delivery: r.a.Delivery, Reason: e.TellReason})
	}
	t.kick(r.m)
	return e
}

// find is an action by its id: from memory, or as it is on disk.
func (t *tx) find(id string) (*rec, known, bool) {
	v := t.bucket(bucketIDs).Get([]byte(id))
	if v == nil {
		return nil, known{}, false
	}
	var k known
	if err := decode(v, &k); err != nil {
		t.fail(err)
		return nil, known{}, false
	}
	if k.Gone {
		return nil, k, true
	}
	return t.load(k.Ord), k, true
}

// load is an action by its ord; nil only in a file that is damaged.
func (t *tx) load(ord uint64) *rec {
	if r := t.s.live[ord]; r != nil {
		return r
	}
	v := t.bucket(bucketActions).Get(be(ord))
	if v == nil {
		return nil
	}
	var a ackstore.Action
	if err := decode(v, &a); err != nil {
		t.fail(err)
		return nil
	}
	return newRec(t.machine(a.MachineID), a)
}

// machine is a machine's memory; one that is not known is made.
func (t *tx) machine(id string) *machine {
	m := t.s.machines[id]
	if m == nil {
		m = newMachine(id)
		t.s.machines[id] = m
	}
	return m
}

// indexed is where an action stands in the indexes that follow its state.
type indexed struct {
	lane, loose, open, available, expires, ended []byte
}

func indexOf(a *ackstore.Action) indexed {
	var x indexed
	switch {
	case a.SessionID != "" && !a.State.Settled():
		x.lane = laneKey(a.MachineID, a.SessionID, a.Seq)
	case isLoose(a):
		x.loose = flowOf(a).key(a.MachineID, a.Seq)
	}
	if isOpen(a) {
		x.open = be(a.Ord)
	}
	if a.State == ackstore.Scheduled {
		x.available = timeKey(a.AvailableAt, a.Ord, timeAvailable)
	}
	if a.State.Waits() && !a.ExpiresAt.IsZero() {
		x.expires = timeKey(a.ExpiresAt, a.Ord, timeExpires)
	}
	if a.State.Settled() {
		x.ended = endedKey(a)
	}
	return x
}

// isOpen tells whether an action is held in memory for its own sake.
func isOpen(a *ackstore.Action) bool {
	return a.State == ackstore.InFlight || a.State == ackstore.InDoubt || (a.Orphan != 0 && a.State.Waits())
}

// isLoose tells whether an action waits in a flow.
func isLoose(a *ackstore.Action) bool {
	return a.SessionID == "" && a.State == ackstore.Queued && a.Orphan == 0
}

// write puts the record and moves it in the indexes; old is nil for a new one.
func (t *tx) write(r *rec, old *ackstore.Action) {
	ord := be(r.a.Ord)
	t.put(bucketActions, ord, encode(&r.a))
	var was indexed
	if old != nil {
		was = indexOf(old)
	}
	is := indexOf(&r.a)
	t.reindex(bucketLanes, was.lane, is.lane, ord)
	t.reindex(bucketLoose, was.loose, is.loose, ord)
	t.reindex(bucketOpen, was.open, is.open, nil)
	t.reindex(bucketTimes, was.available, is.available, nil)
	t.reindex(bucketTimes, was.expires, is.expires, nil)
	t.reindex(bucketEnded, was.ended, is.ended, nil)
	t.count(r, old)
	t.place(r, old)
}

func (t *tx) reindex(bucket, was, is, value []byte) {
	if bytes.Equal(was, is) {
		return
	}
	if was != nil {
		t.del(bucket, was)
	}
	if is != nil {
		t.put(bucket, is, value)
	}
}

// count keeps the counts of the store, the machine and the labels.
func (t *tx) count(r *rec, old *ackstore.Action) {
	a, m := &r.a, r.m
	if old != nil && old.State == a.State {
		return
	}
	bump := func(c *counts) {
		if old != nil {
			c[old.State]--
		}
		c[a.State]++
	}
	bump(&t.s.counts)
	t.metaTold = true
	m.row.Counts.move(old, a)
	t.touch(m)
	if a.SessionID != "" {
		bump(&t.label(ackstore.OfSession, a.SessionID).Counts)
	}
	if a.ReplayID != "" {
		bump(&t.label(ackstore.OfReplay, a.ReplayID).Counts)
	}
	if old != nil && old.State == ackstore.InFlight {
		m.inFlight--
		m.bytes -= int64(a.PayloadBytes)
	}
	if a.State == ackstore.InFlight {
		m.inFlight++
		m.bytes += int64(a.PayloadBytes)
	}
}

// label is the row of a session or replay, read once a batch.
func (t *tx) label(scope ackstore.Scope, id string) *labelRow {
	key := string(labelKey(scope, id))
	if row := t.labels[key]; row != nil {
		return row
	}
	row := &labelRow{}
	if v := t.bucket(bucketLabels).Get([]byte(key)); v != nil {
		t.fail(decode(v, row))
	}
	t.labels[key] = row
	return row
}

// place keeps the action's part of the memory.
func (t *tx) place(r *rec, old *ackstore.Action) {
	a, m := &r.a, r.m
	if isOpen(a) {
		m.open[a.Ord] = r
		t.s.live[a.Ord] = r
	} else {
		delete(m.open, a.Ord)
	}
	t.s.schedule(r, t.r)
	if a.SessionID != "" {
		t.placeInLane(r, old)
	} else {
		t.placeInFlow(r, old)
	}
	t.refreshOrphan(r)
	t.forget(r)
}

func (t *tx) placeInLane(r *rec, old *ackstore.Action) {
	a, m := &r.a, r.m
	q := m.lanes[a.SessionID]
	switch {
	case a.State.Settled():
		if q != nil && q.head == r {
			t.nextInLane(q)
		}
		return
	case q == nil:
		q = &queue{m: m, session: a.SessionID, readyAt: -1, served: m.newTurn()}
		m.lanes[a.SessionID] = q
		t.setHead(q, r)
	case q.head == r && old != nil && old.Seq != a.Seq:
		t.nextInLane(q)
	case q.head != r && a.Seq < q.head.a.Seq:
		t.setHead(q, r)
	}
	if q.head != nil {
		t.refresh(q)
	}
}

func (t *tx) placeInFlow(r *rec, old *ackstore.Action) {
	a, m := &r.a, r.m
	f := flowOf(a)
	q := m.flows[f]
	switch {
	case !isLoose(a):
		if q != nil && q.head == r {
			t.nextInFlow(q)
		}
		return
	case q == nil:
		q = &queue{m: m, flow: f, isFlow: true, readyAt: -1}
		m.flows[f] = q
		t.setHead(q, r)
	case q.head != r && a.Seq < q.head.a.Seq:
		t.setHead(q, r)
	}
	t.refresh(q)
}

// setHead makes r the one that is looked at.
func (t *tx) setHead(q *queue, r *rec) {
	was := q.head
	if q.readyAt >= 0 {
		t.unready(q)
	}
	q.head = r
	r.q = q
	t.s.live[r.a.Ord] = r
	if was != nil && was != r {
		was.q = nil
		t.refreshOrphan(was)
		t.forget(was)
	}
	t.refreshOrphan(r)
}

// nextInLane finds the new head of a lane whose head has gone.
func (t *tx) nextInLane(q *queue) {
	prefix := join(q.m.id, q.session)
	t.next(q, bucketLanes, prefix, func() { delete(q.m.lanes, q.session) })
}

func (t *tx) nextInFlow(q *queue) {
	t.next(q, bucketLoose, q.flow.prefix(q.m.id), func() { delete(q.m.flows, q.flow) })
}

func (t *tx) next(q *queue, bucket, prefix []byte, empty func()) {
	key, value := t.bucket(bucket).Cursor().Seek(prefix)
	var r *rec
	if key != nil && bytes.HasPrefix(key, prefix) {
		r = t.load(ordOf(value))
	}
	if r != nil {
		t.setHead(q, r)
		t.refresh(q)
		return
	}
	was := q.head
	t.unready(q)
	q.head = nil
	empty()
	if was != nil {
		was.q = nil
		t.refreshOrphan(was)
		t.forget(was)
	}
}

// forget drops from memory what nothing holds there any more.
func (t *tx) forget(r *rec) {
	if r.q == nil && !isOpen(&r.a) {
		delete(t.s.live, r.a.Ord)
	}
}

func (t *tx) unready(q *queue) {
	if q.readyAt < 0 {
		return
	}
	if q.isFlow {
		heap.Remove(&q.m.loose, q.readyAt)
	} else {
		heap.Remove(&q.m.ready, q.readyAt)
	}
}

// refresh puts a queue among those that may go, or takes it out.
func (t *tx) refresh(q *queue) {
	r := q.head
	may := r.a.State == ackstore.Queued && r.a.Orphan == 0 && t.open(r)
	heapOf := &q.m.ready
	if q.isFlow {
		heapOf = &q.m.loose
	}
	switch {
	case !may:
		t.unready(q)
	case q.readyAt >= 0:
		heap.Fix(heapOf, q.readyAt)
	default:
		heap.Push(heapOf, q)
	}
	if !q.isFlow {
		t.refreshOrphan(r)
	}
}

// refreshOrphan puts what waits to be resent among those that may go. One in a
// lane may only while it is at the head.
func (t *tx) refreshOrphan(r *rec) {
	a, m := &r.a, r.m
	may := a.Orphan != 0 && a.State == ackstore.Queued && (a.SessionID == "" || r.q != nil) && t.open(r)
	switch {
	case !may && r.orphAt >= 0:
		heap.Remove(&m.orphans, r.orphAt)
	case may && r.orphAt >= 0:
		heap.Fix(&m.orphans, r.orphAt)
	case may:
		heap.Push(&m.orphans, r)
	}
}

// retell makes a change of each line that the timeline has grown by.
func (t *tx) retell(r *rec, old *ackstore.Action) {
	a := &r.a
	grown := len(a.Timeline) + a.TimelineCut
	c := ackstore.Change{ActionID: a.ID, MachineID: a.MachineID, State: a.State, Sent: a.DispatchedAt, Trace: a.Trace}
	if old != nil {
		grown -= len(old.Timeline) + old.TimelineCut
		c.Was, c.Lost = old.State, old.Orphan
	}
	for _, e := range a.Timeline[len(a.Timeline)-min(grown, len(a.Timeline)):] {
		c.Event, c.Detail, c.Delivery = e.Event, e.Detail, e.Delivery
		t.say(c)
	}
}
