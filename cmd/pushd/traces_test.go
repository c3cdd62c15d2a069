//go:build unix

package main_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// A push is told to the collector that the settings name.
func TestTracesGoToTheCollector(t *testing.T) {
	t.Parallel()
	bodies := make(chan []byte, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		bodies <- raw
	}))
	t.Cleanup(collector.Close)
	file := filepath.Join(t.TempDir(), "pushd.yaml")
	require.NoError(t, os.WriteFile(file, []byte("traces.endpoint: "+collector.URL+"/v1/traces\n"), 0o600))
	d := startByFile(t, file)
	_, err := d.client().Push(t.Context(), api.Push{ActionID: "a-traced-one", MachineID: "m1", Type: "job"})
	require.NoError(t, err)
	select {
	case raw := <-bodies:
		require.True(t, bytes.Contains(raw, []byte("a-traced-one")))
	case <-time.After(patience):
		require.Fail(t, "no span came")
	}
}
