package daemon_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/daemon"
)

func TestAUnitComesAndGoes(t *testing.T) {
	var calls []string
	s := &daemon.Systemd{Dir: t.TempDir(), Ctl: func(_ context.Context, args ...string) (string, error) {
		calls = append(calls, strings.Join(args, " "))
		if args[0] == "is-active" {
			return "inactive", errors.New("exit 3")
		}
		return "", nil
	}}
	ctx := t.Context()
	require.ErrorIs(t, s.Start(ctx), daemon.ErrNotInstalled)
	require.ErrorIs(t, s.Uninstall(ctx), daemon.ErrNotInstalled)
	u := daemon.Unit{Program: "/opt/pu$hd/pushd", Config: "/etc/pushd/100%.yaml", User: "bot"}
	for range 2 {
		require.NoError(t, s.Install(ctx, u), "it can be repeated")
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "pushd-agent.service"))
	require.NoError(t, err)
	require.Contains(t, string(text), `ExecStart="/opt/pu$$hd/pushd" agent --config "/etc/pushd/100%%.yaml"`)
	require.Contains(t, string(text), "User=bot\n")
	require.NoError(t, s.Start(ctx))
	state, err := s.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "inactive", state)
	require.NoError(t, s.Uninstall(ctx))
	require.Equal(t, []string{
		"daemon-reload", "enable pushd-agent", "daemon-reload", "enable pushd-agent", "start pushd-agent",
		"is-active pushd-agent", "disable --now pushd-agent", "daemon-reload",
	}, calls)
	_, err = os.Stat(filepath.Join(s.Dir, "pushd-agent.service"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAUnitHoldsNoLineOfAnother(t *testing.T) {
	_, err := daemon.Unit{Program: "/x\nExecStartPre=/bin/evil", Config: "/c"}.Text()
	require.Error(t, err)
}
