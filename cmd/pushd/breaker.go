package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

func breakerCommand(sh *shell) *cobra.Command {
	return group(
		&cobra.Command{Use: "breaker", Short: "See and close the breakers of services that are missing"},
		&cobra.Command{
			Use:   "ls",
			Short: "List the breakers that are not closed",
			Args:  args(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return sh.call(cmd, sh.listBreakers)
			},
		},
		closeBreakerCommand(sh),
	)
}

func (sh *shell) listBreakers(ctx context.Context, c *api.Client) error {
	q, err := c.Queue(ctx)
	if err != nil {
		return err
	}
	return sh.emit(api.List[api.Breaker]{Items: append([]api.Breaker{}, q.Breakers...)}, func(w io.Writer) {
		t := sh.table(w, "MACHINE", "TARGET", "STATE", "UNTIL", "REASON")
		for _, b := range q.Breakers {
			t.row(b.MachineID, b.Target, state(b.State), b.Until, printable(b.Reason))
		}
		t.Flush()
	})
}

func closeBreakerCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "close MACHINE [TARGET] | close shared/TARGET",
		Short: "Close a breaker by hand: its service is there again",
		Args:  args(1, 2),
		RunE: func(cmd *cobra.Command, given []string) error {
			machine, target := given[0], ""
			if len(given) == 2 {
				target = given[1]
			} else if strings.HasPrefix(machine, "shared/") {
				machine, target = "", machine
			}
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
				if err := c.CloseBreaker(ctx, machine, target); err != nil {
					return err
				}
				return sh.confirmDone(api.Breaker{MachineID: machine, Target: target, State: "closed"}, "closed")
			})
		},
	}
}
