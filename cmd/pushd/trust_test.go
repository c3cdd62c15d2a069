package main_test

import (
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
	base := "https://" + <-d.log.address

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
