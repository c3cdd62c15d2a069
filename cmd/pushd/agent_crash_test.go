package main_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	agentKills  = flag.Int("agent.kills", 12, "how often TestAnAgentThatIsKilled kills the agent")
	serverKills = flag.Int("agent.server_kills", 5, "how often TestAServerThatIsKilledUnderAnAgent kills the server")
)

// counts is a handler that leaves a line for each execution, in one write.
func counts(dir string) string {
	if runtime.GOOS == "windows" {
		return "handlers:\n  work: " + countsItself(dir, 50*time.Millisecond)
	}
	return fmt.Sprintf("handlers:\n  work: {kind: exec, command: [sh, -c, 'echo $PUSHD_ACTION_ID >>%s/count; sleep 0.05; echo true']}\n", dir)
}

// countsItself is the same for where there is no sh: the test binary does it.
func countsItself(dir string, pause time.Duration) string {
	return fmt.Sprintf("{kind: exec, command: ['%s'], env: {TEST_COUNT: '%s', TEST_PAUSE: %v}}\n", os.Args[0], filepath.Join(dir, "count"), pause)
}

func count(path string) {
	pause, err := time.ParseDuration(os.Getenv("TEST_PAUSE"))
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	if _, err := f.WriteString(os.Getenv("PUSHD_ACTION_ID") + "\n"); err != nil {
		panic(err)
	}
	time.Sleep(pause)
	fmt.Println(true)
}

// chosen waits for an instant nobody has chosen.
func chosen(most time.Duration) { <-time.After(rand.N(most)) }

func TestAnAgentThatIsKilled(t *testing.T) {
	t.Parallel()
	w := site(t, counts)
	n := 5 * *agentKills
	w.push("work", n)
	for range *agentKills {
		w.work()
		chosen(400 * time.Millisecond)
		w.murder()
	}
	w.work()
	w.audit(n)
}

func TestAServerThatIsKilledUnderAnAgent(t *testing.T) {
	t.Parallel()
	w := site(t, counts)
	n := 20 * *serverKills
	w.push("work", n)
	w.work()
	for range *serverKills {
		chosen(400 * time.Millisecond)
		w.srv.kill()
		require.NoError(t, w.revive())
	}
	executions, interrupted := w.audit(n)
	require.Zero(t, interrupted)
	require.Equal(t, n, executions, "each exactly once")
}

// audit holds what every action's record says against what was executed: nothing
// ran again without a failure that its record counts.
func (w *worksite) audit(n int) (executions, interrupted int) {
	for i := range n {
		id := fmt.Sprintf("work-%03d", i)
		r := w.settled(id)
		require.Equal(w.t, "done", r.State, "%+v", r)
		ran := w.counted()[id]
		require.GreaterOrEqual(w.t, ran, 1, id)
		require.LessOrEqual(w.t, ran, 1+r.TransientAttempts, "%s ran %d times: %+v", id, ran, r)
		require.Zero(w.t, r.Attempts)
		executions += ran
		interrupted += r.TransientAttempts
	}
	w.t.Logf("%d actions, %d executions, %d interrupted", n, executions, interrupted)
	return executions, interrupted
}
