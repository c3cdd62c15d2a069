package boltstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"

	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
)

// scanMost bounds how many records one List looks at: a page may be short, or
// empty, and still have a cursor behind it.
const scanMost = 20_000

// List pages through the records, newest first. It reads what is committed,
// beside the committer, and holds no transaction while anyone writes to a socket.
func (s *Store) List(_ context.Context, f ackstore.Filter, cursor string, limit int) (items []ackstore.Action, next string, err error) {
	from, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.db.View(func(bt *bolt.Tx) error {
		items, next, err = list(bt, f, from, limit)
		return err
	})
	return items, next, err
}

func list(bt *bolt.Tx, f ackstore.Filter, from uint64, limit int) (items []ackstore.Action, next string, err error) {
	walk := newWalk(bt, f, from)
	actions := bt.Bucket(bucketActions)
	looked := 0
	for ord, ok := walk.next(); ok; ord, ok = walk.next() {
		if len(items) == limit || looked == scanMost {
			return items, cursorOf(ord + 1), nil
		}
		looked++
		v := actions.Get(be(ord))
		if v == nil {
			continue
		}
		var a ackstore.Action
		if err := decode(v, &a); err != nil {
			return nil, "", err
		}
		if matches(&f, &a) {
			items = append(items, a)
		}
	}
	return items, "", nil
}

// matches tells whether an action is in all that a filter says.
func matches(f *ackstore.Filter, a *ackstore.Action) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	if !is(f.MachineID, a.MachineID) || !is(f.SessionID, a.SessionID) || !is(f.ReplayID, a.ReplayID) || !is(f.Type, a.Type) {
		return false
	}
	if len(f.States) > 0 && !slices.Contains(f.States, a.State) {
		return false
	}
	for k, v := range f.Labels {
		if have, ok := a.Labels[k]; !ok || have != v {
			return false
		}
	}
	if !f.Before.IsZero() && !a.CreatedAt.Before(f.Before) {
		return false
	}
	return f.Reach == nil || f.Reach(a.MachineID)
}

// walk goes through ords from new to old, by the narrowest index there is.
type walk struct {
	c      *bolt.Cursor
	prefix []byte
	key    []byte
}

// newWalk begins below from; 0 is the newest.
func newWalk(bt *bolt.Tx, f ackstore.Filter, from uint64) *walk {
	w := &walk{}
	switch {
	case f.SessionID != "":
		w.prefix = tagPrefix(tagSession, f.SessionID)
	case f.ReplayID != "":
		w.prefix = tagPrefix(tagReplay, f.ReplayID)
	case f.MachineID != "":
		w.prefix = tagPrefix(tagMachine, f.MachineID)
	}
	bucket := bucketActions
	if w.prefix != nil {
		bucket = bucketTags
	}
	w.c = bt.Bucket(bucket).Cursor()
	if from == 0 {
		from = ^uint64(0)
	}
	w.key, _ = w.c.Seek(append(slices.Clone(w.prefix), be(from)...))
	if w.key == nil {
		w.key, _ = w.c.Last()
		return w
	}
	w.key, _ = w.c.Prev()
	return w
}

func (w *walk) next() (uint64, bool) {
	if w.key == nil || !bytes.HasPrefix(w.key, w.prefix) {
		return 0, false
	}
	ord := ordOf(w.key[len(w.prefix):])
	w.key, _ = w.c.Prev()
	return ord, true
}

// cursorOf says "below ord".
func cursorOf(ord uint64) string { return base64.RawURLEncoding.EncodeToString(be(ord)) }

func parseCursor(cursor string) (uint64, error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) != 8 || ordOf(b) == 0 {
		return 0, ackstore.ErrCursor
	}
	return ordOf(b), nil
}
