package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
	"pushd/cmd/pushd/settings"
	"pushd/server"
	"pushd/server/api"
)

// keeper is where tokens are kept: a running server, or the data directory of a
// stopped one.
type keeper interface {
	CreateToken(ctx context.Context, t api.NewToken) (api.Token, error)
	Tokens(ctx context.Context) ([]api.Token, error)
	DropToken(ctx context.Context, id string) error
}

func tokenCommand(sh *shell) *cobra.Command {
	f := &settingFlags{}
	list := &cobra.Command{
		Use:   "ls",
		Short: "List the tokens, without their texts",
		Args:  args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return sh.keep(cmd, f, func(ctx context.Context, k keeper) error { return sh.listTokens(ctx, k) })
		},
	}
	f.register(list)
	revoke := &cobra.Command{
		Use:   "revoke ID",
		Short: "End a token and the streams under it",
		Args:  args(1, 1),
		RunE: func(cmd *cobra.Command, given []string) error {
			return sh.keep(cmd, f, func(ctx context.Context, k keeper) error {
				if err := k.DropToken(ctx, given[0]); err != nil {
					return err
				}
				return sh.confirmDone(map[string]any{"id": given[0], "revoked": true}, "%s is revoked", given[0])
			})
		},
	}
	f.register(revoke)
	return group(&cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke bearer tokens",
		Long: `Create, list and revoke bearer tokens. With --server or PUSHD_URL the server
named there is asked. Otherwise the data directory of a stopped server is used
(PUSHD_DATA_DIR, --data-dir, ./data); when one is running on it, that server.`,
	}, createTokenCommand(sh, f), list, revoke)
}

func createTokenCommand(sh *shell, f *settingFlags) *cobra.Command {
	var wanted api.NewToken
	var expires string
	cmd := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE [--scope SCOPE]",
		Short: "Make a token; its text is shown once, alone on the last line",
		Long: `Make a token. Its text is shown once, alone on the last line of stdout.

Scopes: admin, push[:PATTERN], read[:PATTERN], operate[:PATTERN], agent:PATTERN.
PATTERN is a glob over machine ids; without one: all.`,
		Example: `  pushctl token create --name boss --scope admin
  pushctl token create --name win --scope 'agent:win-*' --expires 30d > win.token`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wanted.Name == "" || len(wanted.Scopes) == 0 {
				return usage("a token needs --name and at least one --scope")
			}
			var err error
			if wanted.ExpiresAt, err = instant(expires); err != nil {
				return err
			}
			return sh.keep(cmd, f, func(ctx context.Context, k keeper) error {
				made, err := k.CreateToken(ctx, wanted)
				if err != nil {
					return err
				}
				return sh.emit(made, func(w io.Writer) {
					sh.say("%s %s: %s; keep its text, nobody can show it again", made.ID, made.Name, strings.Join(made.Scopes, " "))
					fmt.Fprintln(w, made.Text)
				})
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&wanted.Name, "name", "", "whose it is")
	cmd.Flags().StringArrayVar(&wanted.Scopes, "scope", nil, "what it may; as often as needed")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends: after a duration (30d, 12h), or at a time (RFC 3339)")
	return cmd
}

func (sh *shell) listTokens(ctx context.Context, k keeper) error {
	tokens, err := k.Tokens(ctx)
	if err != nil {
		return err
	}
	return sh.emit(api.List[api.Token]{Items: append([]api.Token{}, tokens...)}, func(w io.Writer) {
		t := sh.table(w, "ID", "NAME", "SCOPES", "CREATED", "EXPIRES")
		for _, tok := range tokens {
			t.row(tok.ID, printable(tok.Name), strings.Join(tok.Scopes, " "), tok.CreatedAt, tok.ExpiresAt)
		}
		t.Flush()
	})
}

// keep finds where the tokens are kept and lets f work there.
func (sh *shell) keep(cmd *cobra.Command, flags *settingFlags, f func(context.Context, keeper) error) error {
	if sh.server != "" || sh.getenv("PUSHD_URL") != "" {
		return sh.call(cmd, func(ctx context.Context, c *api.Client) error { return f(ctx, c) })
	}
	loaded, err := flags.load(sh)
	if err != nil {
		return err
	}
	store, err := boltstore.Open(boltstore.Config{Dir: loaded.DataDir, Logger: zerolog.Nop()})
	if errors.Is(err, ackstore.ErrInUse) {
		sh.server = serverOn(loaded)
		sh.say("%s is in use: asking the server at %s", loaded.DataDir, sh.server)
		return sh.call(cmd, func(ctx context.Context, c *api.Client) error { return f(ctx, c) })
	}
	if err != nil {
		return err
	}
	err = f(cmd.Context(), &drawer{store})
	return errors.Join(err, store.Close())
}

// serverOn is the server that runs by these settings, as this machine would call it.
func serverOn(set *settings.Loaded) string {
	if set.TLS.CertFile != "" {
		return "https://" + callable(set.Listen)
	}
	return "http://" + callable(set.Listen)
}

// callable is a listening address as a client on this machine would call it.
func callable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if addr := net.ParseIP(host); host == "" || (addr != nil && addr.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// drawer keeps tokens in the data directory of a stopped server.
type drawer struct {
	store interface {
		PutToken(ctx context.Context, t ackstore.Token) error
		DropToken(ctx context.Context, id string) error
		Tokens(ctx context.Context) ([]ackstore.Token, error)
	}
}

func (d *drawer) CreateToken(ctx context.Context, t api.NewToken) (api.Token, error) {
	kept, text, err := server.NewToken(t.Name, t.Scopes, t.ExpiresAt.Time, time.Now(), rand.Reader)
	if errors.Is(err, server.ErrScope) {
		return api.Token{}, usage("%s", strings.TrimPrefix(err.Error(), "server: "))
	}
	if err != nil {
		return api.Token{}, err
	}
	if err := d.store.PutToken(ctx, kept); err != nil {
		return api.Token{}, err
	}
	shown := tokenOf(kept)
	shown.Text = text
	return shown, nil
}

func (d *drawer) Tokens(ctx context.Context) ([]api.Token, error) {
	kept, err := d.store.Tokens(ctx)
	shown := make([]api.Token, len(kept))
	for i, t := range kept {
		shown[i] = tokenOf(t)
	}
	return shown, err
}

func (d *drawer) DropToken(ctx context.Context, id string) error {
	err := d.store.DropToken(ctx, id)
	if errors.Is(err, ackstore.ErrUnknown) {
		return &exitError{code: exitNotFound, text: "there is no token " + id, next: "`pushctl token ls` shows them"}
	}
	return err
}

func tokenOf(t ackstore.Token) api.Token {
	return api.Token{ID: t.ID, Name: t.Name, Scopes: t.Scopes, CreatedAt: api.At(t.CreatedAt), ExpiresAt: api.At(t.ExpiresAt)}
}
