package main

import (
	"context"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"pushd/agentexec/daemon"
	"pushd/cmd/pushd/settings"
)

// serviceCommand is what the Service Control Manager starts.
func serviceCommand(sh *shell, f *agentFlags) *cobra.Command {
	return &cobra.Command{
		Use: "service", Hidden: true, Short: "Run as the Windows service (for the system itself)", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return daemon.Host(func(ctx context.Context) error {
				log, err := daemon.OpenEventLog()
				if err != nil {
					return err
				}
				return f.run(ctx, sh, cmd, func(set settings.Log) zerolog.Logger {
					level, err := zerolog.ParseLevel(set.Level)
					if err != nil {
						level = zerolog.InfoLevel // the file was validated
					}
					return zerolog.New(zerolog.SyncWriter(log)).Level(level)
				})
			})
		},
	}
}
