package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAFullLogIsMovedAsideAndTheOldestGoes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log", "pushd.log")
	l, err := openLog(path)
	require.NoError(t, err)
	l.most = 100
	line := func(i int) string { return fmt.Sprintf("%-49d\n", i) }
	for i := range 20 {
		_, err := l.Write([]byte(line(i)))
		require.NoError(t, err)
	}
	require.NoError(t, l.Close())
	l, err = openLog(path) // a restart goes on in the same file
	require.NoError(t, err)
	l.most = 100
	_, err = l.Write([]byte(line(20)))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	files, err := filepath.Glob(path + "*")
	require.NoError(t, err)
	require.Len(t, files, 1+logFiles)
	newest, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, line(20), string(newest))
	before, err := os.ReadFile(path + ".1")
	require.NoError(t, err)
	require.Equal(t, line(18)+line(19), string(before))
	oldest, err := os.ReadFile(path + ".5")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(oldest), "10"), "%s", oldest)
}

// A line that is longer than a file is kept whole.
func TestALongLineIsNotSplit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pushd.log")
	l, err := openLog(path)
	require.NoError(t, err)
	l.most = 10
	_, err = l.Write([]byte("a line that is longer than ten\n"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.NoFileExists(t, path+".1")
}
