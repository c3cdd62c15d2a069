package proc_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"pushd/agentexec/proc"
)

const roleName = "AGENTEXEC_ROLE"

// The test binary plays the programs, and an agent that is to be killed.
func TestMain(m *testing.M) {
	role, arg, _ := strings.Cut(os.Getenv(roleName), ":")
	switch role {
	case "":
		os.Exit(m.Run())
	case "exit":
		code, err := strconv.ParseUint(arg, 0, 32)
		if err != nil {
			panic(err)
		}
		os.Exit(int(code))
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin) // ends with its input
	case "says":
		fmt.Printf("%q %q\n", os.Args[1:], os.Getenv(proc.MarkName))
	case "parent":
		parent(arg)
	case "stubborn":
		stubborn()
	case "polite":
		polite()
	case "busy":
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		}
		fmt.Println("busy")
		time.Sleep(time.Hour)
	case "agent":
		start(os.Stdout, "parent:stays").Wait()
	case "agent in a hurry":
		pid, err := proc.StartHalf(proc.Spec{Argv: []string{self()}, Env: environ("exit:0")})
		if err != nil {
			panic(err)
		}
		fmt.Printf("alive %d\n", pid)
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// parent has a stubborn child that holds its standard output, and leaves it.
func parent(arg string) {
	signal.Ignore(os.Interrupt)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleName+"=stubborn")
	child.Stdout = os.Stdout
	child.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	if err := child.Start(); err != nil {
		panic(err)
	}
	if arg == "stays" {
		time.Sleep(time.Hour)
	}
	time.Sleep(200 * time.Millisecond) // the child has begun
}

func stubborn() {
	signal.Ignore(os.Interrupt)
	for {
		fmt.Printf("alive %d\n", os.Getpid())
		time.Sleep(50 * time.Millisecond)
	}
}

func polite() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt)
	fmt.Println("ready")
	<-asked
	os.Exit(3)
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

func environ(role string) []string {
	return []string{roleName + "=" + role, "SystemRoot=" + os.Getenv("SystemRoot"), "PATH=" + os.Getenv("PATH")}
}

func start(out io.Writer, role string) proc.Process {
	return proc.Starter{}.Start(proc.Spec{Argv: []string{self()}, Env: environ(role), Mark: rand.Text(), Stdout: out, Stderr: out})
}

// lines are what a program prints, line by line; one that nobody takes is lost.
func lines(r io.Reader) <-chan string {
	c := make(chan string)
	go func() {
		defer close(c)
		for s := bufio.NewScanner(r); s.Scan(); {
			select {
			case c <- strings.TrimSpace(s.Text()):
			case <-time.After(patience):
			}
		}
	}()
	return c
}

const patience = 30 * time.Second

// told runs a role with a pipe for its output.
func told(t *testing.T, role string) (proc.Process, <-chan string) {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return start(w, role), lines(r)
}

// watch waits for the stubborn one's first word and holds on to its process.
func watch(t *testing.T, c <-chan string) windows.Handle {
	t.Helper()
	for line := range c {
		pid, ok := strings.CutPrefix(line, "alive ")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(pid, 10, 32)
		require.NoError(t, err)
		h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(n))
		require.NoError(t, err)
		t.Cleanup(func() { _ = windows.CloseHandle(h) })
		go func() {
			for range c { // so that it prints on
			}
		}()
		return h
	}
	require.FailNow(t, "nothing was said")
	return 0
}

func ended(t *testing.T, h windows.Handle, within time.Duration) bool {
	t.Helper()
	event, err := windows.WaitForSingleObject(h, uint32(within.Milliseconds()))
	require.NoError(t, err)
	return event == windows.WAIT_OBJECT_0
}

func wine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

func TestAProgramEnds(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain.exe")
	require.NoError(t, os.WriteFile(plain, []byte("x"), 0o600))
	for name, c := range map[string]struct {
		role, stdin, out string
		code             int
	}{
		"well":                   {role: "exit:0"},
		"with a code":            {role: "exit:75", code: 75},
		"as cmd.exe has it":      {role: "exit:9009", code: 9009},
		"by Ctrl-C":              {role: "exit:0xC000013A", code: 0xC000013A},
		"by an access violation": {role: "exit:0xC0000005", code: 0xC0000005},
		"having read its input":  {role: "cat", stdin: "prompt", out: "prompt"},
		"without input":          {role: "cat"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			s := proc.Spec{Argv: []string{self()}, Env: environ(c.role), Mark: rand.Text(), Stdout: &out, Stderr: &out}
			if c.stdin != "" {
				s.Stdin = strings.NewReader(c.stdin)
			}
			require.Equal(t, proc.Exit{Code: c.code}, proc.Starter{}.Start(s).Wait())
			require.Equal(t, c.out, out.String())
		})
	}
	for want, s := range map[string]proc.Spec{
		"not_found":      {Argv: []string{"no-such-program"}},
		"start":          {Argv: []string{plain}},
		"not_executable": {Argv: []string{filepath.Join(filepath.Dir(plain), "run.ps1")}},
	} {
		if want == "not_executable" {
			require.NoError(t, os.WriteFile(s.Argv[0], nil, 0o600))
		}
		exit := proc.Starter{}.Start(s).Wait()
		require.Equal(t, want, exit.NotStarted, exit.Message)
	}
	exit := proc.Starter{}.Start(proc.Spec{Argv: []string{self()}, Dir: `C:\no\such`}).Wait()
	require.Equal(t, "not_found", exit.NotStarted)
	require.Contains(t, exit.Message, "working directory")
}

func TestALeftoverChildDoesNotHoldTheResult(t *testing.T) {
	begun := time.Now()
	p, out := told(t, "parent:leaves")
	h := watch(t, out)
	require.Equal(t, proc.Exit{Swept: 1}, p.Wait())
	require.True(t, ended(t, h, 0))
	require.Less(t, time.Since(begun), 4*time.Second, "that is less than the pipes are waited for")
}

func TestNothingOfATreeOutlivesAKill(t *testing.T) {
	p, out := told(t, "parent:stays")
	h := watch(t, out)
	if !wine() {
		p.Stop() // is ignored
		require.False(t, ended(t, h, 100*time.Millisecond))
	}
	p.Kill()
	exit := p.Wait()
	require.Equal(t, 137, exit.Code)
	require.Zero(t, exit.Left)
	require.True(t, ended(t, h, 0))
	p.Stop() // of what has ended, neither does anything
	p.Kill()
}

func TestATreeEndsWithItsAgent(t *testing.T) {
	for name, role := range map[string]string{"in its job": "agent", "before its job": "agent in a hurry"} {
		t.Run(name, func(t *testing.T) {
			agent := exec.Command(self())
			agent.Env = append(os.Environ(), roleName+"="+role)
			r, w := io.Pipe()
			defer w.Close()
			agent.Stdout = w
			agent.WaitDelay = time.Second
			require.NoError(t, agent.Start())
			h := watch(t, lines(r))
			require.False(t, ended(t, h, 0))
			require.NoError(t, agent.Process.Kill())
			require.True(t, ended(t, h, patience))
			_ = agent.Wait() // killed
		})
	}
}

func TestAProgramIsAskedToEnd(t *testing.T) {
	if wine() {
		t.Skip("wine 8 has no CTRL_BREAK: a program there is killed instead")
	}
	p, out := told(t, "polite")
	require.Equal(t, "ready", <-out)
	p.Stop()
	require.Equal(t, proc.Exit{Code: 3}, p.Wait())
}

func TestCPUOfATree(t *testing.T) {
	if wine() {
		t.Skip("wine 8 counts no time for a job")
	}
	p, out := told(t, "busy")
	require.Equal(t, "busy", <-out)
	require.Positive(t, p.CPU())
	p.Kill()
	p.Wait()
}

// npm puts a batch file beside a program; cmd.exe never sees what we pass.
func TestAShimIsSteppedOver(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, `node_modules\x\cli.exe`)
	require.NoError(t, os.MkdirAll(filepath.Dir(program), 0o700))
	raw, err := os.ReadFile(self())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, raw, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "node.exe"), raw, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, `node_modules\x\cli.js`), nil, 0o600))
	for name, text := range map[string]string{
		"cli.cmd":    "@ECHO off\r\n\"%dp0%\\node_modules\\x\\cli.exe\"   %*\r\n",
		"script.cmd": "@ECHO off\r\n\"%_prog%\"  \"%dp0%\\node_modules\\x\\cli.js\" %*\r\n",
		"cli":        "#!/bin/sh\n", // npm leaves that one, too
		"other.cmd":  "@echo off\r\nfoo %*\r\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	hostile := []string{`a & calc.exe`, `%PATH%`, `say "hi"`, `tail\`, `^|>x`}
	start := func(name string) (proc.Exit, string) {
		var out bytes.Buffer
		env := []string{roleName + "=says", "SystemRoot=" + os.Getenv("SystemRoot"), "Path=" + dir}
		exit := proc.Starter{}.Start(proc.Spec{
			Argv: append([]string{name}, hostile...), Env: env, Mark: "m.1", Stdout: &out, Stderr: &out,
		}).Wait()
		return exit, out.String()
	}
	exit, out := start("cli")
	require.Equal(t, proc.Exit{}, exit)
	require.Equal(t, fmt.Sprintf("%q %q\n", hostile, "m.1"), out)
	exit, out = start("script")
	require.Equal(t, proc.Exit{}, exit)
	require.Equal(t, fmt.Sprintf("%q %q\n", append([]string{filepath.Join(dir, `node_modules\x\cli.js`)}, hostile...), "m.1"), out)
	exit, _ = start("other")
	require.Equal(t, "not_executable", exit.NotStarted)
	require.Contains(t, exit.Message, "batch file")
	require.NoError(t, os.Remove(filepath.Join(dir, "node.exe")))
	exit, _ = start("script")
	require.Contains(t, exit.Message, "needs node", "the agent's own path is not that of the program")
	_, code, message := proc.Resolve("other", "", []string{"PATH=" + dir})
	require.Equal(t, "not_executable", code, message)
}
