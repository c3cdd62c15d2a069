package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// Nothing that is secret is said: not in the log at its loudest, not in a crash,
// not by config show, and it is not on disk.
func TestSecretsAreSaidNowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := start(dir, "log.level=debug")
	require.NoError(t, err)
	t.Cleanup(d.kill)
	require.NoError(t, d.ready())
	token, err := d.client().CreateToken(t.Context(), api.NewToken{Name: "boss", Scopes: []string{"admin"}})
	require.NoError(t, err)
	secret := strings.TrimPrefix(token.Text, "pushd_")
	require.Len(t, secret, 43)
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/queue", ""},
		{"POST", "/v1/actions", `{"machine_id":"m1","type":"job","payload":"s3cret-payload"}`},
		{"POST", "/v1/session", `{"token":"` + token.Text + `"}`},
		{"GET", "/queue?token=" + token.Text, ""},
		{"POST", "/acks", "{" + token.Text},
		{"GET", "/v1/actions/" + token.Text, ""},
		{"GET", "/" + token.Text, ""},
		{"POST", "/v1/tokens", `{"name":"x","scopes":["` + token.Text + `"]}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, d.base+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token.Text)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	_, err = d.end(syscall.SIGQUIT) // a crash tells of each goroutine
	require.NoError(t, err)
	shown, talk, code := run(t, "pushctl", "config", "show")
	require.Zero(t, code, talk)
	said := d.log.String() + shown + talk
	require.Contains(t, said, `"route":"/v1/actions"`, "it was logged at all")
	require.Contains(t, said, "goroutine ", "it crashed")
	raw, err := os.ReadFile(filepath.Join(dir, "pushd.db"))
	require.NoError(t, err)
	require.Contains(t, string(raw), "s3cret-payload", "payloads are kept as they are")
	require.NotContains(t, said, "s3cret-payload")
	require.NotContains(t, said+string(raw), secret)
}
