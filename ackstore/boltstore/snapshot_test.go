package boltstore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

// filled is a directory with some actions in it, and nobody on it.
func filled(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := openDir(t, dir)
	fill(t, s, 50)
	require.NoError(t, s.Close())
	return dir
}

func TestABackupOfAStoppedServerIsItsFile(t *testing.T) {
	dir, target := filled(t), filepath.Join(t.TempDir(), "copy.db")
	var last, total int64
	require.NoError(t, boltstore.Backup(t.Context(), dir, target, func(done, of int64) {
		require.Greater(t, done, last)
		last, total = done, of
	}))
	require.Equal(t, total, last)
	problems, err := boltstore.VerifyFile(target)
	require.NoError(t, err)
	require.Empty(t, problems)

	before, err := os.ReadFile(target)
	require.NoError(t, err)
	require.ErrorIs(t, boltstore.Backup(t.Context(), dir, target, nil), os.ErrExist)
	after, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, before, after)

	restored := t.TempDir()
	require.NoError(t, os.Rename(target, boltstore.File(restored)))
	s := openDir(t, restored)
	_, err = s.Get(t.Context(), rules, "a0049")
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

func TestABackupThatFailsLeavesNothing(t *testing.T) {
	empty, target := t.TempDir(), filepath.Join(t.TempDir(), "copy.db")
	require.ErrorIs(t, boltstore.Backup(t.Context(), empty, target, nil), os.ErrNotExist)
	_, _, err := boltstore.Compact(empty, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = boltstore.Verify(empty)
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, dir := range []string{empty, filepath.Dir(target)} {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// A copy that was cut off opens as a whole file would, until what is missing is
// read: that is a fault of the process, so it is found out before.
func TestAFileThatWasCutShortIsToldBeforeItIsRead(t *testing.T) {
	dir := filled(t)
	path := boltstore.File(dir)
	require.NoError(t, os.Truncate(path, int64(5*os.Getpagesize())))
	problems, err := boltstore.Verify(dir)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "cut short")
	_, err = boltstore.Open(boltstore.Config{Dir: dir})
	require.ErrorContains(t, err, "cut short")
	_, _, err = boltstore.Compact(dir, nil)
	require.ErrorContains(t, err, "cut short")
	require.ErrorContains(t, boltstore.Backup(t.Context(), dir, filepath.Join(t.TempDir(), "x"), nil), "cut short")
}

func TestAFileThatIsNoneOfOursIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	problems, err := boltstore.VerifyFile(path)
	require.NoError(t, err)
	require.NotEmpty(t, problems)
	require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
	_, err = boltstore.VerifyFile(path)
	require.Error(t, err)
}

func TestPagesThatWereOverwrittenAreTold(t *testing.T) {
	dir := filled(t)
	path := boltstore.File(dir)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	for at := 4 * os.Getpagesize(); at < len(raw); at++ {
		raw[at] = 0x5a
	}
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	problems, err := boltstore.Verify(dir)
	require.True(t, len(problems) > 0 || err != nil)
}

// What this version does not know it must not throw away.
func TestANewerFileIsNotCompactedAndNotJudged(t *testing.T) {
	dir := filled(t)
	db, err := bolt.Open(boltstore.File(dir), 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte{0, 0, 0, 0, 0, 0, 0, 99})
	}))
	require.NoError(t, db.Close())
	before, err := os.ReadFile(boltstore.File(dir))
	require.NoError(t, err)
	_, _, err = boltstore.Compact(dir, nil)
	require.ErrorIs(t, err, ackstore.ErrNewer)
	_, err = boltstore.Verify(dir)
	require.ErrorIs(t, err, ackstore.ErrNewer)
	after, err := os.ReadFile(boltstore.File(dir))
	require.NoError(t, err)
	require.Equal(t, before, after)
}
