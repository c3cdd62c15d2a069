package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

var kinds = map[string]string{"machine": api.Machines, "session": api.Sessions, "replay": api.Replays}

func kindOf(word string) (string, error) {
	kind, ok := kinds[word]
	if !ok {
		return "", usage("name a machine, session or replay, not a %q", word)
	}
	return kind, nil
}

func pauseCommand(sh *shell) *cobra.Command {
	var p api.PauseRequest
	var until string
	cmd := &cobra.Command{
		Use:   "pause machine|session|replay ID",
		Short: "Hold a machine, a session or a replay",
		Long: `Hold a machine, a session or a replay: nothing of it is dispatched until it is
resumed. What is in flight goes on, and its acks are taken.`,
		Example: `  pushctl pause machine win-1 --note "disk swap" --until 2h
  pushctl pause session invoices --machine win-1`,
		Args:      args(2, 2),
		ValidArgs: []string{"machine", "session", "replay"},
		RunE: func(cmd *cobra.Command, given []string) error {
			kind, err := kindOf(given[0])
			if err != nil {
				return err
			}
			if p.Until, err = instant(until); err != nil {
				return err
			}
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
				if err := c.Pause(ctx, kind, given[1], p); err != nil {
					return err
				}
				return sh.tellHeld(ctx, c, kind, given[1], fmt.Sprintf("%s %s is paused; `pushctl resume %s %s` lets it go", given[0], given[1], given[0], given[1]))
			})
		},
	}
	cmd.Flags().StringVar(&p.Note, "note", "", "why, for the next one who looks")
	cmd.Flags().StringVar(&until, "until", "", "resume by itself: after a duration (2h), or at a time (RFC 3339)")
	cmd.Flags().StringVar(&p.MachineID, "machine", "", "of a session: on this machine only")
	return cmd
}

func resumeCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:       "resume machine|session|replay ID",
		Short:     "Let a paused or closed one go on",
		Args:      args(2, 2),
		ValidArgs: []string{"machine", "session", "replay"},
		RunE: func(cmd *cobra.Command, given []string) error {
			kind, err := kindOf(given[0])
			if err != nil {
				return err
			}
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
				if err := c.Resume(ctx, kind, given[1]); err != nil {
					return err
				}
				return sh.tellHeld(ctx, c, kind, given[1], given[0]+" "+given[1]+" goes on")
			})
		},
	}
}

// tellHeld says what was done; with -o json it prints the thing as it is now.
func (sh *shell) tellHeld(ctx context.Context, c *api.Client, kind, id, sentence string) error {
	if sh.output != "json" {
		sh.say("%s", sentence)
		return nil
	}
	var thing any
	var err error
	if kind == api.Machines {
		thing, err = c.Machine(ctx, id)
	} else {
		thing, err = c.Label(ctx, kind, id)
	}
	if err != nil {
		return err
	}
	return sh.emit(thing, nil)
}

// instant reads a moment: a duration from now, or a time.
func instant(text string) (api.Time, error) {
	if text == "" {
		return api.Time{}, nil
	}
	if d, err := spanOfTime(text); err == nil {
		return api.At(time.Now().Add(d)), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return api.Time{}, usage("%q is neither a duration like 2h or 30d nor a time like 2031-01-02T15:04:05Z", text)
	}
	return api.At(t), nil
}
