package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// A full disk refuses what would have to be written, loses nothing, and the
// server goes on by itself when there is room again.
func TestAFullDiskIsRefusedAndHeals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"); err != nil {
		t.Skipf("a small file system cannot be mounted here (%v); it takes root", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	ballast := filepath.Join(dir, "ballast")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 4<<20), 0o600))

	d := serve(t, filepath.Join(dir, "data"))
	accepted, refusal := fill(t, d.client())
	require.Equal(t, http.StatusServiceUnavailable, refusal.Status)
	require.Positive(t, refusal.RetryAfter, "503 without Retry-After")
	require.NotEmpty(t, accepted)
	for _, id := range accepted {
		r, err := d.client().Action(t.Context(), id, 0)
		require.NoError(t, err, "%s was accepted", id)
		require.Equal(t, "queued", r.State)
	}

	require.NoError(t, os.Remove(ballast))
	require.Eventually(t, func() bool {
		_, err := d.client().Push(t.Context(), bulky("after"))
		return err == nil
	}, patience, 50*time.Millisecond, "it does not heal")
	require.NoError(t, d.client().Ready(t.Context()))

	require.NoError(t, d.stop())
	d = serve(t, filepath.Join(dir, "data"))
	for _, id := range append(accepted, "after") {
		_, err := d.client().Action(t.Context(), id, 0)
		require.NoError(t, err, "%s is gone after a restart", id)
	}
}

// fill pushes until the server cannot write any more.
func fill(t *testing.T, c *api.Client) (accepted []string, refused *api.Error) {
	t.Helper()
	for n := range 1000 {
		a := bulky(fmt.Sprintf("a%d", n))
		_, err := c.Push(t.Context(), a)
		if err != nil {
			require.ErrorAs(t, err, &refused)
			return accepted, refused
		}
		accepted = append(accepted, a.ActionID)
	}
	t.Fatal("12 MB hold more than 100 MB")
	return nil, nil
}

func bulky(id string) api.Push {
	payload, _ := json.Marshal(strings.Repeat("x", 100_000)) // a string always marshals
	return api.Push{ActionID: id, MachineID: "m1", Type: "job", Payload: payload}
}
