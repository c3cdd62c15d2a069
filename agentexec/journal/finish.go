package journal

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"pushd/agentexec/task"
	"pushd/policy"
	"pushd/server/api"
)

// ErrNotOpen: the action has a verdict already, or was never received.
var ErrNotOpen = errors.New("journal: action is not open")

// Begin keeps that the execution starts: from here on it may have had effects.
func (j *Journal) Begin(id, runID string, now time.Time) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		e, found, err := get[entry](tx.Bucket(bucketOpen), id)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: %s", ErrNotOpen, id)
		}
		e.Begun, e.RunID, e.BegunAt = true, runID, now
		return put(tx.Bucket(bucketOpen), id, e)
	})
}

// Finish keeps the verdict on an open action, under its newest delivery, as owed.
func (j *Journal) Finish(ack api.Ack) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		e, found, err := get[entry](tx.Bucket(bucketOpen), ack.ActionID)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: %s", ErrNotOpen, ack.ActionID)
		}
		return finish(tx, e, ack)
	})
}

func finish(tx *bbolt.Tx, e entry, ack api.Ack) error {
	ack.ActionID, ack.MachineID, ack.Delivery = e.Action.ActionID, e.Action.MachineID, e.Action.Delivery
	if err := tx.Bucket(bucketOpen).Delete([]byte(ack.ActionID)); err != nil {
		return err
	}
	order := tx.Bucket(bucketOrder)
	seq, err := order.NextSequence()
	if err != nil {
		return err
	}
	if err := order.Put(seqKey(seq), []byte(ack.ActionID)); err != nil {
		return err
	}
	f := finished{Seq: seq, Ack: ack, Attempts: e.Action.Attempts, Transient: e.Action.TransientAttempts}
	if ack.Error != nil && ack.Error.Kind == string(policy.Config) {
		if err := flag(tx, metaConfig, true); err != nil {
			return err
		}
	}
	return owe(tx, f)
}

// Report keeps a verdict on an action that the server counts as ours and we know
// nothing of; one that is known after all is left alone.
func (j *Journal) Report(a task.Action, ack api.Ack) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		if tx.Bucket(bucketOpen).Get([]byte(a.ActionID)) != nil || tx.Bucket(bucketFinished).Get([]byte(a.ActionID)) != nil {
			return nil
		}
		return finish(tx, entry{Action: a}, ack)
	})
}

// Recovered counts what an earlier agent left half done.
type Recovered struct{ Released, Interrupted, Owed int }

// Recover gives a verdict on all that an earlier agent left open: what it had not
// begun goes back, what it had begun is a failure of ours. Call it before any
// Receive. When the last thing known is that this machine could not do its work
// (kind config) and nothing is left half done, a new start is taken for the
// repair: a new instance closes the breaker.
func (j *Journal) Recover() (r Recovered, err error) {
	err = j.db.Update(func(tx *bbolt.Tx) error {
		var open []entry
		err := tx.Bucket(bucketOpen).ForEach(func(id, _ []byte) error {
			e, _, err := get[entry](tx.Bucket(bucketOpen), string(id))
			open = append(open, e)
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range open {
			ack := api.Ack{Status: "released"}
			if r.Released++; e.Begun {
				r.Released--
				r.Interrupted++
				ack = api.Ack{Status: "failed", Error: &api.Failure{
					Kind: string(policy.Transient), Code: "agent_restarted",
					Message: fmt.Sprintf("the agent ended while it worked on this (run %s, begun %s)", e.RunID, e.BegunAt.UTC().Format(time.RFC3339)),
				}}
			}
			if err := finish(tx, e, ack); err != nil {
				return err
			}
		}
		r.Owed = count(tx.Bucket(bucketOwed))
		return renew(tx, r)
	})
	return r, err
}

func renew(tx *bbolt.Tx, r Recovered) error {
	meta := tx.Bucket(bucketMeta)
	if meta.Get([]byte(metaConfig)) == nil || r.Owed > 0 {
		return nil
	}
	if err := flag(tx, metaConfig, false); err != nil {
		return err
	}
	return newInstance(meta)
}
