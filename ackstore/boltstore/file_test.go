package boltstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

var rules = ackstore.Rules{
	OrphanTimeout: 15 * time.Second, PollOrphanTimeout: 30 * time.Second, InactivityTimeout: 10 * time.Minute,
	Ceiling: 4 * time.Hour, MaxDisconnectResends: 8, DisconnectGrace: 10 * time.Second, ReconnectGrace: time.Minute,
	CancelGrace: 30 * time.Second, SuspectAfter: 45 * time.Second, ErrorDelay: time.Second, BackoffBase: 10 * time.Second,
	BackoffMax: 10 * time.Minute, QuotaDelay: 15 * time.Minute, ReleaseDelay: 250 * time.Millisecond,
	BreakerThreshold: 3, BreakerPause: 5 * time.Minute, MaxInFlightBytes: 8 << 20, MaxQueued: 1 << 20, MaxMachines: 1 << 20,
}

func job(id, machine, session string) ackstore.NewAction {
	return ackstore.NewAction{
		ActionID: id, MachineID: machine, SessionID: session, Type: "job", Payload: []byte(`{"n":1}`),
		MaxResends: 2, MaxAttempts: 2, TransientMaxAttempts: 5,
	}
}

func openDir(t *testing.T, dir string) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(boltstore.Config{Dir: dir})
	require.NoError(t, err)
	return s
}

// fill pushes n actions and settles the first.
func fill(t *testing.T, s *boltstore.Store, n int) {
	t.Helper()
	var group []ackstore.NewAction
	for i := range n {
		group = append(group, job(fmt.Sprintf("a%04d", i), "m1", fmt.Sprintf("s%d", i%3)))
	}
	pushed, err := s.Push(t.Context(), rules, [][]ackstore.NewAction{group})
	require.NoError(t, err)
	require.NoError(t, pushed[0].Err)
	_, err = s.Attach(t.Context(), rules, []ackstore.AttachReq{{MachineID: "m1", MaxInFlight: 1}})
	require.NoError(t, err)
	settled, err := s.Settle(t.Context(), rules, []ackstore.Ack{{ActionID: "a0000", Verb: ackstore.SaysDone, Result: []byte(`"r"`)}})
	require.NoError(t, err)
	require.Equal(t, ackstore.Settled, settled[0].Outcome)
}

func TestASecondProcessIsToldThatTheDirectoryIsInUse(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	_, err := boltstore.Open(boltstore.Config{Dir: dir})
	require.ErrorIs(t, err, ackstore.ErrInUse)
	require.ErrorContains(t, err, dir)
	require.NoError(t, s.Close())
	require.NoError(t, openDir(t, dir).Close())
}

func TestADamagedFileIsRefusedAndKept(t *testing.T) {
	damage := map[string]func(t *testing.T, path string, whole []byte) []byte{
		"empty": func(*testing.T, string, []byte) []byte { return []byte{} },
		"both meta pages gone": func(_ *testing.T, _ string, whole []byte) []byte {
			return append(make([]byte, 2*os.Getpagesize()), whole[2*os.Getpagesize():]...)
		},
		"cut to a page": func(_ *testing.T, _ string, whole []byte) []byte { return whole[:os.Getpagesize()] },
		"text":          func(*testing.T, string, []byte) []byte { return []byte("not a database\n") },
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openDir(t, dir)
			fill(t, s, 5)
			require.NoError(t, s.Close())
			path := filepath.Join(dir, "pushd.db")
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			harmed := harm(t, path, whole)
			require.NoError(t, os.WriteFile(path, harmed, 0o600))
			_, err = boltstore.Open(boltstore.Config{Dir: dir})
			require.ErrorContains(t, err, path)
			left, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, harmed, left)
		})
	}
}

func TestDataOfANewerVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, openDir(t, dir).Close())
	db, err := bolt.Open(filepath.Join(dir, "pushd.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte{0, 0, 0, 0, 0, 0, 0, 99})
	}))
	require.NoError(t, db.Close())
	_, err = boltstore.Open(boltstore.Config{Dir: dir})
	require.ErrorIs(t, err, ackstore.ErrNewer)
}

func TestASnapshotOfAnOpenStoreIsWholeAndOpens(t *testing.T) {
	dir, copyDir := t.TempDir(), t.TempDir()
	s := openDir(t, dir)
	fill(t, s, 50)
	path := filepath.Join(copyDir, "pushd.db")
	require.NoError(t, s.Snapshot(t.Context(), path))
	require.Error(t, s.Snapshot(t.Context(), path), "a file that is there is not written over")
	later, err := s.Push(t.Context(), rules, [][]ackstore.NewAction{{job("later", "m1", "")}})
	require.NoError(t, err)
	require.NoError(t, later[0].Err)
	require.NoError(t, s.Close())
	problems, err := boltstore.Verify(copyDir)
	require.NoError(t, err)
	require.Empty(t, problems)
	back := openDir(t, copyDir)
	rec, err := back.Get(t.Context(), rules, "a0000")
	require.NoError(t, err)
	require.Equal(t, []string{"done", `"r"`}, []string{rec.State.String(), string(rec.Result)})
	_, err = back.Get(t.Context(), rules, "later")
	require.ErrorIs(t, err, ackstore.ErrUnknown)
	require.NoError(t, back.Close())
}

func TestCompactKeepsAllAndGivesSpaceBack(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	short := rules
	short.KeepSettled, short.KeepTombstones = time.Nanosecond, time.Nanosecond
	var group []ackstore.NewAction
	for i := range 1000 {
		n := job(fmt.Sprintf("big%d", i), "m2", "")
		n.Payload = make([]byte, 4000)
		group = append(group, n)
	}
	_, err := s.Push(t.Context(), rules, [][]ackstore.NewAction{group})
	require.NoError(t, err)
	for _, n := range group {
		_, err := s.Cancel(t.Context(), rules, []ackstore.Act{{ActionID: n.ActionID}})
		require.NoError(t, err)
	}
	fill(t, s, 20)
	for more := true; more; {
		o, err := s.Overview(t.Context(), short)
		require.NoError(t, err)
		more = o.Counts[ackstore.Cancelled] > 0
		_, err = s.Sweep(t.Context(), short, 10_000)
		require.NoError(t, err)
	}
	_, _, err = boltstore.Compact(dir, nil)
	require.ErrorIs(t, err, ackstore.ErrInUse)
	require.NoError(t, s.Close())
	told := false
	before, after, err := boltstore.Compact(dir, func(done, total int64) { told = told || done > 0 && total > 0 })
	require.NoError(t, err)
	require.True(t, told)
	require.Less(t, after, before/2)
	problems, err := boltstore.Verify(dir)
	require.NoError(t, err)
	require.Empty(t, problems)
	s = openDir(t, dir)
	o, err := s.Overview(t.Context(), rules)
	require.NoError(t, err)
	require.Equal(t, 19, o.Counts[ackstore.Queued])
	require.NoError(t, s.Close())
}

func TestVerifyTellsWhatDoesNotFit(t *testing.T) {
	dir := t.TempDir()
	s := openDir(t, dir)
	fill(t, s, 5)
	require.NoError(t, s.Close())
	db, err := bolt.Open(filepath.Join(dir, "pushd.db"), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		key, _ := tx.Bucket([]byte("lanes")).Cursor().First()
		return tx.Bucket([]byte("lanes")).Delete(key)
	}))
	require.NoError(t, db.Close())
	problems, err := boltstore.Verify(dir)
	require.NoError(t, err)
	require.NotEmpty(t, problems)
}
