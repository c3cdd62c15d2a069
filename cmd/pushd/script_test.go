package main_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestSessions plays testdata/script: each file is what a person types and sees.
//
//	serve key=value …    starts a server for the script and names it in PUSHD_URL
//	kill9                ends it as a power cut would; serve starts it again on its data
//	exits CODE COMMAND   runs a command and wants that exit status
func TestSessions(t *testing.T) {
	t.Parallel()
	servers := map[string]*daemon{} // by script; each uses only its own
	var mu sync.Mutex
	at := func(ts *testscript.TestScript, d *daemon) *daemon {
		mu.Lock()
		defer mu.Unlock()
		if d != nil {
			servers[ts.Name()] = d
		}
		return servers[ts.Name()]
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"serve": func(ts *testscript.TestScript, _ bool, args []string) {
				d, err := start(ts.MkAbs("data"), args...)
				ts.Check(err)
				ts.Defer(func() { ts.Check(d.stop()) })
				ts.Check(d.ready())
				ts.Setenv("PUSHD_URL", d.base)
				at(ts, d)
			},
			"kill9": func(ts *testscript.TestScript, _ bool, _ []string) { at(ts, nil).kill() },
			"exits": exits,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}
