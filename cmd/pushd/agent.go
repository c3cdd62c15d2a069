package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"pushd/agentexec/daemon"
	"pushd/agentexec/proc"
	"pushd/agentexec/setup"
	"pushd/agentexec/work"
	"pushd/cmd/pushd/settings"
)

// agentFlags are what the command line says over an agent's settings file.
type agentFlags struct {
	config, machine, dataDir, level string
	concurrency                     int
	drain                           time.Duration
}

func agentCommand(sh *shell) *cobra.Command {
	f := &agentFlags{}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run the agent: the machine that does the work",
		Long: `Run the agent of this machine: it subscribes, does what the actions ask by the
handlers of its settings file, and answers for each. SIGTERM or SIGINT ends it
after what runs has had --drain-timeout; a second one ends it at once.
docs/agents.md has the settings file.`,
		Example: `  pushd agent --config agent.yaml
  pushd agent --config agent.yaml --server https://push.example --token-file token
  pushd agent install --config agent.yaml && pushd agent start`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			debug.SetGCPercent(agentGC)
			return f.run(cmd.Context(), sh, cmd, func(log settings.Log) zerolog.Logger { return logger(sh.err, log) })
		},
	}
	f.register(cmd)
	cmd.AddCommand(superviseCommand(), installCommand(sh, f), serviceCommand(sh, f))
	cmd.AddCommand(agentVerbs(sh)...)
	return cmd
}

func (f *agentFlags) register(cmd *cobra.Command) {
	flags := cmd.PersistentFlags()
	flags.StringVarP(&f.config, "config", "c", "", "the agent's settings file (default agent.yaml, else "+daemon.DefaultConfig()+")")
	flags.StringVar(&f.machine, "machine", "", "the machine's id (default: the host's name)")
	flags.StringVar(&f.dataDir, "data-dir", "", "the folder of the agent's journal and run logs")
	flags.IntVar(&f.concurrency, "max-concurrency", 0, "how many actions run at once")
	flags.DurationVar(&f.drain, "drain-timeout", 0, "what running work gets at the end")
	flags.StringVar(&f.level, "log-level", "", "debug, info, warn or error")
}

// run runs the agent in this process.
func (f *agentFlags) run(ctx context.Context, sh *shell, cmd *cobra.Command, logs func(settings.Log) zerolog.Logger) error {
	file, err := f.load(sh, cmd)
	if err != nil {
		return err
	}
	file.Defaults()
	if err := file.Validate(); err != nil {
		return &exitError{code: exitUsage, text: err.Error()}
	}
	supervisor, err := supervisorLine()
	if err != nil {
		return err
	}
	return setup.Run(ctx, file, setup.Host{
		Environ: sh.environ, Supervisor: supervisor, Token: sh.getenv("PUSHD_TOKEN"),
		Logger: logs(settings.Log{Level: file.Log.Level, Format: file.Log.Format}),
	})
}

// agentGC keeps the agent small: it shares a machine with the work, and has time.
const agentGC = 50

// supervisorLine is how this program is executed again to hold a tree of children.
func supervisorLine() ([]string, error) {
	self, err := os.Executable()
	return []string{self, "agent", "supervise"}, err
}

// load reads the settings file; flags and the environment come after it.
func (f *agentFlags) load(sh *shell, cmd *cobra.Command) (setup.File, error) {
	path, err := f.path()
	if err != nil {
		return setup.File{}, err
	}
	file, err := setup.Load(path)
	if err != nil {
		return file, err
	}
	if file.DataDir == "" {
		file.DataDir = filepath.Join(filepath.Dir(path), "agent-data")
	}
	for _, over := range []struct {
		into *string
		from string
	}{
		{&file.Server, firstOf(sh.server, sh.getenv("PUSHD_URL"), ownServer(sh, cmd, file.Server))},
		{&file.TokenFile, firstOf(sh.tokenFile, sh.getenv("PUSHD_TOKEN_FILE"))},
		{&file.MachineID, f.machine},
		{&file.DataDir, f.dataDir},
		{&file.CA, firstOf(sh.ca, sh.getenv("PUSHD_CA"))},
		{&file.Log.Level, f.level},
	} {
		if over.from != "" {
			*over.into = over.from
		}
	}
	if file.DataDir, err = filepath.Abs(file.DataDir); err != nil {
		return file, err
	}
	file.Server = firstOf(file.Server, "http://127.0.0.1:8080")
	if cmd.Flags().Changed("max-concurrency") {
		file.MaxConcurrency = f.concurrency
	}
	if cmd.Flags().Changed("drain-timeout") {
		file.DrainTimeout = work.Span(max(f.drain, 1)) // 0 is what is not set
	}
	return file, nil
}

// path is the settings file, absolute.
func (f *agentFlags) path() (string, error) {
	path := f.config
	if path == "" {
		path = "agent.yaml"
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = daemon.DefaultConfig()
		}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) {
		return "", &exitError{code: exitUsage, text: "no settings file: " + abs, next: "docs/agents.md shows one; name it with --config"}
	}
	return abs, nil
}

// superviseCommand is what the agent runs its children below, on Linux.
func superviseCommand() *cobra.Command {
	return &cobra.Command{
		Use: "supervise", Hidden: true, Short: "Hold the children of an agent (for the agent itself)", Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if code := proc.Supervise(); code != 0 {
				return &exitError{code: code, text: "supervise: it is for the agent itself"}
			}
			return nil
		},
	}
}
