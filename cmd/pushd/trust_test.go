package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server whose certificate is of one's own authority is talked to once that is
// trusted, by every command in the same way, and by nobody else.
func TestAnAuthorityOfOnesOwnIsTrusted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certify(t, dir)
	cert := filepath.Join(dir, "cert.pem")
	sample := filepath.Join(dir, "pushd.yaml")
	require.NoError(t, os.WriteFile(sample, []byte("webhooks: {routes: [{id: open, source: none, actions: [{machine_id: m1, type: job}]}]}\n"), 0o600))
	d, err := start(filepath.Join(dir, "data"), "tls.cert_file="+cert, "tls.key_file="+filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.stop()) })
	address, err := d.listens()
	require.NoError(t, err)
	base := "https://" + address

	_, talk, code := run(t, "pushctl", "-s", base, "ls")
	require.Equal(t, 6, code)
	require.Contains(t, talk, "trust its authority with --ca FILE or PUSHD_CA")
	_, talk, code = run(t, "pushctl", "-s", base, "--ca", filepath.Join(dir, "key.pem"), "ls")
	require.Equal(t, 1, code)
	require.Contains(t, talk, "holds no certificate")

	_, talk, code = run(t, "pushctl", "-s", base, "--ca", cert, "push", "m1", "1", "--id", "a1")
	require.Equal(t, 0, code, talk)
	_, talk, code = run(t, "pushctl", "-s", base, "--ca", cert, "backup", filepath.Join(dir, "copy.db"))
	require.Equal(t, 0, code, talk)
	out, talk, code := run(t, "pushctl", "-s", base, "--ca", cert, "webhook", "sign", "open", "--config", sample, filepath.Join(dir, "pushd.yaml"), "--send")
	require.Equal(t, 1, code, out)
	require.Contains(t, talk, "404", "it came through: this server has no such route")
	out, talk, code = run(t, "pushctl", "--ca", cert, "doctor", "--url", base)
	require.Equal(t, 0, code, out+talk)

	show := exec.Command(filepath.Join(bin, "pushctl"), "show", "a1")
	show.Env = append(clean(os.Environ()), "PUSHD_URL="+base, "PUSHD_CA="+cert)
	raw, err := show.CombinedOutput()
	require.NoError(t, err, "%s", raw)
	require.Contains(t, string(raw), "a1")
	require.NotContains(t, string(raw), "no setting")
}

// An agent beside a server finds it where the settings file has it listen, and over
// TLS where it speaks that.
func TestAnAgentBesideAServerFindsItByItsSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certify(t, dir)
	base := "127.0.0.1:" + steadyPort(t)
	for name, text := range map[string]string{
		"pushd.yaml": fmt.Sprintf("listen: %s\nlog.format: json\ntls: {cert_file: cert.pem, key_file: key.pem}\n", base),
		"agent.yaml": "machine_id: m1\nca: cert.pem\nhandlers: {job: {kind: exec, command: [cat]}}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.Command(filepath.Join(bin, "pushd"), "serve", "--config", "pushd.yaml", "--agent", "agent.yaml")
	cmd.Dir, cmd.Env = dir, clean(os.Environ())
	d, err := launch(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, d.stop())
		require.Zero(t, d.cmd.ProcessState.ExitCode(), d.log.String())
	})
	_, err = d.listens()
	require.NoError(t, err)
	_, talk, code := run(t, "pushctl", "-s", "https://"+base, "--ca", filepath.Join(dir, "cert.pem"), "push", "m1", "1", "--wait", "--timeout", patience.String())
	require.Equal(t, 0, code, "%s\n%s", talk, d.log.String())
}
