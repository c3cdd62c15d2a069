package journal

import (
	"go.etcd.io/bbolt"

	"pushd/agentexec/task"
)

// Standing is what an action is to this agent when it arrives.
type Standing uint8

// Of an arrival.
const (
	New      Standing = iota // execute it
	InWork                   // it waits or runs here already; its delivery is the newest now
	Finished                 // its verdict is owed again
)

// Receive keeps an action and moves Last-Event-ID on to lastID (empty: as it
// was), in one step and before any work on it.
func (j *Journal) Receive(a task.Action, lastID string) (standing Standing, err error) {
	err = j.db.Update(func(tx *bbolt.Tx) error {
		if lastID != "" {
			if err := tx.Bucket(bucketMeta).Put([]byte(metaLast), []byte(lastID)); err != nil {
				return err
			}
		}
		standing, err = receive(tx, a)
		return err
	})
	return standing, err
}

func receive(tx *bbolt.Tx, a task.Action) (Standing, error) {
	open := tx.Bucket(bucketOpen)
	if was, found, err := get[entry](open, a.ActionID); err != nil || found {
		if err == nil && a.Delivery > was.Action.Delivery {
			was.Action.Delivery = a.Delivery
			err = put(open, a.ActionID, was)
		}
		return InWork, err
	}
	was, found, err := get[finished](tx.Bucket(bucketFinished), a.ActionID)
	switch {
	case err != nil:
		return New, err
	case found && !wantedAgain(was, a):
		was.Ack.Delivery = max(was.Ack.Delivery, a.Delivery)
		was.Taken = false
		return Finished, owe(tx, was)
	case found:
		if err := forget(tx, was); err != nil {
			return New, err
		}
	}
	return New, put(open, a.ActionID, entry{Action: a})
}

// wantedAgain tells a new execution (a retry, a redrive, what was released) from
// a delivery that was only sent again. What is done is never wanted again. The
// server's answer to a verdict may be lost, or come later than the retry that
// follows from it, so the counters of the envelope are heard as well: a first
// dispatch of an execution has been resent 0 times, and an execution that failed
// has moved a counter.
func wantedAgain(was finished, a task.Action) bool {
	if was.Ack.Status == "done" || a.Delivery <= was.Ack.Delivery {
		return false
	}
	return was.Taken || was.Ack.Status == "released" || a.ResentCount == 0 ||
		a.Attempts != was.Attempts || a.TransientAttempts != was.Transient
}

// owe puts a verdict among those to be posted.
func owe(tx *bbolt.Tx, f finished) error {
	if err := tx.Bucket(bucketOwed).Put(seqKey(f.Seq), []byte(f.Ack.ActionID)); err != nil {
		return err
	}
	return put(tx.Bucket(bucketFinished), f.Ack.ActionID, f)
}

// forget drops all that is known of a finished action.
func forget(tx *bbolt.Tx, f finished) error {
	for _, bucket := range [][]byte{bucketOwed, bucketOrder} {
		if err := tx.Bucket(bucket).Delete(seqKey(f.Seq)); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketFinished).Delete([]byte(f.Ack.ActionID))
}
