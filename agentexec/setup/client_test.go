package setup

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheClientTrustsWhatItIsTold(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
	}))
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(block), 0o600))
	get := func(ca, path string) (int, error) {
		client, err := httpClient(ca)
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		resp, err := client.Get(srv.URL + path)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	_, err := get("", "/")
	require.ErrorContains(t, err, "certificate")
	code, err := get(ca, "/")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	code, err = get(ca, "/away")
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, code, "the token goes nowhere else")
	require.NoError(t, os.WriteFile(ca, []byte("no certificate"), 0o600))
	_, err = httpClient(ca)
	require.ErrorContains(t, err, "no certificate")
}

func TestATokenIsReadAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	v := &vault{file: path}
	for _, text := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		got, err := v.token()
		require.NoError(t, err)
		require.Equal(t, text, got)
		require.Contains(t, v.secrets(), text)
	}
	for _, bad := range []string{"", "\n", "two\nlines\n"} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := v.token()
		require.Error(t, err)
	}
}
