package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

// pushFlags are the flags of push that go into the action.
type pushFlags struct {
	action     api.Push
	payload    string
	text       bool
	atMostOnce bool
	labels     []string
	delay, ttl time.Duration
	orphan     time.Duration
	inactivity time.Duration
	ceiling    time.Duration
	resends    int
	attempts   int
	wait       bool
}

func pushCommand(sh *shell) *cobra.Command {
	f := &pushFlags{}
	cmd := &cobra.Command{
		Use:     "push MACHINE [PAYLOAD|-|@FILE]",
		Aliases: []string{"send"},
		Short:   "Push an action to a machine",
		Long: `Push an action to a machine and print its id. The payload is JSON: an argument,
- for standard input, or @FILE. A repeat with the same --id and content is safe:
the server answers with the action it has.

With --wait it stays until the action is settled, shows where it stands on a
terminal, and ends with 8 if the end is not done.`,
		Example: `  pushctl push win-1 '{"open":"calc"}'
  pushctl push win-1 @job.json --type render --session invoices --id render-17
  echo '"hello"' | pushctl push win-1 - --wait --timeout 5m`,
		Args:              args(1, 2),
		ValidArgsFunction: sh.completeMachines,
		RunE: func(cmd *cobra.Command, given []string) error {
			f.action.MachineID = given[0]
			if len(given) > 1 {
				f.payload = given[1]
			}
			return runPush(cmd, sh, f)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *pushFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.action.Type, "type", "t", "job", "what kind of action it is")
	flags.StringVar(&f.action.SessionID, "session", "", "the lane in which it keeps its order")
	flags.StringVar(&f.action.ReplayID, "replay", "", "a label over actions, to pause or cancel together")
	flags.StringVar(&f.action.ActionID, "id", "", "the idempotency key (default: a new UUIDv7)")
	flags.StringVar(&f.action.Target, "target", "", "what it depends on: the breaker's key")
	flags.IntVar(&f.action.Priority, "priority", 0, "0 to 9; higher lanes go first")
	flags.StringVar(&f.action.OnDead, "on-dead", "", "pause (the default) or skip its lane when it fails for good")
	flags.BoolVar(&f.atMostOnce, "at-most-once", false, "never send it again by itself once it may have been received")
	flags.BoolVar(&f.text, "text", false, "the payload is plain text, to be sent as a JSON string")
	flags.StringArrayVar(&f.labels, "label", nil, "key=value; as often as needed")
	flags.DurationVar(&f.delay, "delay", 0, "not before this long from now")
	flags.DurationVar(&f.ttl, "ttl", 0, "not after this long from now")
	flags.DurationVar(&f.orphan, "orphan-timeout", 0, "until its first ack")
	flags.DurationVar(&f.inactivity, "inactivity-timeout", 0, "between its signs of life")
	flags.DurationVar(&f.ceiling, "ceiling", 0, "until it must have ended")
	flags.IntVar(&f.resends, "max-resends", -1, "how often a lost delivery is sent again")
	flags.IntVar(&f.attempts, "max-attempts", -1, "how often it may run")
	flags.BoolVarP(&f.wait, "wait", "w", false, "stay until it is settled (at most --timeout)")
}

func runPush(cmd *cobra.Command, sh *shell, f *pushFlags) error {
	if err := f.complete(sh); err != nil {
		return err
	}
	if f.wait && !cmd.Flags().Changed("timeout") {
		sh.timeout = 24 * time.Hour // --wait waits for work, not for an answer
	}
	return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
		pushed, err := c.Push(ctx, f.action)
		if err != nil {
			return err
		}
		told := fmt.Sprintf("%s for %s", pushed.State, f.action.MachineID)
		switch {
		case pushed.Deduplicated:
			told += ", known already"
		case pushed.Machine == "unknown":
			told += ", which has never subscribed"
		}
		if !f.wait {
			return sh.emit(pushed, func(w io.Writer) {
				fmt.Fprintln(w, pushed.ActionID)
				sh.say("%s", told)
			})
		}
		sh.say("%s %s", pushed.ActionID, told)
		return sh.follow(ctx, c, pushed.ActionID)
	})
}

// complete turns flags into the action.
func (f *pushFlags) complete(sh *shell) error {
	raw, err := sh.payload(f.payload, f.text)
	if err != nil {
		return err
	}
	f.action.Payload = raw
	if f.atMostOnce {
		f.action.Guarantee = "at_most_once"
	}
	for _, label := range f.labels {
		key, value, found := strings.Cut(label, "=")
		if !found {
			return usage("--label %s: write key=value", label)
		}
		if f.action.Labels == nil {
			f.action.Labels = map[string]string{}
		}
		f.action.Labels[key] = value
	}
	for _, d := range []struct {
		value time.Duration
		field **api.Seconds
	}{
		{f.delay, &f.action.DelayS},
		{f.ttl, &f.action.TTLS},
		{f.orphan, &f.action.OrphanTimeoutS},
		{f.inactivity, &f.action.InactivityTimeoutS},
		{f.ceiling, &f.action.CeilingS},
	} {
		if d.value != 0 {
			*d.field = api.S(d.value)
		}
	}
	if f.resends >= 0 {
		f.action.MaxResends = &f.resends
	}
	if f.attempts >= 0 {
		f.action.MaxAttempts = &f.attempts
	}
	return nil
}

// payload reads a JSON value from an argument, standard input or a file.
func (sh *shell) payload(arg string, text bool) (json.RawMessage, error) {
	raw := []byte(arg)
	var err error
	switch {
	case arg == "":
		return nil, nil
	case arg == "-":
		raw, err = io.ReadAll(sh.in)
	case strings.HasPrefix(arg, "@"):
		raw, err = os.ReadFile(arg[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	if text {
		return api.Marshal(string(raw))
	}
	if !json.Valid(raw) {
		return nil, &exitError{code: exitUsage, text: "the payload is not JSON", next: "add --text to send it as a string"}
	}
	return raw, nil
}

// follow waits until an action is settled and tells how it ended.
func (sh *shell) follow(ctx context.Context, c *api.Client, id string) error {
	live := isTerminal(sh.err)
	step := 20 * time.Second
	if live {
		step = time.Second // so that the line moves
	}
	began := time.Now()
	for {
		r, err := c.Action(ctx, id, step)
		if errors.Is(err, context.DeadlineExceeded) {
			return &exitError{code: exitTimedOut, text: id + " is not settled after " + span(time.Since(began)), next: "`pushctl show " + id + "` tells where it stands"}
		}
		if err != nil {
			return err
		}
		if live {
			fmt.Fprintf(sh.err, "\r\x1b[K%s %s %s", id, whereabouts(r), span(time.Since(began)))
		}
		if !settled(r.State) {
			continue
		}
		if live {
			fmt.Fprint(sh.err, "\r\x1b[K")
		}
		return sh.ended(r)
	}
}

// ended prints a settled action; an end that is not done is an error of its own.
func (sh *shell) ended(r api.Record) error {
	err := sh.emit(r, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s\n", r.ActionID, r.State)
		if len(r.Result) > 0 {
			fmt.Fprintln(w, string(r.Result))
		}
	})
	if err != nil || r.State == "done" {
		return err
	}
	text := r.ActionID + " ended " + r.State
	if r.Error != nil && r.Error.Message != "" {
		text += ": " + printable(r.Error.Message)
	}
	return &exitError{code: exitEndedBadly, text: text, next: "`pushctl show " + r.ActionID + "` tells why, `pushctl redrive " + r.ActionID + "` tries again"}
}

// whereabouts says in a few words where an unsettled action stands.
func whereabouts(r api.Record) string {
	text := r.State
	if r.State == "in_flight" && r.Delivery > 1 {
		text += fmt.Sprintf(", delivery %d", r.Delivery)
	}
	if r.WaitingFor != nil {
		text += ", waits for " + r.WaitingFor.Reason
		if r.WaitingFor.Resend {
			text += " to be resent"
		}
	}
	if r.Progress != nil && r.Progress.Percent != nil {
		text += fmt.Sprintf(", %.0f %%", *r.Progress.Percent)
	}
	return text
}

func settled(state string) bool {
	switch state {
	case "done", "failed", "gave_up", "expired", "cancelled":
		return true
	}
	return false
}
