//go:build !linux && !windows

package proc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// Supervise is for Linux only.
func Supervise() int { return 2 }

// group is a program with its process group: all that is known of a tree where
// there is neither a subreaper nor a job object. What leaves the group escapes.
type group struct{ cmd *exec.Cmd }

// Start starts a program. That it could not be started is told by Wait.
func (s Starter) Start(spec Spec) Process {
	if code, message := checkDir(spec.Dir); code != "" {
		return notStarted(code, message)
	}
	path, code, message := Find(spec.Argv[0], spec.Dir, spec.Env)
	if code != "" {
		return notStarted(code, message)
	}
	cmd := exec.CommandContext(context.Background(), path, spec.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = spec.Stdin, spec.Stdout, spec.Stderr, spec.Dir
	cmd.Env = append(append([]string(nil), spec.Env...), MarkName+"="+spec.Mark)
	cmd.WaitDelay = waitDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return notStarted("start", fmt.Sprint(err))
	}
	return group{cmd}
}

func (g group) Stop() { _ = g.cmd.Process.Signal(syscall.SIGTERM) }
func (g group) Kill() { _ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }

func (g group) Wait() (exit Exit) {
	err := g.cmd.Wait()
	g.Kill()
	exit.Code = g.cmd.ProcessState.ExitCode()
	if status, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Code = -int(status.Signal())
	}
	if err != nil && !errors.As(err, new(*exec.ExitError)) && !errors.Is(err, exec.ErrWaitDelay) {
		exit.Message = err.Error()
	}
	return exit
}

func (g group) CPU() time.Duration { return 0 }

// SweepOld knows no marks here.
func SweepOld(string) (swept, left int) { return 0, 0 }
