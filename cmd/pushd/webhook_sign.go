package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/webhook"
)

// routeFlags find a route in a settings file: its secrets never leave this machine.
type routeFlags struct{ file string }

func (f *routeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "the settings file that has the route (PUSHD_CONFIG)")
}

func (f *routeFlags) find(sh *shell, id string) (*webhook.Route, error) {
	path := firstOf(f.file, sh.getenv("PUSHD_CONFIG"))
	if path == "" {
		return nil, usage("name the settings file that has the route, with --config or PUSHD_CONFIG")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set, err := webhook.Load(raw, webhook.Env{Getenv: sh.getenv, ReadFile: os.ReadFile})
	if err != nil {
		return nil, err
	}
	if r := set.Find(id); r != nil && !r.Chain() {
		return r, nil
	}
	return nil, &exitError{code: exitNotFound, text: fmt.Sprintf("%s has no webhook route %q", path, id)}
}

func signCommand(sh *shell) *cobra.Command {
	var f routeFlags
	var event, id, out string
	var form, send bool
	cmd := &cobra.Command{
		Use:   "sign ROUTE [FILE]",
		Short: "Sign a body as the route's sender would: headers for curl, or --send",
		Long: `Sign a JSON body, from FILE or standard input, as the route's sender would. It
prints the headers, one a line, which curl reads with -H @FILE; --body FILE writes
the body that goes with them, and --send delivers both to the server.`,
		Example: `  pushctl webhook sign gh --config pushd.yaml --event push body.json > headers
  curl -H @headers --data-binary @body.json http://127.0.0.1:8080/webhooks/gh
  pushctl webhook sign gh --config pushd.yaml --event push body.json --send`,
		Args: args(1, 2),
		RunE: func(cmd *cobra.Command, given []string) error {
			r, err := f.find(sh, given[0])
			if err != nil {
				return err
			}
			body, err := sh.bodyOf(given[1:])
			if err != nil {
				return err
			}
			s := r.Sign(body, event, id, form, time.Now())
			if out != "" {
				if err := os.WriteFile(out, s.Body, 0o600); err != nil {
					return err
				}
			}
			if send {
				return sh.deliver(cmd, r.ID, s)
			}
			return sh.showHeaders(s)
		},
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&event, "event", "", "what the event is called, in the sender's header")
	flags.StringVar(&id, "id", "", "what the delivery is called (default: a new id)")
	flags.BoolVar(&form, "form", false, "as a form with the field payload")
	flags.BoolVar(&send, "send", false, "deliver it to the server")
	flags.StringVar(&out, "body", "", "write the body that was signed to this file")
	return cmd
}

func (sh *shell) showHeaders(s webhook.Sample) error {
	var names []string
	headers := map[string]string{}
	for name := range s.Header {
		names = append(names, name)
		headers[name] = s.Header.Get(name)
	}
	slices.Sort(names)
	return sh.emit(map[string]any{"headers": headers, "body": string(s.Body)}, func(w io.Writer) {
		for _, name := range names {
			fmt.Fprintf(w, "%s: %s\n", name, headers[name])
		}
	})
}

// deliver sends a sample as its sender would; the answer is printed as it comes.
func (sh *shell) deliver(cmd *cobra.Command, route string, s webhook.Sample) error {
	c, err := sh.client()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodPost, strings.TrimRight(c.Base, "/")+"/webhooks/"+route, strings.NewReader(string(s.Body)))
	if err != nil {
		return err
	}
	req.Header = s.Header
	c.HTTP.Timeout = sh.timeout
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	fmt.Fprintln(sh.out, strings.TrimSpace(string(raw)))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the server answered %d", resp.StatusCode)
	}
	return nil
}

func verifyCommand(sh *shell) *cobra.Command {
	var f routeFlags
	var headers []string
	var at int64
	cmd := &cobra.Command{
		Use:   "verify ROUTE [FILE]",
		Short: "Say whether a body and its headers would be let in, and why not",
		Long: `Check a body, from FILE or standard input, and its headers against the route of a
settings file, as the server would. Nothing is sent anywhere.`,
		Example: `  pushctl webhook verify gh --config pushd.yaml -H 'X-Hub-Signature-256: sha256=…' body.json
  pushctl webhook verify gh --config pushd.yaml -H @headers body.json`,
		Args: args(1, 2),
		RunE: func(_ *cobra.Command, given []string) error {
			r, err := f.find(sh, given[0])
			if err != nil {
				return err
			}
			h, err := headersOf(headers)
			if err != nil {
				return err
			}
			body, err := sh.bodyOf(given[1:])
			if err != nil {
				return err
			}
			now := time.Now()
			if at != 0 {
				now = time.Unix(at, 0)
			}
			return sh.tellVerified(r.Open(h, body, now))
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "a header, NAME: VALUE, or @FILE with one a line; as often as needed")
	cmd.Flags().Int64Var(&at, "now", 0, "the time to check signed times against, in Unix seconds")
	return cmd
}

func headersOf(lines []string) (http.Header, error) {
	h := http.Header{"Content-Type": {"application/json"}}
	for _, line := range lines {
		text := []string{line}
		if path, is := strings.CutPrefix(line, "@"); is {
			raw, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			text = strings.Split(strings.TrimSpace(string(raw)), "\n")
		}
		for _, one := range text {
			name, value, found := strings.Cut(one, ":")
			if !found {
				return nil, usage("-H %s: write NAME: VALUE", one)
			}
			h.Set(strings.TrimSpace(name), strings.TrimSpace(value))
		}
	}
	return h, nil
}

func (sh *shell) tellVerified(o *webhook.Opened, err error) error {
	if o == nil {
		return &exitError{code: exitFailure, text: strings.TrimPrefix(err.Error(), "webhook: ")}
	}
	var unread *webhook.BadBodyError
	told := map[string]any{"secret": o.Secret, "event": o.Event, "key": o.Key}
	if errors.As(err, &unread) {
		told["unreadable"] = unread.Why
	}
	return sh.emit(told, func(w io.Writer) {
		fmt.Fprintf(w, "let in: secret %d, event %q, known by %q\n", o.Secret, o.Event, o.Key)
		if unread != nil {
			fmt.Fprintf(w, "but the body %s\n", unread.Why)
		}
	})
}
