package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a server in a process of its own, so that its memory and CPU can be
// told from the load's.
type child struct {
	cmd  *exec.Cmd
	base string
	done chan struct{}
}

// startChild starts `serve` on a free loopback port and a folder of its own
// under dir, and waits until it says where it listens.
func startChild(ctx context.Context, dir string, set ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	data, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return nil, err
	}
	line := []string{"serve", "--listen", "127.0.0.1:0", "--data-dir", data, "--set", "log.format=json", "--set", "stream.heartbeat=30s"}
	for _, kv := range set {
		line = append(line, "--set", kv)
	}
	cmd := exec.CommandContext(ctx, self, line...)
	cmd.Env = withoutSettings(os.Environ())
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	said := bufio.NewReader(out)
	c.base, err = address(said)
	go func() {
		defer close(c.done)
		_, _ = io.Copy(io.Discard, said)
		_ = cmd.Wait() // it was told to end, or the caller sees its silence
	}()
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// withoutSettings drops what would change the server that is measured.
func withoutSettings(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "PUSHD_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// address reads the log until the line that says where the server listens.
func address(log *bufio.Reader) (string, error) {
	last := "nothing"
	for {
		text, err := log.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("bench: the server ended before it listened; it said: %s", last)
		}
		var entry struct {
			Address string `json:"address"`
		}
		if json.Unmarshal([]byte(text), &entry) == nil && entry.Address != "" {
			return "http://" + entry.Address, nil
		}
		last = strings.TrimSpace(text)
	}
}

func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may be gone already
	select {
	case <-c.done:
	case <-time.After(15 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.done
	}
}

// childUsage is what the server has used so far.
type childUsage struct {
	cpu     time.Duration
	commits float64
}

func (c *child) usage() (childUsage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	page, err := readAll(ctx, c.base+"/metrics")
	if err != nil {
		return childUsage{}, err
	}
	commits, ok := metric(page, "pushd_store_commits_total")
	if !ok {
		return childUsage{}, errors.New("bench: /metrics has no pushd_store_commits_total")
	}
	return childUsage{cpu: c.cpu(), commits: commits}, nil
}

// clockTick is the unit of /proc/PID/stat, 1/100 s on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpu is user and system time of the server, where /proc tells; else 0.
func (c *child) cpu() time.Duration {
	raw, err := os.ReadFile(c.proc("stat"))
	if err != nil {
		return 0
	}
	// The name in parentheses may hold spaces; the fields after it do not.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick
}

// resident is the server's resident memory in bytes.
func (c *child) resident() (float64, error) {
	raw, err := os.ReadFile(c.proc("status"))
	if err != nil {
		return 0, fmt.Errorf("bench: resident memory is read from /proc, which is not here: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024, err
		}
	}
	return 0, errors.New("bench: /proc says nothing of VmRSS")
}

func (c *child) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(c.cmd.Process.Pid), name)
}
