package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows/registry"
)

// The agent as a service: from its installation by way of work, which a stop lets
// end, to its removal.
func TestTheAgentAsAService(t *testing.T) {
	service := func(want int, verb string, more ...string) string {
		t.Helper()
		out, talk, code := run(t, "pushd", append([]string{"agent", verb}, more...)...)
		require.Equal(t, want, code, "%s: %s", verb, talk)
		return strings.TrimSpace(out + talk)
	}
	out, talk, code := run(t, "pushd", "agent", "status")
	if code == 0 || strings.Contains(talk, "Access is denied") {
		t.Skip("there is one, or it is not for us: " + out + talk)
	}
	require.Contains(t, talk, "not installed")
	for _, verb := range []string{"start", "stop", "uninstall"} {
		require.Contains(t, service(1, verb), "not installed")
	}
	w := site(t, func(dir string) string {
		return "drain_timeout: 20s\nhandlers:\n  slow: " + countsItself(dir, 3*time.Second) + "  quick: " + countsItself(dir, 0)
	})
	settings, err := os.ReadFile(w.path("agent.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.path("agent.yaml"), append([]byte("server: http://"+w.address+"\n"), settings...), 0o600))
	t.Cleanup(func() { _ = exec.Command(filepath.Join(bin, "pushd"), "agent", "uninstall").Run() }) // it is gone unless the test failed
	for range 2 {
		service(0, "install", "-c", w.path("agent.yaml"))
	}
	source, err := registry.OpenKey(registry.LOCAL_MACHINE, `SYSTEM\CurrentControlSet\Services\EventLog\Application\pushd-agent`, registry.QUERY_VALUE)
	require.NoError(t, err)
	require.NoError(t, source.Close())
	require.Equal(t, "inactive", service(0, "status"))
	service(0, "start")
	service(0, "start")
	require.Equal(t, "active", service(0, "status"))
	w.push("slow", 1)
	require.Eventually(t, func() bool {
		raw, err := os.ReadFile(w.path("count"))
		return err == nil && len(raw) > 0
	}, patience, 10*time.Millisecond)
	first := exec.Command(filepath.Join(bin, "pushd"), "agent", "stop")
	require.NoError(t, first.Start())
	service(0, "stop") // who asks a second time waits as well
	require.NoError(t, first.Wait())
	require.Equal(t, "inactive", service(0, "status"))
	r := w.settled("slow-000")
	require.Equal(t, "done", r.State, "a stop lets it end: %+v", r.Error)
	service(0, "stop")
	w.push("quick", 1)
	service(0, "start")
	require.Equal(t, "done", w.settled("quick-000").State)
	require.Equal(t, map[string]int{"slow-000": 1, "quick-000": 1}, w.counted())
	service(0, "uninstall")
	require.Contains(t, service(1, "status"), "not installed")
	require.FileExists(t, filepath.Join(w.dir, "state", "agent.db"), "its journal stays")
}
