package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushd/agentexec/setup"
	"pushd/server/api"
)

// shell is what every command shares: the terminal and the flags of the root.
type shell struct {
	*terminal
	server    string
	tokenFile string
	ca        string
	output    string
	timeout   time.Duration
}

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, term *terminal, line []string) int {
	sh := &shell{terminal: term}
	root := rootCommand(sh)
	root.SetArgs(line)
	root.SetIn(term.in)
	root.SetOut(term.out)
	root.SetErr(term.err)
	err := root.ExecuteContext(ctx)
	return report(term, sh.output == "json", err)
}

func rootCommand(sh *shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "pushctl",
		Short: "Push actions to machines over SSE, and answer for each of them",
		Long: `pushctl talks to a pushd server; pushd serve is that server. They are one
binary under two names, for pushd alone is a builtin of most shells.

  pushctl demo                               the whole story in a minute
  pushd serve                                a server on 127.0.0.1:8080
  pushctl push win-1 '{"open":"calc"}' --wait
  pushctl ls; pushctl show ID

Exit codes: 0 done, 1 failed, 2 misused, 3 not found, 4 not authorised,
5 conflict, 6 no server there, 7 timed out, 8 the action ended badly,
130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exitError{code: exitUsage, text: err.Error(), next: "see `" + cmd.CommandPath() + " --help`"}
	})
	flags := root.PersistentFlags()
	flags.StringVarP(&sh.server, "server", "s", "", "the server's address (PUSHD_URL; default http://127.0.0.1:8080)")
	flags.StringVar(&sh.tokenFile, "token-file", "", "a file that holds the token (PUSHD_TOKEN_FILE; or the token itself in PUSHD_TOKEN)")
	flags.StringVar(&sh.ca, "ca", "", "a file of certificates to trust besides the system's (PUSHD_CA)")
	flags.StringVarP(&sh.output, "output", "o", "table", "table or json")
	flags.DurationVar(&sh.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if sh.output != "table" && sh.output != "json" {
			wanted := sh.output
			sh.output = "table"
			return usage("--output is %q; it must be table or json", wanted)
		}
		return nil
	}
	addCommands(root, sh)
	return group(root)
}

func addCommands(root *cobra.Command, sh *shell) {
	root.AddGroup(
		&cobra.Group{ID: "start", Title: "To begin:"},
		&cobra.Group{ID: "work", Title: "Work:"},
		&cobra.Group{ID: "look", Title: "To look:"},
		&cobra.Group{ID: "act", Title: "To intervene:"},
		&cobra.Group{ID: "keep", Title: "To keep house:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"start": {demoCommand(sh), withAgent(sh, serveCommand(sh)), agentCommand(sh)},
		"work":  {pushCommand(sh), ackCommand(sh)},
		"look":  {lsCommand(sh), showCommand(sh), tailCommand(sh), readyCommand(sh)},
		"act":   {pauseCommand(sh), resumeCommand(sh), cancelCommand(sh), redriveCommand(sh), resolveCommand(sh), breakerCommand(sh), webhookCommand(sh), alertCommand(sh)},
		"keep":  {tokenCommand(sh), configCommand(sh), backupCommand(sh), verifyStoreCommand(sh), compactCommand(sh), doctorCommand(sh), benchCommand(sh), versionCommand(sh)},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
}

// args wants between low and high arguments; high below 0 is no bound.
func args(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) >= low && (high < 0 || len(given) <= high) {
			return nil
		}
		return &exitError{
			code: exitUsage,
			text: fmt.Sprintf("write: %s", cmd.UseLine()),
			next: "see `" + cmd.CommandPath() + " --help`",
		}
	}
}

// group makes a command that only holds others.
func group(c *cobra.Command, children ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return cmd.Help()
		}
		next := "see `" + cmd.CommandPath() + " --help`"
		if near := cmd.SuggestionsFor(given[0]); len(near) > 0 {
			next = "perhaps `" + cmd.CommandPath() + " " + near[0] + "`"
		}
		return &exitError{code: exitUsage, text: fmt.Sprintf("no such command: %s %s", cmd.CommandPath(), given[0]), next: next}
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(children...)
	return c
}

// client makes the client that flags and environment ask for.
func (sh *shell) client() (*api.Client, error) {
	base := firstOf(sh.server, sh.getenv("PUSHD_URL"), "http://127.0.0.1:8080")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	token, err := sh.token()
	if err != nil {
		return nil, err
	}
	transport, err := sh.transport()
	return &api.Client{Base: base, Token: token, HTTP: &http.Client{Transport: transport}}, err
}

// transport trusts the system's certificates and those of --ca.
func (sh *shell) transport() (*http.Transport, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	file := firstOf(sh.ca, sh.getenv("PUSHD_CA"))
	if file == "" {
		return transport, nil
	}
	roots, err := setup.Roots(file)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	return transport, nil
}

// token reads the bearer token. A file made by hand ends in a newline, which is
// no part of it.
func (sh *shell) token() (string, error) {
	path := firstOf(sh.tokenFile, sh.getenv("PUSHD_TOKEN_FILE"))
	if sh.tokenFile == "" && sh.getenv("PUSHD_TOKEN") != "" {
		return strings.TrimSpace(sh.getenv("PUSHD_TOKEN")), nil
	}
	if path == "" {
		return "", nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	text := strings.TrimSpace(string(raw))
	if text == "" {
		return "", errors.New("token file: " + path + " is empty")
	}
	return text, nil
}

// call runs f against the server, bounded by --timeout.
func (sh *shell) call(cmd *cobra.Command, f func(ctx context.Context, c *api.Client) error) error {
	c, err := sh.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), sh.timeout)
	defer cancel()
	return f(ctx, c)
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
