package main_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// worksite is a server and an agent of one machine, as processes, and the folder
// where both keep what they know.
type worksite struct {
	t       testing.TB
	dir     string
	address string
	server  string // as the agent is told; empty: by its address
	drain   string // its --drain-timeout; empty: 2s
	set     []string
	srv     *daemon
	agent   *hand
}

// hand is one life of `pushd agent`.
type hand struct {
	cmd    *exec.Cmd
	exited chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	up   chan struct{} // closed when it has subscribed
	seen bool
}

func (h *hand) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(p)
	if !h.seen && strings.Contains(h.text.String(), `"subscribed"`) {
		h.seen = true
		close(h.up)
	}
	return len(p), nil
}

func (h *hand) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

// quick are settings under which a failed try is soon followed by the next.
var quick = []string{
	"stream.disconnect_grace=500ms", "policy.backoff_base=20ms", "policy.backoff_max=50ms", "policy.error_delay=20ms",
	"policy.release_delay=0", "policy.breaker_threshold=1000", "policy.transient_max_attempts=100",
}

// site starts a server; handlers gives the handlers section of the agent's
// settings for the folder that all is in.
func site(t testing.TB, handlers func(dir string) string, set ...string) *worksite {
	t.Helper()
	w := &worksite{t: t, dir: t.TempDir(), set: append(append([]string(nil), quick...), set...)}
	settings := "machine_id: m1\nmax_concurrency: 4\nlog: {format: json, level: debug}\ndata_dir: state\n" + handlers(w.dir)
	require.NoError(t, os.WriteFile(w.path("agent.yaml"), []byte(settings), 0o600))
	w.address = "127.0.0.1:" + steadyPort(t)
	require.NoError(t, w.revive())
	t.Cleanup(func() {
		if w.agent != nil {
			w.end()
		}
	})
	return w
}

func (w *worksite) path(name string) string { return filepath.Join(w.dir, name) }

// work starts the agent and waits until it has subscribed.
func (w *worksite) work(env ...string) {
	w.t.Helper()
	w.begin(env...)
	select {
	case <-w.agent.up:
	case <-w.agent.exited:
		require.FailNow(w.t, "the agent ended", w.agent.log())
	case <-time.After(patience):
		require.FailNow(w.t, "the agent does not subscribe", w.agent.log())
	}
}

func (w *worksite) begin(env ...string) {
	w.t.Helper()
	h := &hand{exited: make(chan struct{}), up: make(chan struct{})}
	server := cmp.Or(w.server, "http://"+w.address)
	h.cmd = exec.Command(filepath.Join(bin, "pushd"), "agent", "-c", w.path("agent.yaml"), "--server", server, "--drain-timeout", cmp.Or(w.drain, "2s"))
	h.cmd.Env = append(clean(os.Environ()), env...)
	h.cmd.Stderr, h.cmd.Stdout = h, h
	require.NoError(w.t, h.cmd.Start())
	go func() {
		defer close(h.exited)
		_ = h.cmd.Wait() // its state is asked for where it matters
	}()
	w.agent = h
}

// murder ends the agent as a power cut would.
func (w *worksite) murder() {
	_ = w.agent.cmd.Process.Kill() // it may be gone
	<-w.agent.exited
}

// end ends the agent gently.
func (w *worksite) end() {
	gently(w.agent.cmd.Process)
	select {
	case <-w.agent.exited:
	case <-time.After(patience):
		_ = w.agent.cmd.Process.Kill()
		require.FailNow(w.t, "the agent does not end", w.agent.log())
	}
	for _, sign := range []string{"panic: ", "DATA RACE", "fatal error: "} {
		require.NotContains(w.t, w.agent.log(), sign)
	}
	w.agent = nil
}

// revive starts the server, and again where it was.
func (w *worksite) revive() error {
	d, err := startAt(w.address, w.path("srv"), w.set...)
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { require.NoError(w.t, d.stop()) })
	w.srv = d
	return d.ready()
}

func (w *worksite) push(kind string, n int) {
	w.t.Helper()
	var all []api.Push
	for i := range n {
		all = append(all, api.Push{ActionID: fmt.Sprintf("%s-%03d", kind, i), MachineID: "m1", Type: kind, OnDead: "skip"})
	}
	_, err := w.client().PushAll(w.t.Context(), all)
	require.NoError(w.t, err)
}

func (w *worksite) pushOne(id string) {
	w.t.Helper()
	_, err := w.client().Push(w.t.Context(), api.Push{ActionID: id, MachineID: "m1", Type: "echo"})
	require.NoError(w.t, err)
}

func (w *worksite) client() *api.Client { return &api.Client{Base: "http://" + w.address} }

// settled waits until an action is, and gives its record.
func (w *worksite) settled(id string) api.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*patience)
	defer cancel()
	for {
		r, err := w.client().Action(ctx, id, 20*time.Second)
		if ctx.Err() != nil {
			require.FailNow(w.t, "not settled", "%s: %+v\n%s", id, r, w.agent.log())
		}
		if err == nil && !r.SettledAt.IsZero() {
			return r
		}
	}
}

// counted are how often the handler that counts was begun, by action.
func (w *worksite) counted() map[string]int {
	raw, err := os.ReadFile(w.path("count"))
	require.NoError(w.t, err)
	counts := map[string]int{}
	for id := range strings.FieldsSeq(string(raw)) {
		counts[id]++
	}
	return counts
}
