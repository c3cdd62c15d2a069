package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"pushd/cmd/pushd/settings"
	"pushd/server/api"
)

// demoSettings are short times, so that a loss is seen in a blink.
var demoSettings = []string{
	"stream.heartbeat=1s", "stream.disconnect_grace=500ms", "stream.reconnect_grace=2s",
	"watchdog.orphan_timeout=700ms", "watchdog.scan_interval=1s", "watchdog.max_resends=1",
	"policy.error_delay=300ms", "policy.max_attempts=2",
}

func demoCommand(sh *shell) *cobra.Command {
	var once bool
	var listen string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See an action delivered, lost, resent, failed and redriven, in a minute",
		Long: `Start a server in a folder of its own with three simulated machines: steady
works, flaky loses its stream in the middle of an event, broken fails. What
happens is told line by line; then the server stays until Ctrl-C, and steady
answers whatever you push to it.`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := sh.demo(cmd.Context(), listen, once)
			if errors.Is(err, context.Canceled) {
				return nil // Ctrl-C is how it ends
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "end after the story instead of staying")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "where the server listens")
	return cmd
}

// demo runs a whole server and tells the story against it.
func (sh *shell) demo(ctx context.Context, listen string, once bool) error {
	dir, err := os.MkdirTemp("", "pushd-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	loaded, err := settings.Load(settings.Sources{Set: append([]string{"listen=" + listen, "data_dir=" + dir}, demoSettings...)})
	if err != nil {
		return err
	}
	svc, err := newService(ctx, loaded, zerolog.New(sh.err).Level(zerolog.ErrorLevel))
	if err != nil {
		return err
	}
	parts := &actors{}
	parts.add("server", svc.run)
	parts.add("story", func(ctx context.Context) error {
		base := "http://" + svc.listener.Addr().String()
		t := newTale(sh, base)
		if err := t.tell(ctx); err != nil || once {
			return err
		}
		t.say("", "That is all. The server stays at %s until Ctrl-C; in another terminal:", base)
		sh.say("\n  pushctl -s %s push steady '{\"hello\":1}' --wait\n  pushctl -s %s ls\n", base, base)
		return t.stay(ctx)
	})
	return parts.run(ctx)
}

// tale is the story and those who play in it.
type tale struct {
	sh    *shell
	c     *api.Client
	began time.Time
}

func newTale(sh *shell, base string) *tale {
	return &tale{sh: sh, c: &api.Client{Base: base}, began: time.Now()}
}

// say tells one thing that happened, and to whom.
func (t *tale) say(who, format string, values ...any) {
	fmt.Fprintf(t.sh.out, "%6.2fs  %-7s %s\n", time.Since(t.began).Seconds(), who, fmt.Sprintf(format, values...))
}

// tell plays the scenes one after the other. Each waits for what it tells and
// checks it against the server's own record, so that a story told is a story
// that happened.
func (t *tale) tell(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := t.c.Ready(ctx); err != nil {
		return err
	}
	t.say("server", "is ready at %s: every push and every ack is on disk before it is answered", t.c.Base)
	for _, scene := range []func(context.Context) error{t.itWorks, t.itIsLost, t.itFails, t.itFallsSilent} {
		if err := scene(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	return nil
}

func (t *tale) itWorks(ctx context.Context) error {
	steady := newPlayer(t, "steady")
	defer steady.start(ctx, steady.work)()
	if err := steady.online(ctx); err != nil {
		return err
	}
	id, err := t.push(ctx, "steady", "greet")
	if err != nil {
		return err
	}
	return t.expect(ctx, id, func(r api.Record) bool { return r.State == "done" && r.Deliveries == 1 })
}

func (t *tale) itIsLost(ctx context.Context) error {
	flaky := newPlayer(t, "flaky")
	flaky.cutNext = true
	defer flaky.start(ctx, flaky.work)()
	if err := flaky.online(ctx); err != nil {
		return err
	}
	id, err := t.push(ctx, "flaky", "render")
	if err != nil {
		return err
	}
	if err := t.expect(ctx, id, func(r api.Record) bool { return r.State == "done" && r.Deliveries == 2 && r.ResentCount == 1 }); err != nil {
		return err
	}
	t.say("server", "sent it twice and counts one resend, no failed attempt: it was lost on the way, not in the work")
	return nil
}

func (t *tale) itFails(ctx context.Context) error {
	broken := newPlayer(t, "broken")
	stop := broken.start(ctx, broken.fail)
	defer func() { stop() }()
	if err := broken.online(ctx); err != nil {
		return err
	}
	id, err := t.push(ctx, "broken", "print")
	if err != nil {
		return err
	}
	if err := t.expect(ctx, id, func(r api.Record) bool { return r.State == "failed" && r.Attempts == 2 && r.ResentCount == 0 }); err != nil {
		return err
	}
	t.say("server", "keeps it as a dead letter; an operator mends the machine and says redrive")
	stop()
	stop = broken.start(ctx, broken.work)
	if _, err := t.c.Redrive(ctx, id); err != nil {
		return err
	}
	return t.expect(ctx, id, func(r api.Record) bool { return r.State == "done" && r.Deliveries == 3 })
}

func (t *tale) itFallsSilent(ctx context.Context) error {
	broken := newPlayer(t, "broken")
	defer broken.start(ctx, broken.ignore)()
	if err := broken.online(ctx); err != nil {
		return err
	}
	id, err := t.push(ctx, "broken", "hang")
	if err != nil {
		return err
	}
	if err := t.expect(ctx, id, func(r api.Record) bool { return r.State == "gave_up" && r.Deliveries == 2 && r.Attempts == 0 }); err != nil {
		return err
	}
	t.say("server", "nobody ever answered for it: gave_up, which is not failed, and is kept to be redriven too")
	return nil
}

// stay lets steady answer whatever comes, until ctx ends.
func (t *tale) stay(ctx context.Context) error {
	defer newPlayerAt(t, "steady").startWorking(ctx)()
	<-ctx.Done()
	return ctx.Err()
}

// push pushes an action and says so.
func (t *tale) push(ctx context.Context, machine, kind string) (string, error) {
	id := machine + "-" + kind
	t.say("you", "push %s to %s", id, machine) // before it is: the machine may well be quicker than the answer
	_, err := t.c.Push(ctx, api.Push{ActionID: id, MachineID: machine, SessionID: "demo", Type: kind, OnDead: "skip"})
	return id, err
}

// expect waits until an action is settled and checks its record.
func (t *tale) expect(ctx context.Context, id string, holds func(api.Record) bool) error {
	r, err := t.c.Action(ctx, id, time.Minute)
	if err != nil {
		return err
	}
	if !holds(r) {
		return fmt.Errorf("%s is %s after %d deliveries, %d resends and %d attempts, which is not the story", id, r.State, r.Deliveries, r.ResentCount, r.Attempts)
	}
	t.say("server", "%s is %s", id, r.State)
	return nil
}
