package boltstore

import (
	"bytes"
	"fmt"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
)

func filePath(dir string) string { return filepath.Join(dir, fileName) }

// audit compares the indexes and counts of a file with its records: invariants 1
// and 12 of the design.
func audit(bt *bolt.Tx) ([]string, error) {
	a := auditor{bt: bt, want: map[string]map[string]bool{}, machines: map[string]*counts{}, labels: map[string]*counts{}}
	if err := bt.Bucket(bucketActions).ForEach(a.record); err != nil {
		return a.problems, err
	}
	for _, name := range [][]byte{bucketLanes, bucketLoose, bucketOpen, bucketTimes, bucketTags} {
		a.compare(name)
	}
	a.numbers()
	a.leftovers()
	a.tombstones()
	a.compareCounts()
	return a.problems, nil
}

type auditor struct {
	bt       *bolt.Tx
	problems []string
	want     map[string]map[string]bool // bucket -> keys
	total    counts
	last     struct{ ord, stamp uint64 }
	machines map[string]*counts
	labels   map[string]*counts
}

func (a *auditor) wrong(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

func (a *auditor) expect(bucket, key []byte) {
	if key == nil {
		return
	}
	if a.want[string(bucket)] == nil {
		a.want[string(bucket)] = map[string]bool{}
	}
	a.want[string(bucket)][string(key)] = true
}

func (a *auditor) record(k, v []byte) error {
	var act ackstore.Action
	if err := decode(v, &act); err != nil {
		return err
	}
	if act.Ord != ordOf(k) {
		a.wrong("action %s: ord %d is kept under %d", act.ID, act.Ord, ordOf(k))
	}
	if a.bt.Bucket(bucketBodies).Get(k) == nil {
		a.wrong("action %s: no payload", act.ID)
	}
	if act.HasResult && a.bt.Bucket(bucketResults).Get(k) == nil {
		a.wrong("action %s: no result", act.ID)
	}
	x := indexOf(&act)
	a.expect(bucketLanes, x.lane)
	a.expect(bucketLoose, x.loose)
	a.expect(bucketOpen, x.open)
	a.expect(bucketTimes, x.available)
	a.expect(bucketTimes, x.expires)
	a.expect(bucketTags, tagKey(tagMachine, act.MachineID, act.Ord))
	if act.SessionID != "" {
		a.expect(bucketTags, tagKey(tagSession, act.SessionID, act.Ord))
	}
	if act.ReplayID != "" {
		a.expect(bucketTags, tagKey(tagReplay, act.ReplayID, act.Ord))
	}
	for bucket, key := range map[string][]byte{string(bucketLanes): x.lane, string(bucketLoose): x.loose} {
		if v := a.bt.Bucket([]byte(bucket)).Get(key); key != nil && v != nil && !bytes.Equal(v, k) {
			a.wrong("action %s: its place in %s leads to %x", act.ID, bucket, v)
		}
	}
	if x.ended != nil && !has(a.bt.Bucket(bucketEnded), x.ended) {
		a.wrong("action %s: not in the index of retention", act.ID)
	}
	var id known
	if v := a.bt.Bucket(bucketIDs).Get([]byte(act.ID)); v == nil {
		a.wrong("action %s: its id is not known", act.ID)
	} else if err := decode(v, &id); err != nil {
		return err
	} else if id.Ord != act.Ord || id.Gone {
		a.wrong("action %s: its id leads to %d", act.ID, id.Ord)
	}
	a.count(&act)
	return nil
}

func has(b *bolt.Bucket, key []byte) bool {
	k, _ := b.Cursor().Seek(key)
	return string(k) == string(key)
}

func (a *auditor) count(act *ackstore.Action) {
	a.last.ord, a.last.stamp = max(a.last.ord, act.Ord), max(a.last.stamp, act.Stamp)
	if m := a.numbersOf(act.MachineID); m.Seq < act.Seq || m.EventID < act.EventID {
		a.wrong("machine %s: its numbers end at seq %d, event %d; action %s has %d, %d", act.MachineID, m.Seq, m.EventID, act.ID, act.Seq, act.EventID)
	}
	a.total[act.State]++
	of := func(m map[string]*counts, key string) *counts {
		if m[key] == nil {
			m[key] = &counts{}
		}
		return m[key]
	}
	of(a.machines, act.MachineID).move(nil, act)
	if act.SessionID != "" {
		of(a.labels, string(labelKey(ackstore.OfSession, act.SessionID)))[act.State]++
	}
	if act.ReplayID != "" {
		of(a.labels, string(labelKey(ackstore.OfReplay, act.ReplayID)))[act.State]++
	}
}

func (a *auditor) numbersOf(machine string) (row machineRow) {
	if v := a.bt.Bucket(bucketMachines).Get([]byte(machine)); v != nil {
		if err := decode(v, &row); err != nil {
			a.wrong("machine %s: %v", machine, err)
		}
	}
	return row
}

// numbers that are given out must lie above those that were.
func (a *auditor) numbers() {
	for name, last := range map[string]uint64{string(keyOrd): a.last.ord, string(keyStamp): a.last.stamp} {
		var given uint64
		if v := a.bt.Bucket(bucketMeta).Get([]byte(name)); v != nil {
			given = ordOf(v)
		}
		if given < last {
			a.wrong("meta: the last %s given is %d, an action has %d", name, given, last)
		}
	}
}

// leftovers are payloads, results, ids and moments of retention of no action.
func (a *auditor) leftovers() {
	actions := a.bt.Bucket(bucketActions)
	for _, name := range [][]byte{bucketBodies, bucketResults} {
		_ = a.bt.Bucket(name).ForEach(func(k, _ []byte) error {
			if actions.Get(k) == nil {
				a.wrong("%s: %x belongs to no action", name, k)
			}
			return nil
		})
	}
	_ = a.bt.Bucket(bucketEnded).ForEach(func(k, _ []byte) error {
		if k[0] == 't' {
			return nil
		}
		var act ackstore.Action
		if v := actions.Get(k[9:]); v == nil || decode(v, &act) != nil || !act.State.Settled() || !bytes.Equal(endedKey(&act), k) {
			a.wrong("%s: key %x belongs to no action", bucketEnded, k)
		}
		return nil
	})
}

// tombstones: an id whose record is gone stands in the index of retention, else
// it stays for ever.
func (a *auditor) tombstones() {
	stones := map[string]bool{}
	c := a.bt.Bucket(bucketEnded).Cursor()
	for k, id := c.Seek([]byte{'t'}); k != nil && k[0] == 't'; k, id = c.Next() {
		stones[string(id)] = true
	}
	_ = a.bt.Bucket(bucketIDs).ForEach(func(id, v []byte) error {
		var k known
		switch err := decode(v, &k); {
		case err != nil:
			a.wrong("action %s: %v", id, err)
		case k.Gone != stones[string(id)]:
			a.wrong("action %s: its id and its tombstone do not agree", id)
		case !k.Gone && a.bt.Bucket(bucketActions).Get(be(k.Ord)) == nil:
			a.wrong("action %s: its id leads to no record", id)
		}
		delete(stones, string(id))
		return nil
	})
	for id := range stones {
		a.wrong("action %s: a tombstone without its id", id)
	}
}

func (a *auditor) compare(bucket []byte) {
	want := a.want[string(bucket)]
	found := 0
	_ = a.bt.Bucket(bucket).ForEach(func(k, _ []byte) error {
		if found++; !want[string(k)] {
			a.wrong("%s: key %x belongs to no action", bucket, k)
		}
		return nil
	})
	if found < len(want) {
		a.wrong("%s: %d keys, the actions have %d", bucket, found, len(want))
	}
}

func (a *auditor) compareCounts() {
	var total counts
	if v := a.bt.Bucket(bucketMeta).Get(keyCounts); v != nil {
		if err := decode(v, &total); err != nil {
			a.wrong("counts: %v", err)
		}
	}
	if total != a.total {
		a.wrong("counts say %v, a scan finds %v", total, a.total)
	}
	rows(a, bucketMachines, a.machines, func(r *machineRow) *counts { return &r.Counts })
	rows(a, bucketLabels, a.labels, func(r *labelRow) *counts { return &r.Counts })
}

// rows compares the counts in the rows of a bucket, those of which no action is
// left too.
func rows[T any](a *auditor, bucket []byte, want map[string]*counts, of func(*T) *counts) {
	_ = a.bt.Bucket(bucket).ForEach(func(k, v []byte) error {
		var row T
		is := counts{}
		if c := want[string(k)]; c != nil {
			is = *c
		}
		if err := decode(v, &row); err != nil || *of(&row) != is {
			a.wrong("%s: %s: counts say %v, a scan finds %v (%v)", bucket, k, *of(&row), is, err)
		}
		delete(want, string(k))
		return nil
	})
	for id := range want {
		a.wrong("%s: %s: no row", bucket, id)
	}
}
