package main

import (
	"context"
	"errors"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"pushd/cmd/pushd/settings"
)

// withAgent gives serve its --agent: an agent in the server's own process, for a
// host that is both. It speaks to the server over loopback as any other does.
func withAgent(sh *shell, serve *cobra.Command) *cobra.Command {
	f := &agentFlags{}
	serve.Flags().StringVar(&f.config, "agent", "", "run an agent beside the server, with this settings file")
	alone := serve.RunE
	serve.RunE = func(cmd *cobra.Command, given []string) error {
		if f.config == "" {
			return alone(cmd, given)
		}
		return beside(cmd, func(ctx context.Context) error {
			return f.run(ctx, sh, cmd, func(log settings.Log) zerolog.Logger {
				return logger(sh.err, log).With().Str("part", "agent").Logger()
			})
		}, func(ctx context.Context) error {
			cmd.SetContext(ctx)
			return alone(cmd, given)
		})
	}
	return serve
}

// beside runs both until the command's context ends or one of them does: the
// agent ends first, while the server still takes its acks.
func beside(cmd *cobra.Command, agent, server func(context.Context) error) error {
	parts := &actors{}
	parts.add("server", server)
	parts.add("agent", agent)
	err := parts.run(cmd.Context())
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// ownServer is where an agent beside a server finds it: at the address that serve
// listens on, whoever said so. A server with a certificate is called as the agent's
// settings name it, if they do: the certificate is for a name.
func ownServer(sh *shell, cmd *cobra.Command, named string) string {
	flags := cmd.Flags()
	if flags.Lookup("listen") == nil {
		return "" // not beside one
	}
	var f settingFlags
	f.file, _ = flags.GetString("config") // serve has all three
	f.listen, _ = flags.GetString("listen")
	f.set, _ = flags.GetStringArray("set")
	set, err := settings.Load(f.sources(sh))
	if err != nil || set.TLS.CertFile != "" && named != "" {
		return "" // what is wrong the server says
	}
	return serverOn(set)
}
