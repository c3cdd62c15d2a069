package proc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// MarkName is the variable by which the processes of a run are known.
const MarkName = "PUSHD_RUN"

// waitDelay bounds how long pipes are read after the end of the program.
const waitDelay = 5 * time.Second

// Spec is a program to run.
type Spec struct {
	Argv   []string
	Env    []string // without the mark
	Dir    string
	Mark   string    // value of MarkName
	Stdin  io.Reader // nil: the null device; else it is written and closed
	Stdout io.Writer
	Stderr io.Writer
}

// Exit is how a program ended.
type Exit struct {
	Code       int    // of the program; a negative one is the signal that killed it
	NotStarted string // the program never ran: not_found, not_executable, start
	Message    string // of NotStarted
	Swept      int    // processes that had to be killed after it
	Left       int    // that would not die
}

// Starter starts programs.
type Starter struct {
	// Supervisor is the command line that calls Supervise, on Linux.
	Supervisor []string
}

// Process is a program that was started.
type Process interface {
	// Stop asks the program to end, as the system does it.
	Stop()
	// Kill ends the whole tree.
	Kill()
	// Wait returns when the tree is gone and its output was read, or waited for
	// long enough.
	Wait() Exit
	// CPU is the time that the tree has used so far, 0 where that is unknown.
	CPU() time.Duration
}

// Find resolves a program's name as it will be started, in the path of env; its
// errors are told by NotStarted codes.
func Find(name, dir string, env []string) (path, code, message string) {
	if strings.ContainsAny(name, `/\`) {
		path = name
		if !filepath.IsAbs(path) && dir != "" {
			path = filepath.Join(dir, path)
		}
		path, err := exec.LookPath(path)
		return found(path, name, err)
	}
	path, err := lookIn(name, variable(env, "PATH"))
	return found(path, name, err)
}

// Resolve is Find and, where a shim was found, the program behind it with the
// arguments it puts first.
func Resolve(name, dir string, env []string) (argv []string, code, message string) {
	path, code, message := Find(name, dir, env)
	if code != "" {
		return nil, code, message
	}
	if argv, message = unshim(path, env); message != "" {
		return nil, "not_executable", message
	}
	return argv, "", ""
}

func found(path, name string, err error) (string, string, string) {
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		abs, absErr := filepath.Abs(path)
		if absErr != nil {
			return path, "", ""
		}
		return abs, "", ""
	case errors.Is(err, fs.ErrPermission):
		return "", "not_executable", name + ": permission denied"
	}
	return "", "not_found", name + ": not found"
}

// lookIn looks for a program in a path that need not be the agent's own.
func lookIn(name, path string) (string, error) {
	denied := false
	for _, dir := range filepath.SplitList(path) {
		if dir == "" || !filepath.IsAbs(dir) {
			continue // a program of the working directory is nobody's choice
		}
		found, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return found, nil
		}
		denied = denied || errors.Is(err, fs.ErrPermission)
	}
	if denied {
		return "", fs.ErrPermission
	}
	return "", exec.ErrNotFound
}

func variable(env []string, name string) string {
	for _, kv := range env {
		if key, value, ok := strings.Cut(kv, "="); ok && sameName(key, name) {
			return value
		}
	}
	return ""
}

// checkDir tells a working directory that is not there from a missing program.
func checkDir(dir string) (code, message string) {
	if dir == "" {
		return "", ""
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "not_found", "working directory: " + err.Error()
	}
	if !info.IsDir() {
		return "not_found", "working directory: " + dir + " is no directory"
	}
	return "", ""
}

// never is a program that was not started.
type never struct{ exit Exit }

func (never) Stop()              {}
func (never) Kill()              {}
func (n never) Wait() Exit       { return n.exit }
func (never) CPU() time.Duration { return 0 }

func notStarted(code, message string) Process { return never{Exit{NotStarted: code, Message: message}} }
