package work

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"pushd/agentexec/task"
	"pushd/policy"
)

const (
	payloadFile = "payload.json"
	keepStdout  = maxResult
)

// Program runs a program for each action. The payload goes in by standard input
// or by a file that PUSHD_PAYLOAD_FILE names, never by an argument: those are for
// everyone on the machine to see, and have their limits.
type Program struct {
	Runner    *Runner
	Command   []string
	ByFile    bool
	ASCII     bool   // the payload is written with escapes: \u00e9
	Script    string // a file that Ready looks for, besides the program
	Dir       string
	PassEnv   []string
	SetEnv    map[string]string
	Windows   Windows
	Preflight Preflight
}

// Run runs it once.
func (p *Program) Run(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict {
	plan := plan{
		argv: func(string) []string { return p.Command }, dir: p.Dir, pass: p.PassEnv, set: p.SetEnv,
		windows: p.Windows.WithDefaults(), keep: keepStdout,
	}
	payload := []byte(job.Payload)
	if len(payload) == 0 {
		payload = []byte("null")
	}
	if p.ASCII {
		payload = ascii(payload)
	}
	if p.ByFile {
		plan.files = map[string][]byte{payloadFile: payload}
	} else {
		plan.stdin = payload
	}
	e, err := p.Runner.run(ctx, job, pulse, plan)
	if err != nil {
		return noFolder(err)
	}
	e.text, e.textCut = e.ownText()
	return e.verdict(job, "", e.ownJSON())
}

// Ready finds the program, and the script it is to run.
func (p *Program) Ready(ctx context.Context) error {
	if p.Script != "" {
		if _, err := os.Stat(p.Script); err != nil {
			return err
		}
	}
	return p.Preflight.check(ctx, p.Runner, p.Command, p.Dir)
}

// noFolder: a disk that is full, or not ours to write, is no fault of the work.
func noFolder(err error) task.Verdict {
	return task.Failed(policy.Transient, "run_dir", "the run's folder could not be made: "+err.Error())
}

// fixed makes paths of a profile absolute: a service's working directory is the
// system's.
func fixed(base, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// Absolute makes a path of a settings file absolute, from the file's own folder.
func Absolute(base, path string) string { return fixed(base, path) }

var errNoVersion = fmt.Errorf("work: the program does not tell its version")
