package main

import (
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"pushd/server/alert"
	"pushd/server/webhook"
)

func alertCommand(sh *shell) *cobra.Command {
	var file string
	test := &cobra.Command{
		Use:   "test [RECEIVER]",
		Short: "Send each receiver of a settings file, or one, a test message now",
		Long: `Send each receiver in the section alerts of a settings file, or the one named, a
test message: from here, at once, and past all grouping. docs/webhooks.md has the
receivers.`,
		Args: args(0, 1),
		RunE: func(cmd *cobra.Command, given []string) error {
			path := firstOf(file, sh.getenv("PUSHD_CONFIG"))
			if path == "" {
				return usage("name the settings file with --config or PUSHD_CONFIG")
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			c, err := alert.Load(raw, webhook.Env{Getenv: sh.getenv, ReadFile: os.ReadFile})
			if err != nil {
				return err
			}
			return sh.tellTested(alert.Test(cmd.Context(), c, firstOf(given...), time.Now()))
		},
	}
	test.Flags().StringVar(&file, "config", "", "the settings file that has the receivers (PUSHD_CONFIG)")
	return group(&cobra.Command{Use: "alert", Short: "Try who is told of what goes wrong"}, test)
}

func (sh *shell) tellTested(results map[string]error) error {
	if len(results) == 0 {
		return &exitError{code: exitNotFound, text: "there is no such receiver", next: "the section alerts of the settings file has them"}
	}
	type told struct {
		Receiver string `json:"receiver"`
		OK       bool   `json:"ok"`
		Error    string `json:"error,omitempty"`
	}
	var items []told
	failed := 0
	for _, id := range slices.Sorted(maps.Keys(results)) {
		t := told{Receiver: id, OK: results[id] == nil}
		if !t.OK {
			failed++
			t.Error = results[id].Error()
		}
		items = append(items, t)
	}
	err := sh.emit(map[string]any{"items": items}, func(w io.Writer) {
		t := sh.table(w, "RECEIVER", "TAKEN", "WHY NOT")
		for _, i := range items {
			t.row(i.Receiver, i.OK, i.Error)
		}
		t.Flush()
	})
	if err == nil && failed > 0 {
		return &exitError{code: exitFailure, text: "not every receiver took the message"}
	}
	return err
}
