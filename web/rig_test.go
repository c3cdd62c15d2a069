package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
	"pushd/stream"
)

// patience is how long what must happen may take on a loaded machine.
const patience = 30 * time.Second

// bin is the pushd that people run, built once; the tests drive it as a process,
// for to be killed and started again is part of what the page must stand.
var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pushd-web-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = filepath.Join(dir, "pushd")
	code := 1
	if out, err := exec.Command("go", "build", "-o", bin, "../cmd/pushd").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
	} else {
		code = m.Run()
	}
	stopBrowser()
	_ = os.RemoveAll(dir) // a temporary folder
	os.Exit(code)
}

// server is one life of `pushd serve`.
type server struct {
	cmd     *exec.Cmd
	base    string
	dir     string
	log     logbook
	exited  chan struct{}
	token   string
	setting []string
	file    string // of settings; empty: none
}

// quick are short times, so that a loss is seen in a blink.
var quick = []string{
	"log.format=json", "stream.heartbeat=1s", "stream.disconnect_grace=1s", "stream.reconnect_grace=2s",
	"watchdog.scan_interval=1s", "policy.error_delay=200ms",
}

func serve(t *testing.T, set ...string) *server {
	t.Helper()
	return serveFile(t, "", set...)
}

// serveFile is serve with a file of settings.
func serveFile(t *testing.T, file string, set ...string) *server {
	t.Helper()
	s := &server{file: file, dir: t.TempDir(), setting: append(quick[:len(quick):len(quick)], set...)}
	s.start(t, "127.0.0.1:0")
	t.Cleanup(func() { s.stop(t) })
	return s
}

// start starts the process and waits until it takes work.
func (s *server) start(t *testing.T, at string) {
	t.Helper()
	line := []string{"serve", "--listen", at, "--data-dir", s.dir}
	for _, kv := range s.setting {
		line = append(line, "--set", kv)
	}
	if s.file != "" {
		line = append(line, "--config", s.file)
	}
	s.cmd, s.exited = exec.Command(bin, line...), make(chan struct{})
	s.log = logbook{address: make(chan string, 1)}
	s.cmd.Stderr, s.cmd.Stdout = &s.log, &s.log
	require.NoError(t, s.cmd.Start())
	cmd, exited := s.cmd, s.exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how it ended is asked for where it matters
	}()
	select {
	case address := <-s.log.address:
		s.base = "http://" + address
	case <-exited:
		require.FailNow(t, "pushd ended before it listened", s.log.String())
	case <-time.After(patience):
		require.FailNow(t, "pushd does not say where it listens", s.log.String())
	}
	require.NoError(t, s.client().Ready(t.Context()))
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may be gone
	<-s.exited
}

// restart starts it again where it was.
func (s *server) restart(t *testing.T) {
	t.Helper()
	s.start(t, strings.TrimPrefix(s.base, "http://"))
}

func (s *server) stop(t *testing.T) {
	t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.kill()
	}
	for _, sign := range []string{"panic: ", "panicked", "DATA RACE", "fatal error: "} {
		require.NotContains(t, s.log.String(), sign)
	}
}

func (s *server) client() *api.Client { return &api.Client{Base: s.base, Token: s.token} }

// mint makes a token; from the first one on the server is closed.
func (s *server) mint(t *testing.T, name string, scopes ...string) string {
	t.Helper()
	token, err := s.client().CreateToken(t.Context(), api.NewToken{Name: name, Scopes: scopes})
	require.NoError(t, err)
	return token.Text
}

// push pushes an action with defaults.
func (s *server) push(t *testing.T, id, machine string, more ...func(*api.Push)) {
	t.Helper()
	p := api.Push{ActionID: id, MachineID: machine, Type: "job"}
	for _, f := range more {
		f(&p)
	}
	_, err := s.client().Push(t.Context(), p)
	require.NoError(t, err)
}

func (s *server) ack(t *testing.T, id, status string, more ...func(*api.Ack)) {
	t.Helper()
	a := api.Ack{ActionID: id, Status: status}
	for _, f := range more {
		f(&a)
	}
	_, err := s.client().Ack(t.Context(), a)
	require.NoError(t, err)
}

// settled waits until an action is, and requires in which state.
func (s *server) settled(t *testing.T, id, state string) {
	t.Helper()
	r, err := s.client().Action(t.Context(), id, 50*time.Second)
	require.NoError(t, err)
	require.Equal(t, state, r.State)
}

// agent is a machine's stream; the actions it was sent come on got.
type agent struct {
	got  chan sent
	stop context.CancelFunc
}

type sent struct {
	ActionID string `json:"action_id"`
	Delivery int    `json:"delivery"`
}

// subscribe opens a machine's stream and waits for its hello.
func (s *server) subscribe(t *testing.T, machine string, credit int) *agent {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	resp, err := s.client().Subscribe(ctx, api.Subscription{MachineID: machine, MaxInFlight: &credit})
	require.NoError(t, err)
	a := &agent{got: make(chan sent, 10_000), stop: cancel}
	events := stream.NewDecoder(resp.Body)
	hello, err := events.Next()
	require.NoError(t, err)
	require.Equal(t, "hello", hello.Name)
	go func() {
		defer resp.Body.Close()
		for {
			e, err := events.Next()
			if err != nil {
				return
			}
			var one sent
			if e.Name == "action" && json.Unmarshal(e.Data, &one) == nil {
				a.got <- one
			}
		}
	}()
	return a
}

// await waits for the next action.
func (a *agent) await(t *testing.T) sent {
	t.Helper()
	select {
	case one := <-a.got:
		return one
	case <-time.After(patience):
		require.FailNow(t, "nothing was sent")
		return sent{}
	}
}

// metric reads one number of /metrics.
func (s *server) metric(t *testing.T, name string) string {
	t.Helper()
	for line := range strings.SplitSeq(s.get(t, "/metrics"), "\n") {
		if value, is := strings.CutPrefix(line, name+" "); is {
			return value
		}
	}
	require.Fail(t, "no metric "+name)
	return ""
}

// logbook is what a process printed, and where it said it listens.
type logbook struct {
	mu      sync.Mutex
	all     bytes.Buffer
	address chan string
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	for line := range bytes.Lines(p) {
		var entry struct {
			Address string `json:"address"`
		}
		if json.Unmarshal(line, &entry) == nil && entry.Address != "" {
			select {
			case l.address <- entry.Address:
			default:
			}
		}
	}
	return len(p), nil
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

var errNoBrowser = errors.New("no browser is to be had here; `make test` installs one where it may")
