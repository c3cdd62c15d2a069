package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/api"
	"pushd/stream"
)

func tailCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "tail [MACHINE]",
		Short: "Watch what happens to a machine's actions, as it happens",
		Long: `Watch what happens to a machine's actions, or to all, until interrupted. It
reads the server's feed of changes, never the machine's own stream: to watch
takes no work from its agent. It begins now; pushctl ls tells what was before.
What is too much at once (on all machines together) is left out, and said to be.
With -o json each change is one line of JSON.`,
		Example: `  pushctl tail win-1
  pushctl tail -o json | jq .state`,
		Args:              args(0, 1),
		ValidArgsFunction: sh.completeMachines,
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := sh.client()
			if err != nil {
				return err
			}
			machine := ""
			if len(given) > 0 {
				machine = given[0]
			}
			return sh.tail(cmd.Context(), c, machine)
		},
	}
}

func (sh *shell) tail(ctx context.Context, c *api.Client, machine string) error {
	return watch(ctx, c, watcher{
		begun: func() { sh.say("watching; Ctrl-C ends it") },
		missed: func(n uint64) {
			sh.say("%d changes were too many at once and are not shown; pushctl ls tells how things are now", n)
		},
		change: func(change api.Change) error {
			if machine != "" && change.MachineID != machine {
				return nil
			}
			if sh.output == "json" {
				return sh.line(change)
			}
			_, err := fmt.Fprintln(sh.out, sentence(change))
			return err
		},
	})
}

// sentence puts a change into words: 15:04:05.000 win-1 a1 queued pushed.
func sentence(c api.Change) string {
	parts := []string{c.At.Local().Format("15:04:05.000")}
	for _, part := range []string{c.MachineID, c.ActionID, c.State, c.Event, printable(c.Detail)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// watcher is told what the feed tells.
type watcher struct {
	begun  func() // the feed is open: what happens after it is told
	missed func(n uint64)
	change func(api.Change) error
}

// watch reads the feed of changes until ctx ends, the watcher fails or the server goes.
func watch(ctx context.Context, c *api.Client, w watcher) error {
	// The answer may take its time to begin only as long as a server that is there.
	transport := c.HTTP.Transport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 30 * time.Second
	patient := *c
	patient.HTTP = &http.Client{Transport: transport}
	resp, err := patient.Feed(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	w.begun()
	events := stream.NewDecoder(resp.Body)
	for {
		event, err := events.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return &exitError{code: exitUnreachable, text: "the server has ended the feed", next: "start again when it is back"}
		case err != nil:
			return err
		}
		if err := w.hear(event); err != nil {
			return err
		}
	}
}

func (w *watcher) hear(event stream.Event) error {
	switch event.Name {
	case "change", "machine":
		var change api.Change
		if err := json.Unmarshal(event.Data, &change); err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		return w.change(change)
	case "resync":
		var resync struct{ Missed uint64 }
		if err := json.Unmarshal(event.Data, &resync); err != nil {
			return fmt.Errorf("feed: %w", err)
		}
		w.missed(resync.Missed)
	}
	return nil
}
