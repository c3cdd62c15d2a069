package boltstore

import (
	"context"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
)

// Follow says of which ends notes are kept.
func (s *Store) Follow(ctx context.Context, rules []ackstore.Following) error {
	return s.submit(ctx, ackstore.Rules{}, func(*tx) { s.following = slices.Clone(rules) })
}

// note writes down that an action has ended, for each rule that may go on from
// there, in the transaction of the end.
func (t *tx) note(r *rec, old *ackstore.Action) {
	a := &r.a
	if len(t.s.following) == 0 || !a.State.Settled() || a.State == old.State {
		return
	}
	for i := range t.s.following {
		f := &t.s.following[i]
		if len(f.States) > 0 && !slices.Contains(f.States, a.State) || len(f.Types) > 0 && !slices.Contains(f.Types, a.Type) {
			continue
		}
		e := ackstore.End{Serial: t.stamp(), Rule: f.Rule, ActionID: a.ID, State: a.State, At: t.now}
		t.put(bucketEnds, be(e.Serial), encode(&e))
	}
}

// Ended are the notes that nobody has answered, oldest first.
func (s *Store) Ended(_ context.Context, limit int) ([]ackstore.End, error) {
	var all []ackstore.End
	err := s.db.View(func(bt *bolt.Tx) error {
		c := bt.Bucket(bucketEnds).Cursor()
		for key, v := c.First(); key != nil && len(all) < limit; key, v = c.Next() {
			var e ackstore.End
			if err := decode(v, &e); err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	return all, err
}

// DropEnds forgets notes.
func (s *Store) DropEnds(ctx context.Context, serials []uint64) error {
	return s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		for _, serial := range serials {
			t.del(bucketEnds, be(serial))
		}
	})
}

// Post puts letters into the outbox.
func (s *Store) Post(ctx context.Context, letters []ackstore.Letter) error {
	return s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		for _, l := range letters {
			l.Serial, l.At = t.stamp(), t.now
			if l.DueAt.IsZero() {
				l.DueAt = t.now
			}
			t.put(bucketOutbox, letterKey(l.To, l.Serial), encode(&l))
			t.put(bucketOutbox, letterKey("", l.Serial), []byte(l.To))
		}
	})
}

// letterKey orders letters by receiver; under no receiver stands whose one is.
func letterKey(to string, serial uint64) []byte { return append(join(to), be(serial)...) }

// Letters are those to a receiver, oldest first.
func (s *Store) Letters(_ context.Context, to string, limit int) ([]ackstore.Letter, error) {
	var all []ackstore.Letter
	err := s.db.View(func(bt *bolt.Tx) error {
		prefix := join(to)
		c := bt.Bucket(bucketOutbox).Cursor()
		for key, v := c.Seek(prefix); len(key) == len(prefix)+8 && string(key[:len(prefix)]) == string(prefix) && len(all) < limit; key, v = c.Next() {
			l, err := letterOf(v)
			if err != nil {
				return err
			}
			all = append(all, l)
		}
		return nil
	})
	return all, err
}

// Addressees are those for whom letters wait: the key after all of one's letters
// is the next one's.
func (s *Store) Addressees(_ context.Context) ([]string, error) {
	var all []string
	err := s.db.View(func(bt *bolt.Tx) error {
		c := bt.Bucket(bucketOutbox).Cursor()
		key, _ := c.Seek([]byte{1}) // below it stand serials, under no name
		for key != nil {
			to := string(key[:len(key)-9])
			all = append(all, to)
			key, _ = c.Seek(upper(join(to)))
		}
		return nil
	})
	return all, err
}

func letterOf(v []byte) (ackstore.Letter, error) {
	var l ackstore.Letter
	err := decode(v, &l)
	l.At, l.DueAt = l.At.Round(time.Microsecond), l.DueAt.Round(time.Microsecond)
	return l, err
}

// Answer says what became of tries.
func (s *Store) Answer(ctx context.Context, tries []ackstore.Tried) error {
	return s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		for i := range tries {
			t.answerLetter(&tries[i])
		}
	})
}

func (t *tx) answerLetter(tried *ackstore.Tried) {
	whose := letterKey("", tried.Serial)
	to := t.bucket(bucketOutbox).Get(whose)
	if to == nil {
		return
	}
	key := letterKey(string(to), tried.Serial)
	if tried.Gone {
		t.del(bucketOutbox, whose)
		t.del(bucketOutbox, key)
		return
	}
	l, err := letterOf(t.bucket(bucketOutbox).Get(key))
	if err != nil {
		t.fail(err)
		return
	}
	l.Tries, l.LastError, l.DueAt = l.Tries+1, tried.Error, t.now.Add(tried.After)
	t.put(bucketOutbox, key, encode(&l))
}
