package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

func showCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one action: where it stands and how it came there",
		Args:  args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error {
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
				r, err := c.Action(ctx, given[0], 0)
				if err != nil {
					return err
				}
				return sh.emit(r, func(w io.Writer) { sh.showRecord(w, r) })
			})
		},
	}
}

func (sh *shell) showRecord(w io.Writer, r api.Record) {
	fact := func(name, format string, values ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, printable(fmt.Sprintf(format, values...)))
	}
	if why := standing(r, time.Now()); why != "" {
		fmt.Fprintf(w, "%s\n\n", printable(why))
	}
	fact("action", "%s", r.ActionID)
	fact("state", "%s", whereabouts(r))
	fact("machine", "%s", r.MachineID)
	for _, pair := range [][2]string{{"session", r.SessionID}, {"replay", r.ReplayID}, {"target", r.Target}} {
		if pair[1] != "" {
			fact(pair[0], "%s", pair[1])
		}
	}
	fact("type", "%s, priority %d, %s, on dead %s", r.Type, r.Priority, r.Guarantee, r.OnDead)
	fact("sent", "%d deliveries, %d resent (%d timeout, %d disconnect)", r.Deliveries, r.ResentCount, r.Resends.Timeout, r.Resends.Disconnect)
	fact("failed", "%d of %d attempts, %d of %d transient", r.Attempts, r.MaxAttempts, r.TransientAttempts, r.TransientMaxAttempts)
	fact("created", "%s", r.CreatedAt)
	if !r.SettledAt.IsZero() {
		fact("settled", "%s, after %s", r.SettledAt, age(r.SettledAt.Time, r.CreatedAt))
	}
	if r.Error != nil {
		fact("error", "%s: %s", r.Error.Kind, r.Error.Message)
	}
	sh.showValue(fact, "payload", string(r.Payload))
	sh.showValue(fact, "result", string(r.Result))
	fmt.Fprintln(w)
	t := sh.table(w, "AT", "AFTER", "EVENT", "DELIVERY", "DETAIL")
	for i, e := range r.Timeline {
		t.row(e.At, after(r, i), e.Event, number(e.Delivery), printable(e.Detail))
	}
	t.Flush()
	if r.TimelineCut > 0 {
		sh.say("%d entries in the middle were dropped", r.TimelineCut)
	}
}

// standing says in one sentence why an unsettled action is where it is.
func standing(r api.Record, now time.Time) string {
	switch {
	case r.WaitingFor != nil:
		return r.WaitingFor.Explanation
	case r.State == "in_doubt":
		return fmt.Sprintf("Nobody knows whether it was done: it may be sent once only, and its agent has not answered; ask on %s, then `pushctl resolve %s --as done` (or failed), or `pushctl redrive %s`.",
			r.MachineID, r.ActionID, r.ActionID)
	case r.State != "in_flight":
		return ""
	case !r.CancelAskedAt.IsZero():
		return fmt.Sprintf("Machine %s was asked %s ago to stop it and has not answered yet.", r.MachineID, age(now, r.CancelAskedAt))
	case r.ReceivedAt.IsZero() || r.ReceivedAt.Before(r.DispatchedAt.Time):
		return fmt.Sprintf("Sent to machine %s %s ago, and no ack has come for it yet.", r.MachineID, age(now, r.DispatchedAt))
	}
	return fmt.Sprintf("In work on machine %s; its last sign of life was %s ago.", r.MachineID, age(now, r.LastActivityAt))
}

func (sh *shell) showValue(fact func(string, string, ...any), name, text string) {
	if text != "" {
		fact(name, "%s", clip(text, 400))
	}
}

// after is the time since the entry before.
func after(r api.Record, i int) string {
	if i == 0 {
		return ""
	}
	return "+" + span(max(0, r.Timeline[i].At.Sub(r.Timeline[i-1].At.Time)).Round(time.Millisecond))
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
