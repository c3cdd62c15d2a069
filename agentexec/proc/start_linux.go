package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// order is what the supervisor is told, as one line of JSON.
type order struct {
	Path string   `json:"path"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir,omitempty"`
	Mark string   `json:"mark"`
}

// supervised is a program below its supervisor.
type supervised struct {
	cmd     *exec.Cmd
	mark    string
	control *os.File // commands to the supervisor; its end is one, too

	mu     sync.Mutex
	closed bool
	report chan Exit
}

// Start starts a program. That it could not be started is told by Wait.
func (s Starter) Start(spec Spec) Process {
	if code, message := checkDir(spec.Dir); code != "" {
		return notStarted(code, message)
	}
	path, code, message := Find(spec.Argv[0], spec.Dir, spec.Env)
	if code != "" {
		return notStarted(code, message)
	}
	p, err := s.supervise(spec, order{
		Path: path, Argv: spec.Argv, Dir: spec.Dir, Mark: spec.Mark,
		Env: append(append([]string(nil), spec.Env...), MarkName+"="+spec.Mark),
	})
	if err != nil {
		return notStarted("start", err.Error())
	}
	return p
}

func (s Starter) supervise(spec Spec, o order) (Process, error) {
	line, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		_, _ = controlR.Close(), controlW.Close()
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), s.Supervisor[0], s.Supervisor[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = spec.Stdin, spec.Stdout, spec.Stderr
	cmd.ExtraFiles = []*os.File{controlR, reportW} // 3 and 4
	cmd.Env = supervisorEnv()
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's Ctrl-C is for the agent
	err = cmd.Start()
	_, _ = controlR.Close(), reportW.Close()
	if err != nil {
		_, _ = controlW.Close(), reportR.Close()
		return nil, err
	}
	p := &supervised{cmd: cmd, mark: spec.Mark, control: controlW, report: make(chan Exit, 1)}
	go func() { p.report <- readReport(reportR) }()
	p.tell(string(line) + "\n")
	return p, nil
}

// supervisorEnv is what a Go program needs, and no secret.
func supervisorEnv() []string {
	env := []string{"GOMAXPROCS=1", "GOGC=50"}
	for _, name := range []string{"AGENTEXEC_SUPERVISOR", "GOCOVERDIR", "TMPDIR"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// readReport reads what the supervisor says until it is gone.
func readReport(r *os.File) (exit Exit) {
	defer r.Close()
	exit.NotStarted, exit.Message = "start", "the supervisor ended before its program"
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "failed":
			exit.NotStarted, exit.Message, _ = strings.Cut(rest, " ")
		case "exit":
			if _, err := fmt.Sscan(rest, &exit.Code); err == nil {
				exit.NotStarted, exit.Message = "", ""
			}
		case "swept":
			_, _ = fmt.Sscan(rest, &exit.Swept, &exit.Left) // what is missing stays 0
		}
	}
	return exit
}

func (p *supervised) tell(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		// The order fits a pipe's buffer but for huge environments, and is read
		// first thing; a supervisor that is gone is seen by Wait.
		_, _ = p.control.WriteString(text)
	}
}

func (p *supervised) Stop() { p.tell("stop\n") }
func (p *supervised) Kill() { p.tell("kill\n") }

// Wait also sweeps by the mark: a supervisor that was itself killed has not. It
// does so before it waits for the pipes, which a survivor would hold.
func (p *supervised) Wait() Exit {
	_, err := p.cmd.Process.Wait()
	exit := <-p.report
	p.mu.Lock()
	p.closed = true
	_ = p.control.Close()
	p.mu.Unlock()
	if err != nil && exit.NotStarted != "" {
		exit.Message += ": " + err.Error()
	}
	swept, left := Sweep(func(mark string) bool { return mark == p.mark })
	_ = p.cmd.Wait() // complains that it was waited for; reads the pipes to their end
	exit.Swept += swept
	exit.Left += left
	return exit
}

func (p *supervised) CPU() time.Duration { return cpuOf(p.cmd.Process.Pid) }
