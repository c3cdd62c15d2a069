package main

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"
)

//go:embed dist/pushd.service
var systemdUnit string

// serveVerbs are about the server as a service of its system.
func serveVerbs(sh *shell, f *settingFlags) []*cobra.Command {
	unit := &cobra.Command{
		Use:   "unit",
		Short: "Print the unit for systemd",
		Long: `Print the unit for systemd: hardened, with a watchdog that the server's own sweep
feeds. Packages install it; by hand it goes to /etc/systemd/system/pushd.service,
with the binary at /usr/bin/pushd.`,
		Args: args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(sh.out, systemdUnit)
			return err
		},
	}
	return append([]*cobra.Command{unit}, windowsVerbs(sh, f)...)
}
