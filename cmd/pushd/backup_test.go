package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore/boltstore"
	"pushd/server/api"
)

// A backup that is taken while pushes come in is whole, holds all that was
// accepted before it was asked for, and a server starts on it.
func TestABackupUnderLoadIsWhole(t *testing.T) {
	t.Parallel()
	d := serve(t, t.TempDir())
	stop := make(chan struct{})
	var pushers sync.WaitGroup
	var mu sync.Mutex
	var accepted []string
	for p := range 4 {
		pushers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				a := heavy(fmt.Sprintf("p%d-%d", p, n))
				a.MachineID = fmt.Sprintf("m%d", p)
				if _, err := d.client().Push(t.Context(), a); err != nil {
					continue // a queue may be full; only what was accepted counts
				}
				mu.Lock()
				accepted = append(accepted, a.ActionID)
				mu.Unlock()
			}
		})
	}
	soFar := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(accepted)
	}
	require.Eventually(t, func() bool { return len(soFar()) > 40 }, patience, 5*time.Millisecond)
	restored := t.TempDir()
	before := soFar()
	out, talk, code := run(t, "pushctl", "-s", d.base, "backup", boltstore.File(restored))
	close(stop)
	pushers.Wait()
	require.Equal(t, 0, code, talk)
	require.Contains(t, out, "checked")
	require.Greater(t, len(soFar()), len(before), "pushes stood still during the backup")
	out, talk, code = run(t, "pushctl", "verify", restored)
	require.Equal(t, 0, code, talk)
	require.Contains(t, out, "whole")
	r := serve(t, restored)
	for _, id := range before {
		_, err := r.client().Action(t.Context(), id, 0)
		require.NoError(t, err, "%s was accepted before the backup", id)
	}
}

// heavy is an action of 100 kB.
func heavy(id string) api.Push {
	payload := append(append([]byte{'"'}, bytes.Repeat([]byte("x"), 100_000)...), '"')
	return api.Push{ActionID: id, MachineID: "m1", Type: "job", Payload: payload}
}

// A client that takes its backup slowly, or not at all, holds up nobody and
// leaves nothing behind (cases ST-05).
func TestASlowBackupHoldsUpNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := serve(t, dir)
	for n := range 100 {
		_, err := d.client().Push(t.Context(), heavy(fmt.Sprintf("a%d", n)))
		require.NoError(t, err)
	}
	body, size, err := d.client().Backup(t.Context())
	require.NoError(t, err)
	require.Greater(t, size, int64(100*100_000))
	_, err = io.CopyN(io.Discard, body, 1000)
	require.NoError(t, err)
	var worst time.Duration
	for n := range 50 {
		begun := time.Now()
		_, err := d.client().Push(t.Context(), heavy(fmt.Sprintf("b%d", n)))
		require.NoError(t, err)
		worst = max(worst, time.Since(begun))
	}
	t.Logf("the slowest of 50 pushes beside it took %v", worst)
	require.Less(t, worst, 10*time.Second)
	_, _, err = d.client().Backup(t.Context())
	require.True(t, api.IsStatus(err, http.StatusTooManyRequests), "one at a time: %v", err)
	require.NoError(t, body.Close())
	require.Eventually(t, func() bool {
		body, _, err := d.client().Backup(t.Context())
		if err == nil {
			_ = body.Close() // it was only a question
		}
		return err == nil
	}, patience, 20*time.Millisecond)
	left, err := filepath.Glob(filepath.Join(dir, "*backup*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// What ends early is no backup, and nothing of it is kept.
func TestABackupThatEndsEarlyIsNotKept(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "copy.db")
	base := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(make([]byte, 5000)) // net/http cuts the connection when we return
	})
	_, talk, code := run(t, "pushctl", "-s", base, "backup", target)
	require.NotEqual(t, 0, code, talk)
	left, err := os.ReadDir(filepath.Dir(target))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestABackupThatGoesSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "copy.db")
	base := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(make([]byte, 5000)) // the client counts
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	_, talk, code := run(t, "pushctl", "-s", base, "--timeout", "300ms", "backup", target)
	require.Equal(t, 7, code, talk)
	require.Contains(t, talk, "silent")
	require.NoFileExists(t, target)
}
