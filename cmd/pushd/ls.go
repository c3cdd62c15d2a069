package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

func lsCommand(sh *shell) *cobra.Command {
	var f api.ActionFilter
	var labels []string
	cmd := &cobra.Command{
		Use:     "ls [actions|machines|sessions|replays|given-up]",
		Aliases: []string{"list"},
		Short:   "List actions, machines, sessions or replays",
		Long: `List actions (newest first), machines, sessions, replays, or what was given up:
the dead letters failed, gave_up and expired, which can be redriven. Filters are
for actions.`,
		Example: `  pushctl ls --machine win-1 --state queued --state scheduled
  pushctl ls given-up -o json
  pushctl ls machines`,
		Args:      args(0, 1),
		ValidArgs: []string{"actions", "machines", "sessions", "replays", "given-up"},
		RunE: func(cmd *cobra.Command, given []string) error {
			what := "actions"
			if len(given) > 0 {
				what = given[0]
			}
			if err := setLabels(&f, labels); err != nil {
				return err
			}
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error { return sh.list(ctx, c, what, f) })
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.States, "state", nil, "only this state; as often as needed")
	flags.StringVar(&f.MachineID, "machine", "", "only this machine")
	flags.StringVar(&f.SessionID, "session", "", "only this session")
	flags.StringVar(&f.ReplayID, "replay", "", "only this replay")
	flags.StringVar(&f.Type, "type", "", "only this type")
	flags.StringArrayVar(&labels, "label", nil, "only with this label, key=value")
	flags.IntVarP(&f.Limit, "limit", "n", 50, "at most so many, 1 to 1000")
	flags.StringVar(&f.Cursor, "cursor", "", "go on where the last page ended")
	return cmd
}

func setLabels(f *api.ActionFilter, labels []string) error {
	for _, label := range labels {
		key, value, found := strings.Cut(label, "=")
		if !found {
			return usage("--label %s: write key=value", label)
		}
		if f.Labels == nil {
			f.Labels = map[string]string{}
		}
		f.Labels[key] = value
	}
	return nil
}

func (sh *shell) list(ctx context.Context, c *api.Client, what string, f api.ActionFilter) error {
	switch what {
	case "actions":
		return sh.listActions(ctx, c, f)
	case "given-up", "dead":
		if len(f.States) == 0 {
			f.States = []string{"failed", "gave_up", "expired"}
		}
		return sh.listActions(ctx, c, f)
	case "machines":
		return sh.listMachines(ctx, c, f)
	case api.Sessions, api.Replays:
		return sh.listLabels(ctx, c, what, f)
	}
	return usage("ls knows actions, machines, sessions, replays and given-up, not %q", what)
}

func (sh *shell) listActions(ctx context.Context, c *api.Client, f api.ActionFilter) error {
	page, err := c.Actions(ctx, f)
	if err != nil {
		return err
	}
	return sh.emit(page, func(w io.Writer) {
		t := sh.table(w, "ACTION", "MACHINE", "SESSION", "TYPE", "STATE", "DELIVERIES", "CREATED", "WHY")
		for _, r := range page.Items {
			t.row(r.ActionID, r.MachineID, r.SessionID, r.Type, state(r.State), r.Deliveries, r.CreatedAt, why(r))
		}
		t.Flush()
		sh.more(page.NextCursor)
	})
}

// why is the one thing one asks of an action in its state, as far as a list has it.
func why(r api.Record) string {
	switch {
	case r.State == "scheduled" && !r.AvailableAt.IsZero():
		return "until " + r.AvailableAt.String()
	case r.WaitingFor != nil && r.WaitingFor.Resend:
		return r.WaitingFor.Reason + ", resend"
	case r.WaitingFor != nil:
		return r.WaitingFor.Reason
	case r.Error != nil && r.State != "done":
		return strings.TrimSpace(r.Error.Kind + " " + printable(clip(r.Error.Message, 60)))
	}
	return ""
}

func (sh *shell) listMachines(ctx context.Context, c *api.Client, f api.ActionFilter) error {
	page, err := c.Machines(ctx, f.Limit, f.Cursor)
	if err != nil {
		return err
	}
	return sh.emit(page, func(w io.Writer) {
		t := sh.table(w, "MACHINE", "STATE", "SINCE", "CREDIT", "IN FLIGHT", "QUEUED", "ADDRESS", "HELD BY")
		for _, m := range page.Items {
			t.row(m.MachineID, state(m.State), m.Since, m.MaxInFlight, m.InFlight, m.Queued, m.Address, heldBy(m))
		}
		t.Flush()
		sh.more(page.NextCursor)
	})
}

func heldBy(m api.Machine) string {
	var causes []string
	for _, p := range m.Paused {
		causes = append(causes, "pause "+p.Cause)
	}
	for _, b := range m.Breakers {
		causes = append(causes, strings.TrimSpace("breaker "+b.Target))
	}
	if m.Contested != nil {
		causes = append(causes, "contested by "+strings.Join(m.Contested.Addresses, " and "))
	}
	return strings.Join(causes, ", ")
}

func (sh *shell) listLabels(ctx context.Context, c *api.Client, kind string, f api.ActionFilter) error {
	page, err := c.Labels(ctx, kind, f.Limit, f.Cursor)
	if err != nil {
		return err
	}
	return sh.emit(page, func(w io.Writer) {
		t := sh.table(w, strings.ToUpper(strings.TrimSuffix(kind, "s")), "STATUS", "ACTIONS", "PAUSED")
		for _, l := range page.Items {
			var pauses []string
			for _, p := range l.Paused {
				pauses = append(pauses, strings.TrimSuffix(p.Cause+" on "+p.MachineID, " on "))
			}
			t.row(firstOf(l.SessionID, l.ReplayID), state(l.Status), counts(l.Counts), strings.Join(pauses, ", "))
		}
		t.Flush()
		sh.more(page.NextCursor)
	})
}

// counts writes what there is of each state, in the order of an action's life.
func counts(n map[string]int) string {
	var parts []string
	for _, s := range lifeOrder {
		if n[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[s], s))
		}
	}
	return strings.Join(parts, ", ")
}

var lifeOrder = []string{"scheduled", "queued", "in_flight", "in_doubt", "done", "failed", "gave_up", "expired", "cancelled"}

func (sh *shell) more(cursor string) {
	if cursor != "" {
		sh.say("there is more: add --cursor %s", cursor)
	}
}

func clip(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return s
}

// completeMachines completes the first argument with the machines that are
// known; a server that is slow or not there completes nothing.
func (sh *shell) completeMachines(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	c, err := sh.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 500*time.Millisecond)
	defer cancel()
	page, err := c.Machines(ctx, 1000, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, m := range page.Items {
		if strings.HasPrefix(m.MachineID, prefix) {
			ids = append(ids, m.MachineID)
		}
	}
	slices.Sort(ids)
	return ids, cobra.ShellCompDirectiveNoFileComp
}
