package journal

import (
	"crypto/rand"

	"go.etcd.io/bbolt"

	"pushd/server/api"
)

// Owed is a verdict to be posted.
type Owed struct {
	Seq uint64
	Ack api.Ack
}

// Owed lists what is to be posted, oldest first: at most most of them, and no
// more than fit in bytes, but one in any case.
func (j *Journal) Owed(most, bytes int) (list []Owed, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(bucketOwed).Cursor()
		for key, id := cursor.First(); key != nil && len(list) < most; key, id = cursor.Next() {
			f, found, err := get[finished](tx.Bucket(bucketFinished), string(id))
			if err != nil {
				return err
			}
			if !found || f.Aside {
				continue
			}
			if bytes -= len(f.Ack.Result); bytes < 0 && len(list) > 0 {
				return nil
			}
			list = append(list, Owed{f.Seq, f.Ack})
		}
		return nil
	})
	return list, err
}

// Fate is what became of a verdict that was posted.
type Fate uint8

// Of a posted verdict.
const (
	Taken    Fate = iota // the server has it
	NotTaken             // it counts for nothing there; it is ours to repeat if asked
	Refused              // we may not say it: kept, not posted again by this agent's process
)

// Answered keeps the fate of a verdict. One whose delivery has moved on since it
// was read is left as it is: that answer was to an older one.
func (j *Journal) Answered(o Owed, fate Fate) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		f, found, err := get[finished](tx.Bucket(bucketFinished), o.Ack.ActionID)
		if err != nil || !found || f.Seq != o.Seq || f.Ack.Delivery != o.Ack.Delivery {
			return err
		}
		if fate == Refused {
			f.Aside = true
			return put(tx.Bucket(bucketFinished), o.Ack.ActionID, f)
		}
		if f.Ack.Status == "released" && fate == Taken {
			return forget(tx, f)
		}
		if err := tx.Bucket(bucketOwed).Delete(seqKey(f.Seq)); err != nil {
			return err
		}
		if f.Taken = fate == Taken; f.Taken {
			f.Ack.Result = nil // the first result is the one kept
		}
		if err := put(tx.Bucket(bucketFinished), o.Ack.ActionID, f); err != nil {
			return err
		}
		return evict(tx)
	})
}

// Shrink replaces the result of a verdict that the server finds too large.
func (j *Journal) Shrink(o Owed, with []byte) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		f, found, err := get[finished](tx.Bucket(bucketFinished), o.Ack.ActionID)
		if err != nil || !found || f.Seq != o.Seq {
			return err
		}
		f.Ack.Result = with
		return put(tx.Bucket(bucketFinished), o.Ack.ActionID, f)
	})
}

// Unaside gives what was refused for want of a right another try.
func (j *Journal) Unaside() error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		var aside []finished
		err := tx.Bucket(bucketOwed).ForEach(func(_, id []byte) error {
			f, found, err := get[finished](tx.Bucket(bucketFinished), string(id))
			if found && f.Aside {
				aside = append(aside, f)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, f := range aside {
			f.Aside = false
			if err := put(tx.Bucket(bucketFinished), f.Ack.ActionID, f); err != nil {
				return err
			}
		}
		return nil
	})
}

// evict drops the oldest finished ids above Remembered; what is owed stays.
func evict(tx *bbolt.Tx) error {
	order := tx.Bucket(bucketOrder)
	cursor := order.Cursor()
	last, _ := cursor.Last()
	first, _ := cursor.First()
	if last == nil || seqOf(last)-seqOf(first) < Remembered {
		return nil // seqs only grow, so there cannot be more of them
	}
	excess := count(order) - Remembered
	var drop []finished
	for key, id := cursor.First(); key != nil && len(drop) < excess; key, id = cursor.Next() {
		if tx.Bucket(bucketOwed).Get(key) != nil {
			continue
		}
		f, found, err := get[finished](tx.Bucket(bucketFinished), string(id))
		if err != nil {
			return err
		}
		if found {
			drop = append(drop, f)
		}
	}
	for _, f := range drop {
		if err := forget(tx, f); err != nil {
			return err
		}
	}
	return nil
}

func newInstance(meta *bbolt.Bucket) error {
	if err := meta.Put([]byte(metaInstance), []byte(rand.Text())); err != nil {
		return err
	}
	return meta.Delete([]byte(metaLast))
}
