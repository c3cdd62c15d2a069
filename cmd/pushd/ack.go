package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/api"
)

func ackCommand(sh *shell) *cobra.Command {
	a := api.Ack{}
	var result, message, kind, code, note string
	var percent float64
	var retryAfter, delay time.Duration
	cmd := &cobra.Command{
		Use:   "ack ID [received|working|done|failed|released|cancelled]",
		Short: "Answer for an action as its agent would",
		Long: `Answer for an action as its agent would; done if no status is named. Prints
what came of it: settled, accepted, retry, duplicate, late, stale …`,
		Example: `  pushctl ack render-17 done --result '{"pages":3}'
  pushctl ack render-17 failed --kind transient --error "no licence server" --retry-after 2m`,
		Args: args(1, 2),
		RunE: func(cmd *cobra.Command, given []string) error {
			a.ActionID, a.Status = given[0], "done"
			if len(given) > 1 {
				a.Status = given[1]
			}
			raw, err := sh.payload(result, false)
			if err != nil {
				return err
			}
			a.Result = raw
			if message != "" || kind != "" || code != "" {
				a.Error = &api.Failure{Kind: kind, Message: message, Code: code}
			}
			if note != "" || cmd.Flags().Changed("percent") {
				a.Progress = &api.Progress{Note: note}
				if cmd.Flags().Changed("percent") {
					a.Progress.Percent = &percent
				}
			}
			if retryAfter > 0 {
				a.RetryAfterS = api.S(retryAfter)
			}
			if delay > 0 {
				a.DelayS = api.S(delay)
			}
			return runAck(cmd, sh, a)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&a.Delivery, "delivery", 0, "the delivery it speaks of (default: the newest)")
	flags.StringVar(&a.MachineID, "machine", "", "the machine that speaks")
	flags.StringVar(&result, "result", "", "of done: JSON, - or @FILE")
	flags.StringVar(&message, "error", "", "of failed: what went wrong")
	flags.StringVar(&kind, "kind", "", "of failed: error, transient, quota, config or permanent")
	flags.StringVar(&code, "code", "", "of failed: a code of your own")
	flags.DurationVar(&retryAfter, "retry-after", 0, "of failed: when to try again")
	flags.DurationVar(&delay, "delay", 0, "of released: not before this long from now")
	flags.Float64Var(&percent, "percent", 0, "of working: how far it is")
	flags.StringVar(&note, "note", "", "of working: what it does")
	return cmd
}

func runAck(cmd *cobra.Command, sh *shell, a api.Ack) error {
	return sh.call(cmd, func(ctx context.Context, c *api.Client) error {
		answer, err := c.Ack(ctx, a)
		if err != nil {
			return err
		}
		return sh.emit(answer, func(w io.Writer) {
			fmt.Fprintf(w, "%s %s %s\n", answer.ActionID, answer.Outcome, answer.State)
			if answer.Cancel {
				sh.say("the server asks you to stop working on it")
			}
		})
	})
}
