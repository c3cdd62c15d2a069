package work

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"time"

	"pushd/agentexec/proc"
)

// Preflight tells whether work can begin, without doing any of it: the program is
// there, tells its version, and the service it needs takes a connection.
type Preflight struct {
	Version []string // arguments; none: it is enough to find the program
	For     time.Duration
	Connect string // HOST:PORT; empty: none
}

// versionFor bounds a --version where nothing else is said.
const versionFor = 5 * time.Second

func (p Preflight) check(ctx context.Context, r *Runner, command []string, dir string) error {
	if len(command) > 0 {
		env := childEnv(r.Environ, nil, nil, r.Secrets(), nil)
		if _, code, message := proc.Resolve(command[0], dir, env); code != "" {
			return fmt.Errorf("%s", message)
		}
		if len(p.Version) > 0 {
			if err := p.version(ctx, r, command[0], dir, env); err != nil {
				return err
			}
		}
	}
	return p.connect(ctx)
}

// version runs the program with its version argument. It is run as any other: it
// may be a script that hangs, or leaves something behind.
func (p Preflight) version(ctx context.Context, r *Runner, program, dir string, env []string) error {
	limit := p.For
	if limit <= 0 {
		limit = versionFor
	}
	var out bytes.Buffer
	process := r.Start(proc.Spec{
		Argv: append([]string{program}, p.Version...), Env: env, Dir: dir, Mark: "preflight." + rand.Text(),
		Stdout: &limited{buf: &out}, Stderr: &limited{buf: new(bytes.Buffer)},
	})
	done := make(chan proc.Exit, 1)
	go func() { done <- process.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	late := false
	select {
	case exit := <-done:
		return told(program, exit)
	case <-timer.C:
		late = true
	case <-ctx.Done():
	}
	process.Kill()
	<-done
	if late {
		return fmt.Errorf("%s %s: no answer within %v", program, strings.Join(p.Version, " "), limit)
	}
	return ctx.Err()
}

func told(program string, exit proc.Exit) error {
	switch {
	case exit.NotStarted != "":
		return fmt.Errorf("%s", exit.Message)
	case exit.Code != 0:
		return fmt.Errorf("%w: %s exited with %d", errNoVersion, program, exit.Code)
	}
	return nil
}

func (p Preflight) connect(ctx context.Context) error {
	if p.Connect == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionFor)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.Connect)
	if err != nil {
		return err
	}
	return conn.Close()
}

// limited takes any amount and keeps a little.
type limited struct{ buf *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := 4<<10 - l.buf.Len(); room > 0 {
		l.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
