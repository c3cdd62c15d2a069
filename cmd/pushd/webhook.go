package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

func webhookCommand(sh *shell) *cobra.Command {
	return group(
		&cobra.Command{
			Use:   "webhook",
			Short: "See what senders delivered, replay it, try routes",
			Long: `Routes stand in the section webhooks of the settings file; docs/webhooks.md has
one for each sender.`,
		},
		&cobra.Command{
			Use:   "ls",
			Short: "List the routes and what came to them since the server's start",
			Args:  args(0, 0),
			RunE:  func(cmd *cobra.Command, _ []string) error { return sh.call(cmd, sh.listWebhooks) },
		},
		deliveriesCommand(sh),
		&cobra.Command{
			Use:   "replay ROUTE ID",
			Short: "Make actions of a recorded delivery again, by the route as it is now",
			Args:  args(2, 2),
			RunE: func(cmd *cobra.Command, given []string) error {
				return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
					d, err := c.Replay(ctx, given[0], given[1])
					if err != nil {
						return err
					}
					if err := sh.emit(d, func(w io.Writer) { sh.showDelivery(w, d) }); err != nil || d.Verdict != "failed" {
						return err
					}
					return fmt.Errorf("no action could be made of it: %s", printable(d.Detail))
				})
			},
		},
		testWebhookCommand(sh),
		signCommand(sh),
		verifyCommand(sh),
	)
}

func (sh *shell) listWebhooks(ctx context.Context, c *api.Client) error {
	page, err := c.Webhooks(ctx)
	if err != nil {
		return err
	}
	return sh.emit(page, func(w io.Writer) {
		t := sh.table(w, "ROUTE", "SOURCE", "PATH", "CAME", "SECRETS USED", "LAST REFUSAL")
		for _, r := range page.Items {
			t.row(r.Route, r.Source, r.Path, came(r.Counts), used(r.Secrets), refusalOf(r.LastRefusal))
		}
		t.Flush()
	})
}

// came tells what there was of each verdict, in a fixed order.
func came(counts map[string]int) string {
	var parts []string
	for _, verdict := range []string{"queued", "duplicate", "filtered", "greeted", "failed", "closed", "looped", "refused"} {
		if n := counts[verdict]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	return strings.Join(parts, ", ")
}

// used tells of each secret when it was used last.
func used(secrets []api.WebhookSecret) string {
	var parts []string
	for _, s := range secrets {
		if s.LastUsedAt.IsZero() {
			parts = append(parts, "never")
		} else {
			parts = append(parts, stamp(s.LastUsedAt))
		}
	}
	return strings.Join(parts, ", ")
}

func refusalOf(r *api.WebhookRefusal) string {
	if r == nil {
		return ""
	}
	return stamp(r.At) + " " + r.Why
}

func deliveriesCommand(sh *shell) *cobra.Command {
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use:   "deliveries ROUTE [ID]",
		Short: "List what came to a route, newest first; with an ID show it with its body",
		Args:  args(1, 2),
		RunE: func(cmd *cobra.Command, given []string) error {
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
				if len(given) == 2 {
					d, err := c.Delivery(ctx, given[0], given[1])
					if err != nil {
						return err
					}
					return sh.emit(d, func(w io.Writer) { sh.showDelivery(w, d) })
				}
				return sh.listDeliveries(ctx, c, given[0], limit, cursor)
			})
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "at most so many, 1 to 1000")
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on where the last page ended")
	return cmd
}

func (sh *shell) listDeliveries(ctx context.Context, c *api.Client, route string, limit int, cursor string) error {
	page, err := c.Deliveries(ctx, route, limit, cursor)
	if err != nil {
		return err
	}
	return sh.emit(page, func(w io.Writer) {
		t := sh.table(w, "ID", "AT", "VERDICT", "EVENT", "DELIVERY", "REPEATS", "ACTIONS", "WHY")
		for _, d := range page.Items {
			t.row(d.ID, d.At, d.Verdict, printable(d.Event), printable(clip(d.DeliveryID, 40)), d.Repeats, strings.Join(d.Actions, " "), printable(clip(d.Detail, 80)))
		}
		t.Flush()
		sh.more(page.NextCursor)
	})
}

func (sh *shell) showDelivery(w io.Writer, d api.Delivery) {
	for _, row := range [][2]string{
		{"id", d.ID},
		{"route", d.Route + " (" + d.Source + ")"},
		{"at", stamp(d.At)},
		{"verdict", strings.TrimSpace(d.Verdict + " " + d.Detail)},
		{"event", d.Event},
		{"delivery", d.DeliveryID},
		{"actions", strings.Join(d.Actions, " ")},
		{"replay of", d.ReplayOf},
	} {
		if row[1] != "" {
			fmt.Fprintf(w, "%-10s %s\n", row[0], printable(row[1]))
		}
	}
	if len(d.Body) > 0 {
		fmt.Fprintln(w, printable(string(d.Body)))
	}
}

func testWebhookCommand(sh *shell) *cobra.Command {
	var headers []string
	cmd := &cobra.Command{
		Use:   "test ROUTE [FILE]",
		Short: "Show what a route would make of a body; nothing is enqueued",
		Long:  "Show what a route would make of a JSON body, from FILE or standard input. Nothing is enqueued, and no signature is asked for.",
		Example: `  echo '{"action":"opened"}' | pushctl webhook test github -H 'X-GitHub-Event: issues'
  pushctl webhook deliveries github 42 -o json | jq .body | pushctl webhook test github`,
		Args: args(1, 2),
		RunE: func(cmd *cobra.Command, given []string) error {
			body, err := sh.bodyOf(given[1:])
			if err != nil {
				return err
			}
			s := api.Sample{Body: json.RawMessage(body), Headers: map[string]string{}}
			for _, line := range headers {
				name, value, found := strings.Cut(line, ":")
				if !found {
					return usage("-H %s: write NAME: VALUE", line)
				}
				s.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
			if !json.Valid(body) {
				return usage("the body is not JSON")
			}
			return sh.call(cmd, func(ctx context.Context, c *api.Client) error { return sh.tryWebhook(ctx, c, given[0], s) })
		},
	}
	cmd.Flags().StringArrayVarP(&headers, "header", "H", nil, "a header of the delivery, NAME: VALUE; as often as needed")
	return cmd
}

func (sh *shell) tryWebhook(ctx context.Context, c *api.Client, route string, s api.Sample) error {
	trial, err := c.TestWebhook(ctx, route, s)
	if err != nil {
		return err
	}
	err = sh.emit(trial, func(w io.Writer) {
		if !trial.Matched {
			sh.say("the route's conditions leave it out")
		}
		for _, a := range trial.Actions {
			fmt.Fprintln(w, printable(string(a)))
		}
	})
	if err == nil && trial.Error != "" {
		return fmt.Errorf("it matches, but no action can be made of it: %s", printable(trial.Error))
	}
	return err
}

// bodyOf reads the file that is named, or standard input.
func (sh *shell) bodyOf(given []string) ([]byte, error) {
	if len(given) == 0 || given[0] == "-" {
		return io.ReadAll(io.LimitReader(sh.in, 32<<20))
	}
	return os.ReadFile(given[0])
}
