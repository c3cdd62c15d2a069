//go:build unix

package boltstore_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/ackstore/boltstore"
)

// What root makes in the directory of a service, the service can open: the store of
// the first token, and the one that was compacted.
func TestWhatRootLeavesBelongsToTheService(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can work on what is somebody else's")
	}
	const nobody = 65534
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, nobody, nobody))
	owner := func() uint32 {
		info, err := os.Stat(boltstore.File(dir))
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	s, err := boltstore.Open(boltstore.Config{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.EqualValues(t, nobody, owner())
	_, _, err = boltstore.Compact(dir, nil)
	require.NoError(t, err)
	require.EqualValues(t, nobody, owner())
}
