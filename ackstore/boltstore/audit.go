package boltstore

import (
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
	for _, name := range [][]byte{bucketLanes, bucketLoose, bucketOpen, bucketTimes} {
		a.compare(name)
	}
	a.compareCounts()
	return a.problems, nil
}

type auditor struct {
	bt       *bolt.Tx
	problems []string
	want     map[string]map[string]bool // bucket -> keys
	total    counts
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
	for id, want := range a.machines {
		var row machineRow
		if v := a.bt.Bucket(bucketMachines).Get([]byte(id)); v == nil {
			a.wrong("machine %s: no row", id)
		} else if err := decode(v, &row); err != nil || row.Counts != *want {
			a.wrong("machine %s: counts say %v, a scan finds %v (%v)", id, row.Counts, *want, err)
		}
	}
	for key, want := range a.labels {
		var row labelRow
		if v := a.bt.Bucket(bucketLabels).Get([]byte(key)); v == nil {
			a.wrong("label %s: no row", key)
		} else if err := decode(v, &row); err != nil || row.Counts != *want {
			a.wrong("label %s: counts say %v, a scan finds %v (%v)", key, row.Counts, *want, err)
		}
	}
}
