package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
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
)

// patience is how long what must happen may take: a loaded machine is slow, and
// that is no fault.
const patience = 30 * time.Second

// bin is where TestMain has put pushd and pushctl.
var bin string

// TestMain builds the binary that people run. The tests of this package drive
// that, as processes: flags, signals and files are what they are about.
func TestMain(m *testing.M) {
	if file := os.Getenv("TEST_COUNT"); file != "" {
		count(file)
		return
	}
	if bin = os.Getenv("TEST_BIN"); bin != "" { // built where there is Go
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "pushd-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bin = dir
	code := 1
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir) // a temporary folder
	os.Exit(code)
}

func build(dir string) error {
	line := []string{"build", "-o", filepath.Join(dir, "pushd")}
	if raceEnabled {
		line = append(line, "-race")
	}
	cmd := exec.Command("go", append(line, ".")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(line, " "), err, out)
	}
	return os.Symlink("pushd", filepath.Join(dir, "pushctl"))
}

// daemon is one life of `pushd serve`.
type daemon struct {
	cmd    *exec.Cmd
	base   string // http://127.0.0.1:PORT
	log    logbook
	exited chan struct{}
}

// quiet are settings under which a test that is not about a timer meets none.
var quiet = []string{
	"log.format=json", "log.level=info", "stream.heartbeat=1s",
	"stream.disconnect_grace=60s", "stream.reconnect_grace=120s", "watchdog.orphan_timeout=60s",
}

// serve starts a server on a free port and a directory, and waits until it is ready.
func serve(t testing.TB, dir string, set ...string) *daemon {
	t.Helper()
	d, err := start(dir, set...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.stop()) })
	require.NoError(t, d.ready())
	return d
}

// start starts a server and waits for nothing.
func start(dir string, set ...string) (*daemon, error) {
	return startAt("127.0.0.1:0", dir, set...)
}

func startAt(address, dir string, set ...string) (*daemon, error) {
	line := []string{"serve", "--listen", address, "--data-dir", dir}
	for _, kv := range append(quiet[:len(quiet):len(quiet)], set...) {
		line = append(line, "--set", kv)
	}
	cmd := exec.Command(filepath.Join(bin, "pushd"), line...)
	cmd.Env = clean(os.Environ())
	return launch(cmd)
}

// launch starts a server by a command and waits for nothing.
func launch(cmd *exec.Cmd) (*daemon, error) {
	d := &daemon{cmd: cmd, exited: make(chan struct{})}
	d.log.address = make(chan string, 1)
	d.cmd.Stderr, d.cmd.Stdout = &d.log, &d.log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(d.exited)
		_ = d.cmd.Wait() // its state is asked for where it matters
	}()
	return d, nil
}

// serveBy starts a server by a command, until the test ends, and waits until it is ready.
func serveBy(t testing.TB, cmd *exec.Cmd) *daemon {
	t.Helper()
	d, err := launch(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.stop()) })
	require.NoError(t, d.ready())
	return d
}

// listens waits until the server says where it does.
func (d *daemon) listens() (address string, err error) {
	select {
	case address := <-d.log.address:
		return address, nil
	case <-d.exited:
		return "", fmt.Errorf("pushd ended before it listened: %s", d.log.String())
	case <-time.After(patience):
		return "", fmt.Errorf("pushd does not say where it listens: %s", d.log.String())
	}
}

// ready waits until the server says where it listens and answers there.
func (d *daemon) ready() error {
	address, err := d.listens()
	if err != nil {
		return err
	}
	d.base = "http://" + address
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return d.client().Ready(ctx)
}

// steadyPort is one that nobody listens on, below those that the system gives to
// connections: a server that is to come back finds it free.
func steadyPort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000)))
		if err != nil {
			continue
		}
		_, port, err := net.SplitHostPort(l.Addr().String())
		require.NoError(t, errors.Join(err, l.Close()))
		return port
	}
	require.FailNow(t, "no port is free")
	return ""
}

func (d *daemon) client() *api.Client { return &api.Client{Base: d.base} }

// end sends a signal and returns the exit status.
func (d *daemon) end(sig os.Signal) (int, error) {
	if err := d.cmd.Process.Signal(sig); err != nil {
		return -1, err
	}
	select {
	case <-d.exited:
		return d.cmd.ProcessState.ExitCode(), nil
	case <-time.After(patience):
		return -1, fmt.Errorf("pushd is still running: %s", d.log.String())
	}
}

// kill ends the server as a power cut would.
func (d *daemon) kill() {
	_ = d.cmd.Process.Kill() // it may be gone
	<-d.exited
}

// stop ends the server if it runs, gently first, and looks for a crash in what it printed.
func (d *daemon) stop() error {
	gently(d.cmd.Process)
	var err error
	select {
	case <-d.exited:
	case <-time.After(patience):
		err = errors.New("pushd did not end after SIGTERM")
		d.kill()
	}
	for _, sign := range []string{"panic: ", "panicked", "DATA RACE", "fatal error: "} {
		if strings.Contains(d.log.String(), sign) {
			err = errors.Join(err, fmt.Errorf("pushd printed %q: %s", sign, d.log.String()))
		}
	}
	return err
}

// gently asks a process to end. On Windows nobody can be asked.
func gently(p *os.Process) {
	if p.Signal(syscall.SIGTERM) != nil {
		_ = p.Kill() // it may be gone
	}
}

// logbook is what a process printed, and where it said it listens.
type logbook struct {
	mu      sync.Mutex
	all     bytes.Buffer
	rest    []byte
	address chan string
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		var entry struct {
			Address string `json:"address"`
		}
		if json.Unmarshal(l.rest[:i], &entry) == nil && entry.Address != "" {
			select {
			case l.address <- entry.Address:
			default:
			}
		}
		l.rest = l.rest[i+1:]
	}
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// run runs the binary to its end.
func run(t *testing.T, name string, line ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), line...)
	cmd.Env = clean(os.Environ())
	cmd.Dir = t.TempDir()
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err := cmd.Run()
	require.NotNil(t, cmd.ProcessState, "%s %v: %v", name, line, err)
	return out.String(), talk.String(), cmd.ProcessState.ExitCode()
}

// clean drops settings of whoever runs the tests.
func clean(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "PUSHD_") {
			kept = append(kept, kv)
		}
	}
	return kept
}
