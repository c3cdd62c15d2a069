package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pushd/agentexec/daemon"
	"pushd/agentexec/setup"
)

func installCommand(sh *shell, f *agentFlags) *cobra.Command {
	var user, passwordFile string
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Make the agent a service: a systemd unit, or a Windows service",
		Long: `Make the agent a service of this system that starts with it. The settings file
must be there and make sense; its folder is made readable to its owner only
where it is the default one. Installing again brings the service up to date.

On Windows --user needs that account's password, from --password-file or typed;
an account without one (NT AUTHORITY\LocalService, a managed one) needs none.`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"server", "token-file", "ca", "machine", "data-dir", "max-concurrency", "drain-timeout", "log-level"} {
				if cmd.Flags().Changed(name) { // it would be lost without a word
					return usage("a service knows nothing of --%s: write it into the settings file", name)
				}
			}
			file, err := f.load(sh, cmd)
			if err != nil {
				return err
			}
			file.Defaults()
			if err := file.Validate(); err != nil {
				return &exitError{code: exitUsage, text: err.Error()}
			}
			path, err := f.path()
			if err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			password, err := sh.passwordOf(user, passwordFile)
			if err != nil {
				return err
			}
			if path == daemon.DefaultConfig() {
				if err := daemon.Secure(filepath.Dir(path), user); err != nil {
					return err
				}
			}
			unit := daemon.Unit{Program: self, Config: path, User: user, Password: password}
			if err := daemon.System().Install(cmd.Context(), unit); err != nil {
				return err
			}
			sh.say("installed %s; `pushd agent start` starts it", daemon.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&user, "user", "", "who runs it (default: root, or LocalSystem, which has no logins of users)")
	cmd.Flags().StringVar(&passwordFile, "password-file", "", "on Windows, a file with the password of --user")
	return cmd
}

// passwordOf is what Windows needs to start a service as a user. It is in no
// command line: those are for everyone to see.
func (t *terminal) passwordOf(user, file string) (string, error) {
	in, isFile := t.in.(*os.File)
	switch {
	case file != "" && (user == "" || runtime.GOOS != "windows"):
		return "", usage("--password-file is for --user, on Windows")
	case file != "":
		return setup.ReadSecret("--password-file", file)
	case user == "" || runtime.GOOS != "windows" || !isFile || !isTerminal(in):
		return "", nil
	}
	fmt.Fprintf(t.err, "Password of %s (empty: it has none): ", user)
	raw, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(t.err)
	return string(raw), err
}

// agentVerbs are the commands that act on the installed service.
func agentVerbs(sh *shell) (commands []*cobra.Command) {
	system := daemon.System()
	for _, v := range []struct {
		name, short, done string
		act               func(context.Context) error
	}{
		{"uninstall", "Stop the service and remove it; settings and journal stay", "removed", system.Uninstall},
		{"start", "Start the service", "started", system.Start},
		{"stop", "Stop the service: what runs gets its time", "stopped", system.Stop},
	} {
		commands = append(commands, &cobra.Command{
			Use: v.name, Short: v.short, Args: args(0, 0),
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := v.act(cmd.Context()); err != nil {
					return err
				}
				sh.say("%s %s", v.done, daemon.Name)
				return nil
			},
		})
	}
	return append(commands, &cobra.Command{
		Use: "status", Short: "Tell the state of the service", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := system.Status(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(sh.out, state)
			return err
		},
	})
}
