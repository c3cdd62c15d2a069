package boltstore_test

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

// A disk may change what was written. What is scheduled, expires or retires goes
// on for all other records, over that one and behind it.
func TestADamagedRecordStopsNoSweep(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	open := func() *boltstore.Store {
		s, err := boltstore.Open(boltstore.Config{Dir: dir, Now: func() time.Time { return now }, Logger: zerolog.New(&log)})
		require.NoError(t, err)
		return s
	}
	s := open()
	first, second := job("first", "m1", ""), job("second", "m2", "")
	first.Delay, second.Delay = time.Minute, 2*time.Minute
	pushed, err := s.Push(t.Context(), rules, [][]ackstore.NewAction{{first}, {second}})
	require.NoError(t, err)
	require.NoError(t, pushed[0].Err)
	require.NoError(t, s.Close())

	db, err := bolt.Open(filepath.Join(dir, "pushd.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		actions := tx.Bucket([]byte("actions"))
		key, _ := actions.Cursor().First()
		return actions.Put(bytes.Clone(key), []byte("\xffnot a record"))
	}))
	require.NoError(t, db.Close())

	s = open()
	defer func() { require.NoError(t, s.Close()) }()
	now = now.Add(3 * time.Minute)
	_, err = s.Sweep(t.Context(), rules, 100)
	require.NoError(t, err)
	got, err := s.Get(t.Context(), rules, "second")
	require.NoError(t, err)
	require.Equal(t, ackstore.Queued, got.State)
	require.Contains(t, log.String(), `"message":"a record is damaged and left as it is; pushctl verify tells of it"`)
	log.Reset()
	_, err = s.Sweep(t.Context(), rules, 100)
	require.NoError(t, err)
	require.Empty(t, log.String(), "it is said once")
}
