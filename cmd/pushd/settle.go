package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

// bulkFlags select what an act on many acts on.
type bulkFlags struct {
	selection api.Selection
	older     string
	yes       bool
}

func (f *bulkFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.selection.MachineID, "machine", "", "all of this machine")
	flags.StringVar(&f.selection.SessionID, "session", "", "all of this session")
	flags.StringVar(&f.selection.ReplayID, "replay", "", "all of this replay")
	flags.StringVar(&f.selection.State, "state", "", "all in this state")
	flags.StringVar(&f.selection.Type, "type", "", "all of this type")
	flags.StringVar(&f.older, "older-than", "", "all created longer ago than this (90m, 7d)")
	flags.BoolVar(&f.selection.DryRun, "dry-run", false, "only count")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
}

func (f *bulkFlags) given() bool {
	s := f.selection
	s.DryRun = false
	return s != api.Selection{} || f.older != ""
}

func cancelCommand(sh *shell) *cobra.Command {
	f := &bulkFlags{}
	closeLabel := false
	cmd := &cobra.Command{
		Use:   "cancel ID… | --machine M | --session S | --replay R | --state S …",
		Short: "Cancel actions",
		Long: `Cancel actions by id, or all that a filter selects. What is in flight is asked
to stop; its agent's answer, or stream.cancel_grace, ends it.`,
		Example: `  pushctl cancel render-17
  pushctl cancel --session invoices --state queued --dry-run
  pushctl cancel --replay run-4 --close --yes`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			if closeLabel {
				return sh.closeLabel(cmd, f, ids)
			}
			return sh.act(cmd, f, ids, "cancel", (*api.Client).Cancel, (*api.Client).CancelAll)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&closeLabel, "close", false, "of a session or replay: also refuse new actions until it is resumed")
	return cmd
}

func redriveCommand(sh *shell) *cobra.Command {
	f := &bulkFlags{}
	cmd := &cobra.Command{
		Use:   "redrive ID… | --machine M | --session S | --replay R | --state S …",
		Short: "Queue dead letters, cancelled actions and those in doubt again",
		Example: `  pushctl redrive render-17
  pushctl redrive --machine win-1 --state gave_up --yes`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			return sh.act(cmd, f, ids, "redrive", (*api.Client).Redrive, (*api.Client).RedriveAll)
		},
	}
	f.register(cmd)
	return cmd
}

func resolveCommand(sh *shell) *cobra.Command {
	var as api.Resolution
	cmd := &cobra.Command{
		Use:   "resolve ID --as done|failed",
		Short: "Say what became of an action whose outcome nobody knows",
		Args:  args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error {
			if as.As != "done" && as.As != "failed" {
				return usage("say --as done or --as failed")
			}
			resolve := func(c *api.Client, ctx context.Context, id string) (api.Record, error) { return c.Resolve(ctx, id, as) }
			return sh.actOn(cmd, given, "resolve", resolve)
		},
	}
	cmd.Flags().StringVar(&as.As, "as", "", "done or failed")
	cmd.Flags().StringVar(&as.Note, "note", "", "how you know")
	return cmd
}

type (
	actOne  func(*api.Client, context.Context, string) (api.Record, error)
	actMany func(*api.Client, context.Context, api.Selection) (int, error)
)

func (sh *shell) act(cmd *cobra.Command, f *bulkFlags, ids []string, verb string, one actOne, many actMany) error {
	if len(ids) > 0 == f.given() {
		return &exitError{code: exitUsage, text: verb + " needs either ids or a filter", next: "see `pushctl " + verb + " --help`"}
	}
	if len(ids) > 0 {
		if f.selection.DryRun {
			return usage("--dry-run counts what a filter selects; these are %d ids", len(ids))
		}
		return sh.actOn(cmd, ids, verb, one)
	}
	if f.older != "" {
		d, err := spanOfTime(f.older)
		if err != nil {
			return usage("--older-than %s: write a duration like 90m or 7d", f.older)
		}
		f.selection.OlderThanS = api.S(d)
	}
	return sh.actOnMany(cmd, f, verb, many)
}

// actOn acts on ids one by one; one that is refused does not stop the others.
func (sh *shell) actOn(cmd *cobra.Command, ids []string, verb string, one actOne) error {
	return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
		var failed error
		for _, id := range ids {
			r, err := one(c, ctx, id)
			switch {
			case err != nil && len(ids) > 1:
				sh.say("%s: %s %s: %v", sh.name, verb, id, err)
				failed = errors.Join(failed, err)
			case err != nil:
				return err
			default:
				if err := sh.tellRecord(r); err != nil {
					return err
				}
			}
		}
		if failed != nil {
			code, _, _ := verdict(failed)
			return &exitError{code: code, text: "not all of them could be done"}
		}
		return nil
	})
}

func (sh *shell) tellRecord(r api.Record) error {
	if sh.output == "json" {
		return sh.line(r)
	}
	_, err := fmt.Fprintf(sh.out, "%s %s\n", r.ActionID, r.State)
	return err
}

// actOnMany counts first, so that what is asked and what is done are known.
func (sh *shell) actOnMany(cmd *cobra.Command, f *bulkFlags, verb string, many actMany) error {
	return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
		count := api.Count{}
		var err error
		preview := f.selection
		preview.DryRun = true
		if count.Count, err = many(c, ctx, preview); err != nil {
			return err
		}
		done := "would " + verb
		if !f.selection.DryRun && count.Count > 0 {
			if err := sh.confirm(fmt.Sprintf("%s %d actions?", verb, count.Count), f.yes); err != nil {
				return err
			}
			if count.Count, err = many(c, ctx, f.selection); err != nil {
				return err
			}
			done = verb + ":"
		}
		return sh.emit(count, func(w io.Writer) { fmt.Fprintf(w, "%s %d actions\n", done, count.Count) })
	})
}

// closeLabel cancels what a session or replay holds and closes it.
func (sh *shell) closeLabel(cmd *cobra.Command, f *bulkFlags, ids []string) error {
	kind, id := api.Sessions, f.selection.SessionID
	if id == "" {
		kind, id = api.Replays, f.selection.ReplayID
	}
	only := f.selection
	only.SessionID, only.ReplayID = "", ""
	if id == "" || len(ids) > 0 || f.older != "" || only != (api.Selection{}) || (f.selection.SessionID != "" && f.selection.ReplayID != "") {
		return usage("--close goes with --session S or --replay R alone")
	}
	return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
		if err := sh.confirm(fmt.Sprintf("cancel all of %s %s and close it?", strings.TrimSuffix(kind, "s"), id), f.yes); err != nil {
			return err
		}
		label, err := c.CancelLabel(ctx, kind, id)
		if err != nil {
			return err
		}
		return sh.emit(label, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n", id, label.Status) })
	})
}

// spanOfTime reads a duration, with days too, which Go's own parser lacks.
func spanOfTime(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 || n > 36500 {
			return 0, fmt.Errorf("%q is no number of days", days)
		}
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("a duration cannot be negative")
	}
	return d, err
}
