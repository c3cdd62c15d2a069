//go:build !windows

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

// windowsVerbs are on Windows.
func windowsVerbs(*shell, *settingFlags) []*cobra.Command { return nil }

// hosted runs the server in the way of its system: here that is nothing special.
func hosted(ctx context.Context, logs io.Writer, _ string, run func(ctx context.Context, logs io.Writer) error) error {
	return run(ctx, logs)
}
