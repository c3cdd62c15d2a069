package work_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/proc"
	"pushd/agentexec/task"
	"pushd/agentexec/work"
)

type handler interface {
	Run(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict
	Ready(ctx context.Context) error
}

// The test binary is its own supervisor and its own fake CLI.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("AGENTEXEC_REPLAY") != "":
		replay(os.Getenv("AGENTEXEC_REPLAY"))
	case os.Getenv("AGENTEXEC_SUPERVISOR") != "" && len(os.Args) == 1: // a fuzz worker has arguments
		os.Exit(proc.Supervise())
	}
	os.Setenv("AGENTEXEC_SUPERVISOR", "1")
	os.Exit(m.Run())
}

func self(t *testing.T) string {
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

const secret = "tok_0123456789abcdef"

func newRunner(t *testing.T) *work.Runner {
	return &work.Runner{
		Start: proc.Starter{Supervisor: []string{self(t)}}.Start, Dir: filepath.Join(t.TempDir(), "runs"),
		Environ: append(os.Environ(), "PUSHD_TOKEN="+secret, "MY_TOKEN=x"+secret, "ANTHROPIC_API_KEY=k", "OTHER=o"),
		Secrets: func() []string { return []string{secret} }, Now: time.Now,
	}
}

func job(payload string) task.Job {
	return task.Job{RunID: "test." + rand.Text(), Action: task.Action{
		ActionID: "a1", Delivery: 1, MachineID: "m", SessionID: "s", Type: "work", Payload: json.RawMessage(payload),
	}}
}

// whenItSpeaks tells when a program of the runner has printed something.
func whenItSpeaks(r *work.Runner) <-chan struct{} {
	spoke, start := make(chan struct{}), r.Start
	var once sync.Once
	r.Start = func(s proc.Spec) proc.Process {
		s.Stdout = listener{s.Stdout, func() { once.Do(func() { close(spoke) }) }}
		return start(s)
	}
	return spoke
}

type listener struct {
	io.Writer
	heard func()
}

func (l listener) Write(p []byte) (int, error) {
	n, err := l.Writer.Write(p)
	l.heard()
	return n, err
}

func run(t *testing.T, h handler, payload string) (task.Verdict, work.Result) {
	t.Helper()
	v := h.Run(t.Context(), job(payload), &task.Pulse{})
	var r work.Result
	_ = json.Unmarshal(v.Result, &r)
	return v, r
}
