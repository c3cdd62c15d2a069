package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supervise is the supervisor's whole life: it runs the one program that it is
// told on descriptor 3, adopts what loses its parent, and ends all of it when the
// program ends, when it is told to, or when the agent is gone. It reports on
// descriptor 4 and returns an exit code.
func Supervise() int {
	control, report := os.NewFile(3, "control"), os.NewFile(4, "report")
	if control == nil || report == nil {
		fmt.Fprintln(os.Stderr, "this command is the agent's own; it is not for people")
		return 2
	}
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	say := func(format string, args ...any) { fmt.Fprintf(report, format+"\n", args...) }
	in := bufio.NewReader(control)
	o, err := readOrder(in)
	if err != nil {
		say("failed start %v", err)
		return 1
	}
	// Orphans of the tree come to us and not to init.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		say("failed start subreaper: %v", err)
		return 1
	}
	leader, err := syscall.ForkExec(o.Path, o.Argv, &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		say("failed %s %s: %v", startCode(err), o.Path, err)
		return 1
	}
	letGoOfPipes()
	exits := make(chan syscall.WaitStatus, 1)
	go reap(leader, exits)
	orders := make(chan string)
	go readOrders(in, orders)
	code := watch(leader, exits, orders)
	say("exit %d", code)
	swept, left := sweepTree(o.Mark)
	say("swept %d %d", swept, left)
	return 0
}

func readOrder(in *bufio.Reader) (o order, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return o, err
	}
	return o, json.Unmarshal(line, &o)
}

func startCode(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "not_found"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOEXEC):
		return "not_executable"
	}
	return "start"
}

// letGoOfPipes keeps the agent from waiting for us: the pipes end with the tree.
func letGoOfPipes() {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		null = -1
	}
	for fd := range 3 {
		if null < 0 || unix.Dup3(null, fd, 0) != nil {
			_ = unix.Close(fd)
		}
	}
}

// reap waits for everything that is or becomes our child.
func reap(leader int, exits chan<- syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil: // none now; an orphan may come yet
			time.Sleep(5 * time.Millisecond)
		case pid == leader:
			exits <- status
		}
	}
}

func readOrders(in *bufio.Reader, orders chan<- string) {
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			if err != io.EOF {
				line = ""
			}
			orders <- "kill" // the agent is gone
			return
		}
		orders <- strings.TrimSpace(line)
	}
}

// watch returns the program's exit code when it has ended.
func watch(leader int, exits <-chan syscall.WaitStatus, orders <-chan string) int {
	for {
		select {
		case status := <-exits:
			if status.Signaled() {
				return -int(status.Signal())
			}
			return status.ExitStatus()
		case word := <-orders:
			if word == "stop" {
				_ = unix.Kill(leader, unix.SIGTERM) // gone already is as good
			} else {
				_ = unix.Kill(-leader, unix.SIGKILL)
				_ = unix.Kill(leader, unix.SIGKILL)
			}
		}
	}
}
