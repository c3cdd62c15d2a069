package main

import (
	"context"
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"pushd/cmd/pushd/settings"
	"pushd/server/api"
)

func serveCommand(sh *shell) *cobra.Command {
	f := &settingFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until SIGTERM or SIGINT, which end it gracefully; a second one
ends it at once. It needs no settings; docs/settings.md has all of them.`,
		Example: `  pushd serve
  pushd serve --config pushd.yaml --set watchdog.orphan_timeout=30s
  PUSHD_DATA_DIR=/var/lib/pushd pushd serve`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := f.load(sh)
			if err != nil {
				return err
			}
			return hosted(cmd.Context(), sh.err, set.DataDir, func(ctx context.Context, logs io.Writer) error {
				return serve(ctx, set, liveLogger(logs, set.Log), func() (*settings.Loaded, error) { return f.load(sh) })
			})
		},
	}
	f.register(cmd)
	cmd.AddCommand(serveVerbs(sh, f)...)
	return cmd
}

// serve is the whole life of a server; again reads its settings anew.
func serve(ctx context.Context, set *settings.Loaded, log zerolog.Logger, again func() (*settings.Loaded, error)) error {
	svc, err := newService(ctx, set, log)
	if err != nil {
		return err
	}
	svc.book.load = again
	svc.sys = newSystemd(log)
	svc.sys.outlasts(set.Watchdog.ScanInterval)
	return svc.run(ctx)
}

// logger writes for people on a terminal, and JSON elsewhere.
func logger(w io.Writer, set settings.Log) zerolog.Logger {
	level, err := zerolog.ParseLevel(set.Level)
	if err != nil {
		level = zerolog.InfoLevel // settings has checked it
	}
	if set.Format == "console" || (set.Format == "auto" && isTerminal(w)) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: "15:04:05.000", NoColor: !isTerminal(w)}
	}
	return zerolog.New(zerolog.SyncWriter(w)).Level(level).Hook(stamper{})
}

// stamper gives each line its time, to the millisecond as on the wire.
type stamper struct{}

// Run serves zerolog.
func (stamper) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(api.TimeLayout))
}
