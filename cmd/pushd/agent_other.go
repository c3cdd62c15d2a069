//go:build !windows

package main

import "github.com/spf13/cobra"

// serviceCommand is for Windows only: elsewhere a service is a process as any.
func serviceCommand(*shell, *agentFlags) *cobra.Command {
	return &cobra.Command{Use: "service", Hidden: true, RunE: func(*cobra.Command, []string) error {
		return usage("pushd agent service is for Windows; here it is pushd agent")
	}}
}
