package work

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"

	"pushd/agentexec/proc"
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

// Ready finds the program.
func (p *Program) Ready(ctx context.Context) error {
	return p.Preflight.check(ctx, p.Runner, p.Command, p.Dir)
}

// noFolder: a disk that is full, or not ours to write, is no fault of the work.
func noFolder(err error) task.Verdict {
	return task.Failed(policy.Transient, "run_dir", "the run's folder could not be made: "+err.Error())
}

// PowerShell runs a script file with the payload on its standard input.
func PowerShell(r *Runner, script string, p Program) *Program {
	p.Runner = r
	p.Command = append(powershell(r.Environ), "-NoProfile", "-NonInteractive")
	if runtime.GOOS == "windows" {
		p.Command = append(p.Command, "-ExecutionPolicy", "Bypass")
	}
	p.Command = append(p.Command, "-File", script)
	return &p
}

// powershell is PowerShell 7 where it is installed, on Windows else the one that
// came with it.
func powershell(env []string) []string {
	for _, name := range []string{"pwsh", "powershell"} {
		if path, code, _ := proc.Find(name, "", env); code == "" {
			return []string{path}
		}
	}
	return []string{"pwsh"}
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
