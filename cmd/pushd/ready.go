package main

import (
	"context"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

func readyCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "ready",
		Short: "Ask whether the server is ready; the exit status says it",
		Long: `Ask the server whether it is ready (GET /readyz, for which no token is needed).
The exit status is 0 if it is, 1 if it is stopping or cannot write, 6 if nobody is
there: for scripts, and for the health check of a container, which has no curl.`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
				if err := c.Ready(ctx); err != nil {
					return err
				}
				return sh.confirmDone(map[string]any{"ready": true}, "%s is ready", c.Base)
			})
		},
	}
}
