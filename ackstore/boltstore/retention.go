package boltstore

import (
	"time"

	"pushd/ackstore"
)

// retireMost bounds how much of a sweep goes into throwing away.
const retireMost = 256

// retention throws away records whose time is over; ids stay as tombstones, and
// go in their turn.
func (w *sweep) retention() {
	for class, keep := range map[byte]time.Duration{'s': w.t.r.KeepSettled, 'd': w.t.r.KeepDead, 't': w.t.r.KeepTombstones} {
		if keep > 0 {
			w.retire(class, w.t.now.Add(-keep))
		}
	}
}

func (w *sweep) retire(class byte, before time.Time) {
	t := w.t
	for n := 0; w.left > 0; n++ {
		if n == retireMost {
			w.rest = true // the rest in a commit of its own, so that others come between
			return
		}
		key, id := t.bucket(bucketEnded).Cursor().Seek([]byte{class})
		if key == nil || key[0] != class || time.UnixMilli(int64(ordOf(key[1:]))).After(before) {
			return
		}
		key, id = clone(key), clone(id)
		w.left--
		t.del(bucketEnded, key)
		if class == 't' {
			t.del(bucketIDs, id)
			continue
		}
		t.retireRecord(ordOf(key[9:]))
	}
}

// retireRecord leaves the id, the digest and what became of it.
func (t *tx) retireRecord(ord uint64) {
	r := t.sound(ord)
	if r == nil {
		return
	}
	a := &r.a
	key := be(ord)
	for _, bucket := range [][]byte{bucketActions, bucketBodies, bucketResults} {
		t.del(bucket, key)
	}
	t.del(bucketTags, tagKey(tagMachine, a.MachineID, ord))
	if a.SessionID != "" {
		t.del(bucketTags, tagKey(tagSession, a.SessionID, ord))
		t.uncount(ackstore.OfSession, a.SessionID, a.State)
	}
	if a.ReplayID != "" {
		t.del(bucketTags, tagKey(tagReplay, a.ReplayID, ord))
		t.uncount(ackstore.OfReplay, a.ReplayID, a.State)
	}
	t.s.counts[a.State]--
	t.metaTold = true
	t.seen(func(s *seen) { s.evicted[a.State]++ })
	_, k, ok := t.find(a.ID)
	if !ok {
		return
	}
	k.Gone, k.State, k.Seq = true, a.State, a.Seq
	t.put(bucketIDs, []byte(a.ID), encode(k))
	t.put(bucketEnded, append(append([]byte{'t'}, be(uint64(a.SettledAt.UnixMilli()))...), key...), []byte(a.ID))
}

// uncount takes a record out of its label; a label of which nothing is left is
// forgotten, and open again.
func (t *tx) uncount(scope ackstore.Scope, id string, s ackstore.State) {
	row := t.label(scope, id)
	row.Counts[s]--
	if row.Counts != (counts{}) {
		return
	}
	key := labelKey(scope, id)
	delete(t.labels, string(key))
	t.del(bucketLabels, key)
	for _, h := range t.holdsOn(scope, id) {
		if h.Cause != ackstore.HeldByOperator { // what caused it is forgotten too
			t.unhold(&h)
		}
	}
}
