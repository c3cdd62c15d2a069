package proc_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/proc"
)

// The test binary is its own supervisor, and an agent that is to be killed.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("AGENTEXEC_SUPERVISOR") != "" && len(os.Args) == 1: // a fuzz worker has arguments
		os.Exit(proc.Supervise())
	case os.Getenv("AGENTEXEC_VICTIM") != "":
		mark := os.Getenv("AGENTEXEC_VICTIM")
		os.Setenv("AGENTEXEC_SUPERVISOR", "1")
		starter().Start(spec(mark, os.Stdout, escape)).Wait()
		os.Exit(0)
	}
	os.Setenv("AGENTEXEC_SUPERVISOR", "1")
	os.Exit(m.Run())
}

func starter() proc.Starter {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return proc.Starter{Supervisor: []string{self}}
}

// escape prints a word and leaves a grandchild in a session of its own that
// ignores SIGTERM and prints for ever.
const escape = `setsid sh -c 'trap "" TERM HUP INT; while :; do echo alive; sleep 0.05; done' & echo begun; trap "" TERM; sleep 600`

func spec(mark string, out interface{ Write([]byte) (int, error) }, script string) proc.Spec {
	return proc.Spec{Argv: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Mark: mark, Stdout: out, Stderr: out}
}

// bearers are the living processes with a mark.
func bearers(mark string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if bytes.Contains(env, []byte(proc.MarkName+"="+mark)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// screen tells when a word has been printed.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	word string
	seen chan struct{}
}

func newScreen(word string) *screen { return &screen{word: word, seen: make(chan struct{})} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := strings.Contains(s.text.String(), s.word)
	s.text.Write(p)
	if !was && strings.Contains(s.text.String(), s.word) {
		close(s.seen)
	}
	return len(p), nil
}

func run(t *testing.T, argv []string, stdin string) (proc.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	s := proc.Spec{Argv: argv, Env: []string{"PATH=" + os.Getenv("PATH")}, Mark: rand.Text(), Stdout: &out, Stderr: &out}
	if stdin != "" {
		s.Stdin = strings.NewReader(stdin)
	}
	exit := starter().Start(s).Wait()
	require.Empty(t, bearers(s.Mark))
	return exit, out.String()
}

func TestAProgramEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	for name, c := range map[string]struct {
		argv  []string
		stdin string
		want  proc.Exit
		out   string
	}{
		"well":                   {[]string{"sh", "-c", "echo hi"}, "", proc.Exit{}, "hi\n"},
		"with a code":            {[]string{"sh", "-c", "exit 75"}, "", proc.Exit{Code: 75}, ""},
		"by a signal":            {[]string{"sh", "-c", "kill -SEGV $$"}, "", proc.Exit{Code: -11}, ""},
		"having read its input":  {[]string{"cat"}, "prompt", proc.Exit{}, "prompt"},
		"without input":          {[]string{"cat"}, "", proc.Exit{}, ""},
		"its mark on it":         {[]string{"sh", "-c", `test -n "$PUSHD_RUN" && test "$(ps -o sid= $$ | tr -d " ")" = $$ && echo yes`}, "", proc.Exit{}, "yes\n"},
		"never: not found":       {[]string{"no-such-program"}, "", proc.Exit{NotStarted: "not_found", Message: "no-such-program: not found"}, ""},
		"never: not executable":  {[]string{plain}, "", proc.Exit{NotStarted: "not_executable", Message: plain + ": permission denied"}, ""},
		"no secret of the agent": {[]string{"sh", "-c", "env | grep -c PUSHD_TOKEN; true"}, "", proc.Exit{}, "0\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			exit, out := run(t, c.argv, c.stdin)
			require.Equal(t, c.want, exit)
			require.Equal(t, c.out, out)
		})
	}
	exit := starter().Start(proc.Spec{Argv: []string{"sh"}, Dir: "/no/such/dir"}).Wait()
	require.Equal(t, "not_found", exit.NotStarted)
	require.Contains(t, exit.Message, "working directory")
}

func TestALeftoverChildDoesNotHoldTheResult(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	exit, out := run(t, []string{"sh", "-c", `sleep 30 & echo '{"type":"result","ok":true}'`}, "")
	require.Equal(t, proc.Exit{Swept: 1}, exit)
	require.Contains(t, out, "result")
	require.Less(t, time.Since(begun), 2*time.Second)
}

func TestNothingOfATreeOutlivesAKill(t *testing.T) {
	t.Parallel()
	mark := rand.Text()
	out := newScreen("alive")
	p := starter().Start(spec(mark, out, escape))
	<-out.seen
	require.GreaterOrEqual(t, len(bearers(mark)), 3)
	p.Stop() // is ignored
	p.Kill()
	exit := p.Wait()
	require.Equal(t, -9, exit.Code)
	require.Zero(t, exit.Left)
	require.Empty(t, bearers(mark))
}

func TestATreeEndsWithItsAgentOrItsSupervisor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	t.Run("agent", func(t *testing.T) {
		t.Parallel()
		mark := rand.Text() + ".r"
		out := newScreen("alive")
		agent := exec.Command(self)
		agent.Env = append(os.Environ(), "AGENTEXEC_SUPERVISOR=", "AGENTEXEC_VICTIM="+mark)
		agent.Stdout = out
		require.NoError(t, agent.Start())
		<-out.seen
		require.NoError(t, agent.Process.Kill())
		_ = agent.Wait() // killed
		_, left := proc.SweepOld(strings.TrimSuffix(mark, ".r"))
		require.Zero(t, left)
		require.Empty(t, bearers(mark), "nothing runs when the next agent begins")
	})
	t.Run("supervisor", func(t *testing.T) {
		t.Parallel()
		mark := rand.Text()
		out := newScreen("alive")
		p := starter().Start(spec(mark, out, escape))
		<-out.seen
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", bearers(mark)[0]))
		require.NoError(t, err)
		var pid, parent int
		var name, state string
		_, err = fmt.Sscan(string(stat), &pid, &name, &state, &parent)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(parent, syscall.SIGKILL))
		exit := p.Wait()
		require.Equal(t, "start", exit.NotStarted)
		require.Empty(t, bearers(mark))
	})
}

func TestCPUOfATree(t *testing.T) {
	t.Parallel()
	out := newScreen("busy")
	p := starter().Start(spec(rand.Text(), out, `sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo busy; sleep 60'`))
	<-out.seen
	require.Positive(t, p.CPU())
	p.Kill()
	p.Wait()
}
