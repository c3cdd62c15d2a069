package boltstore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

// lived is a directory in which there is some of all: what waits, is out, has
// ended and is forgotten but for its id.
func lived(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := openDir(t, dir)
	loose, gone := job("loose", "m3", ""), job("gone", "m2", "s9")
	loose.ReplayID = "r1"
	_, err := s.Push(t.Context(), rules, [][]ackstore.NewAction{{loose, gone}})
	require.NoError(t, err)
	fill(t, s, 20)
	_, err = s.Cancel(t.Context(), rules, []ackstore.Act{{ActionID: "gone"}})
	require.NoError(t, err)
	short := rules
	short.KeepSettled = time.Nanosecond
	for known := true; known; {
		_, err = s.Sweep(t.Context(), short, 100)
		require.NoError(t, err)
		rec, err := s.Get(t.Context(), rules, "gone")
		known = err == nil && rec.ID != ""
	}
	_, err = s.Attach(t.Context(), rules, []ackstore.AttachReq{{MachineID: "m1", MaxInFlight: 2}})
	require.NoError(t, err)
	settled, err := s.Settle(t.Context(), rules, []ackstore.Ack{{ActionID: "a0001", Verb: ackstore.SaysDone, Result: []byte(`1`)}})
	require.NoError(t, err)
	require.Equal(t, ackstore.Settled, settled[0].Outcome)
	require.NoError(t, s.Close())
	return dir
}

// at is a bucket of a file that is being harmed.
type at = func(bucket string) *bolt.Bucket

func TestVerifyFindsEachKindOfDamage(t *testing.T) {
	problems, err := boltstore.Verify(lived(t))
	require.NoError(t, err)
	require.Empty(t, problems)

	first := func(b *bolt.Bucket, from string) []byte {
		key, _ := b.Cursor().Seek([]byte(from))
		return append([]byte(nil), key...)
	}
	none := []byte{0, 0, 0, 0, 0, 0, 0, 0}
	far := []byte{0, 0, 0, 0, 0, 0, 1, 1}
	for name, harm := range map[string]func(b at) error{
		"a tag lost":         func(b at) error { return b("tags").Delete(first(b("tags"), "s")) },
		"a tag too many":     func(b at) error { return b("tags").Put([]byte("mm1\x00"+string(far)), nil) },
		"a payload too many": func(b at) error { return b("bodies").Put(far, []byte("1")) },
		"a result too many":  func(b at) error { return b("results").Put(far, []byte("1")) },
		"a lane that leads elsewhere": func(b at) error {
			return b("lanes").Put(first(b("lanes"), ""), far)
		},
		"an end too many":      func(b at) error { return b("ended").Put([]byte("s"+string(none)+string(far)), nil) },
		"a tombstone lost":     func(b at) error { return b("ended").Delete(first(b("ended"), "t")) },
		"an id lost":           func(b at) error { return b("ids").Delete([]byte("gone")) },
		"an ord given twice":   func(b at) error { return b("meta").Put([]byte("ord"), none) },
		"a stamp given twice":  func(b at) error { return b("meta").Put([]byte("stamp"), none) },
		"a machine's row lost": func(b at) error { return b("machines").Delete([]byte("m1")) },
		"a label's row of nothing": func(b at) error {
			return b("labels").Put([]byte("snone"), b("labels").Get([]byte("ss1")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := lived(t)
			db, err := bolt.Open(filepath.Join(dir, "pushd.db"), 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, db.Update(func(tx *bolt.Tx) error {
				return harm(func(name string) *bolt.Bucket { return tx.Bucket([]byte(name)) })
			}))
			require.NoError(t, db.Close())
			problems, err := boltstore.Verify(dir)
			require.NoError(t, err)
			require.NotEmpty(t, problems)
		})
	}
}
