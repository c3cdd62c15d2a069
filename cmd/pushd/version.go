package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the Makefile; a build without it says what Go knows.
var version = ""

func versionCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell which build this is",
		Args:  args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := map[string]string{"version": buildVersion(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
			return sh.emit(v, func(w io.Writer) {
				fmt.Fprintf(w, "pushd %s (%s, %s)\n", v["version"], v["go"], v["platform"])
			})
		},
	}
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
