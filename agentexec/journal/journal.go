package journal

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"pushd/agentexec/task"
	"pushd/server/api"
)

// ErrInUse: another agent works with the same directory.
var ErrInUse = errors.New("journal: another agent uses it")

// Remembered is how many finished ids are kept at least.
const Remembered = 1024

var (
	bucketMeta     = []byte("meta")
	bucketOpen     = []byte("open")     // action id to entry
	bucketFinished = []byte("finished") // action id to finished
	bucketOrder    = []byte("order")    // seq to action id, of finished
	bucketOwed     = []byte("owed")     // seq to action id, of those to be posted
)

const (
	metaInstance = "instance"
	metaLast     = "last_event_id"
	metaKey      = "agent_key"
	metaConfig   = "config_failed"
	metaLowered  = "credit_lowered"
	metaTouched  = "touched"
)

// Journal is safe for concurrent use.
type Journal struct{ db *bbolt.DB }

// entry is an action that has no verdict.
type entry struct {
	Action  task.Action `json:"action"`
	Begun   bool        `json:"begun,omitempty"`
	RunID   string      `json:"run,omitempty"`
	BegunAt time.Time   `json:"begun_at,omitzero"`
}

// finished is an action that has one.
type finished struct {
	Seq       uint64  `json:"seq"`
	Ack       api.Ack `json:"ack"`
	Taken     bool    `json:"taken,omitempty"` // the server has the verdict
	Aside     bool    `json:"aside,omitempty"` // it refuses it for want of a right
	Attempts  int     `json:"attempts,omitempty"`
	Transient int     `json:"transient,omitempty"`
}

// Open opens or makes the journal in a file.
func Open(path string) (*Journal, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 2 * time.Second, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrInUse, path)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketOpen, bucketFinished, bucketOrder, bucketOwed} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		meta := tx.Bucket(bucketMeta)
		for _, name := range []string{metaInstance, metaKey} {
			if meta.Get([]byte(name)) == nil {
				if err := meta.Put([]byte(name), []byte(rand.Text())); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Journal{db}, nil
}

// Close lets go of the file.
func (j *Journal) Close() error { return j.db.Close() }

// Position is what to subscribe with.
func (j *Journal) Position() (instance, lastEventID string, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		instance, lastEventID = string(meta.Get([]byte(metaInstance))), string(meta.Get([]byte(metaLast)))
		return nil
	})
	return instance, lastEventID, err
}

// Key is this directory's own word, in the marks of all its processes.
func (j *Journal) Key() (key string, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		key = string(tx.Bucket(bucketMeta).Get([]byte(metaKey)))
		return nil
	})
	return key, err
}

// Touch writes a little: an agent whose disk takes nothing must not subscribe, for
// all that it is sent would be lost.
func (j *Journal) Touch(now time.Time) error {
	return j.db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketMeta).Put([]byte(metaTouched), []byte(now.UTC().Format(time.RFC3339)))
	})
}

// Lowered remembers that the credit was set down by us, so that only we set it
// up again: on an open server it would pass for the operator's.
func (j *Journal) Lowered() (on bool, err error) {
	err = j.db.View(func(tx *bbolt.Tx) error {
		on = tx.Bucket(bucketMeta).Get([]byte(metaLowered)) != nil
		return nil
	})
	return on, err
}

// SetLowered changes what Lowered tells.
func (j *Journal) SetLowered(on bool) error {
	return j.db.Update(func(tx *bbolt.Tx) error { return flag(tx, metaLowered, on) })
}

func flag(tx *bbolt.Tx, name string, on bool) error {
	if on {
		return tx.Bucket(bucketMeta).Put([]byte(name), []byte{1})
	}
	return tx.Bucket(bucketMeta).Delete([]byte(name))
}

func get[T any](b *bbolt.Bucket, id string) (v T, found bool, err error) {
	raw := b.Get([]byte(id))
	if raw == nil {
		return v, false, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, false, fmt.Errorf("journal: record of %s: %w", id, err)
	}
	return v, true, nil
}

func put(b *bbolt.Bucket, id string, v any) error {
	raw, err := api.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put([]byte(id), raw)
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func seqOf(key []byte) uint64 { return binary.BigEndian.Uint64(key) }

// count walks a bucket: its Stats know nothing of this transaction.
func count(b *bbolt.Bucket) (n int) {
	cursor := b.Cursor()
	for key, _ := cursor.First(); key != nil; key, _ = cursor.Next() {
		n++
	}
	return n
}
