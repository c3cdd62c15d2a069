package work

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pushd/agentexec/output"
	"pushd/agentexec/proc"
	"pushd/agentexec/task"
	"pushd/policy"
)

// keptRuns is how many run folders are kept.
const keptRuns = 50

// Runner runs programs for handlers.
type Runner struct {
	Start   func(proc.Spec) proc.Process
	Dir     string          // of the run folders, absolute
	Environ []string        // the agent's own environment
	Secrets func() []string // what no output may show, and no child see
	Now     func() time.Time
}

// plan is one program to run.
type plan struct {
	argv    func(runDir string) []string // the folder is there
	dir     string
	pass    []string
	set     map[string]string
	files   map[string][]byte // put into the run folder before the start
	stdin   []byte            // nil: none
	adapter Adapter
	windows Windows
	keep    int // bytes of standard output that head gives
}

// ended is what is left of a run.
type ended struct {
	exit     proc.Exit
	stopped  policy.Stop
	window   string // what cut it
	terminal policy.Terminal
	session  string
	text     string
	textCut  bool
	capture  *output.Capture
	took     time.Duration
	at       time.Time
}

// activityFile is a file in the run folder whose growth is a sign of life.
const activityFile = "activity"

// run starts a program and sees it to its end.
func (r *Runner) run(ctx context.Context, job task.Job, pulse *task.Pulse, p plan) (ended, error) {
	begun := r.Now()
	dir, err := r.folder(job, p.files)
	if err != nil {
		return ended{}, err
	}
	read := newReading(p.adapter, pulse)
	capture := output.NewCapture(output.Options{
		Dir: dir, Secrets: r.Secrets(), Keep: p.keep, Line: read.line, Wanted: read.wanted,
		Bump: func() { pulse.Bump(r.Now()) },
		Note: r.noter(p.adapter, pulse),
	})
	process := r.Start(proc.Spec{
		Argv: p.argv(dir), Env: r.env(job, p, dir), Dir: p.dir, Mark: job.RunID,
		Stdin: input(p.stdin), Stdout: capture.Stdout, Stderr: capture.Stderr,
	})
	e := ended{capture: capture}
	over := make(chan struct{})
	go func() {
		defer close(over)
		e.exit = process.Wait()
	}()
	e.stopped, e.window = attend(ctx, over, p.windows, pulse, signs{
		open: read.toolOpen, succeeded: read.succeeded,
		probe: r.prober(process, p.adapter, dir, read),
	}, r.Now)
	if e.stopped != policy.NotStopped {
		end(process, over, p.windows.StopGrace)
	}
	<-over
	capture.Close()
	e.terminal, e.session, e.text, e.textCut = read.summary()
	e.at = r.Now()
	e.took = e.at.Sub(begun)
	return e, nil
}

func input(stdin []byte) io.Reader {
	if stdin == nil {
		return nil
	}
	return bytes.NewReader(stdin)
}

// end asks a program to end, and ends it when it does not.
func end(process proc.Process, over <-chan struct{}, grace time.Duration) {
	process.Stop()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		process.Kill()
	}
}

// noter shows the last line of a program that has no better word for what it does.
func (r *Runner) noter(a Adapter, pulse *task.Pulse) func([]byte) {
	if len(a.Note) > 0 {
		return nil
	}
	return func(line []byte) {
		if percent, note, ok := progressOf(line); ok {
			if percent != nil {
				pulse.Percent(*percent)
			}
			if note == "" {
				return
			}
			line = []byte(note)
		}
		if text := lastLine(string(line)); text != "" {
			pulse.Note(text)
		}
	}
}

// progressOf reads a line by which a program tells how far it is:
// {"progress":{"percent":40,"note":"…"}}.
func progressOf(line []byte) (percent *float64, note string, ok bool) {
	if !bytes.HasPrefix(line, []byte(`{"progress"`)) {
		return nil, "", false
	}
	var p struct {
		Progress *struct {
			Percent *float64 `json:"percent"`
			Note    string   `json:"note"`
		} `json:"progress"`
	}
	if json.Unmarshal(line, &p) != nil || p.Progress == nil {
		return nil, "", false
	}
	return p.Progress.Percent, p.Progress.Note, true
}

// prober looks for life where nothing is printed: first at what the program
// writes of itself, then, while a tool is open, at the time its tree uses. That
// alone is weak: a loop that hangs uses time, too.
func (r *Runner) prober(process proc.Process, a Adapter, dir string, read *reading) func(bool) bool {
	var size int64
	var used time.Duration
	return func(toolOpen bool) bool {
		_, session, _, _ := read.summary()
		now := sizeOf(filepath.Join(dir, activityFile), r.transcript(a, session))
		if grew := now != size; grew {
			size = now
			return true
		}
		if !toolOpen {
			return false
		}
		cpu := process.CPU()
		worked := cpu > used+leastCPU
		used = max(cpu, used)
		return worked
	}
}

// leastCPU is what a look must find to count: waking up costs something as well.
const leastCPU = 50 * time.Millisecond

func (r *Runner) transcript(a Adapter, session string) string {
	if a.Transcript == "" || !plainID(session) {
		return ""
	}
	return fill(a.Transcript, map[string]string{"session": session, "home": home(r.Environ)})
}

func home(env []string) string {
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); name == "HOME" || name == "USERPROFILE" {
			return value
		}
	}
	return ""
}

func sizeOf(file, glob string) (sum int64) {
	files := []string{file}
	if glob != "" {
		found, err := filepath.Glob(glob)
		if err == nil {
			files = append(files, found...)
		}
	}
	for _, name := range files {
		if info, err := os.Stat(name); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// folder makes the run's own, with its files, and drops the oldest ones.
func (r *Runner) folder(job task.Job, files map[string][]byte) (string, error) {
	_, name, _ := strings.Cut(job.RunID, ".")
	if name == "" {
		name = job.RunID
	}
	dir := filepath.Join(r.Dir, r.Now().UTC().Format("20060102T150405.000Z")+"-"+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	r.prune()
	about, err := json.Marshal(map[string]any{
		"action_id": job.ActionID, "delivery": job.Delivery, "type": job.Type, "run": job.RunID, "begun": r.Now().UTC(),
	})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "run.json"), about, 0o600); err != nil {
		return "", err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// prune keeps the newest folders: their names sort by time. What cannot be
// removed stays, and is tried again at the next run.
func (r *Runner) prune() {
	entries, err := os.ReadDir(r.Dir)
	if err != nil || len(entries) <= keptRuns {
		return
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	for _, name := range names[:len(names)-keptRuns] {
		_ = os.RemoveAll(filepath.Join(r.Dir, name))
	}
}

func (r *Runner) env(job task.Job, p plan, dir string) []string {
	set := map[string]string{
		"PUSHD_ACTION_ID": job.ActionID, "PUSHD_ACTION_TYPE": job.Type, "PUSHD_SESSION_ID": job.SessionID,
		"PUSHD_RUN_DIR": dir, "PUSHD_ACTIVITY_FILE": filepath.Join(dir, activityFile),
	}
	for name := range p.files {
		if name == payloadFile {
			set["PUSHD_PAYLOAD_FILE"] = filepath.Join(dir, name)
		}
	}
	for _, all := range []map[string]string{p.adapter.SetEnv, p.set} {
		for name, value := range all {
			set[name] = fill(value, map[string]string{"run_dir": dir, "activity_file": filepath.Join(dir, activityFile)})
		}
	}
	pass := append(append([]string(nil), p.pass...), p.adapter.PassEnv...)
	return childEnv(r.Environ, pass, p.adapter.Unset, r.Secrets(), set)
}
