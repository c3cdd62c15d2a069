package web_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// browse asks under a cookie, as a browser that was signed in would.
func (s *server) browse(t *testing.T, method, path string, cookie *http.Cookie, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.base+path, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if cookie != nil {
		req.AddCookie(cookie)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp
}

// signIn exchanges a token for a cookie.
func (s *server) signIn(t *testing.T, token string) *http.Cookie {
	t.Helper()
	resp := s.browse(t, http.MethodPost, "/v1/session", nil, `{"token":"`+token+`"}`)
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.Len(t, resp.Cookies(), 1)
	return resp.Cookies()[0]
}

// reads is the status of a page's question under a cookie.
func (s *server) reads(t *testing.T, cookie *http.Cookie) int {
	t.Helper()
	return s.browse(t, http.MethodGet, "/queue", cookie, "").StatusCode
}

func TestASessionOutlivesTheServerAndASignOutToo(t *testing.T) {
	s := serve(t)
	s.token = s.mint(t, "root", "admin")
	reader := s.mint(t, "reader", "read")
	stays, leaves, revoked := s.signIn(t, s.token), s.signIn(t, s.token), s.signIn(t, reader)
	require.Equal(t, http.StatusNoContent, s.browse(t, http.MethodDelete, "/v1/session", leaves, "").StatusCode)
	s.kill() // as hard as can be: what was answered is on disk
	s.restart(t)
	require.Equal(t, http.StatusOK, s.reads(t, stays))
	require.Equal(t, http.StatusOK, s.reads(t, revoked))
	require.Equal(t, http.StatusUnauthorized, s.reads(t, leaves), "who signed out stays out")
	forged := *stays
	forged.Value = "A" + stays.Value[1:]
	if forged.Value == stays.Value {
		forged.Value = "B" + stays.Value[1:]
	}
	require.Equal(t, http.StatusUnauthorized, s.reads(t, &forged))

	tokens, err := s.client().Tokens(t.Context())
	require.NoError(t, err)
	for _, token := range tokens {
		if token.Name == "reader" {
			require.NoError(t, s.client().DropToken(t.Context(), token.ID))
		}
	}
	require.Equal(t, http.StatusUnauthorized, s.reads(t, revoked))
	s.kill()
	s.restart(t)
	require.Equal(t, http.StatusUnauthorized, s.reads(t, revoked), "nor does a restart bring a revoked token's session back")
	again := s.browse(t, http.MethodPost, "/v1/session", stays, `{"token":"`+s.token+`"}`)
	require.Equal(t, http.StatusUnauthorized, s.reads(t, stays), "a new sign-in ends the session that was")
	require.Equal(t, http.StatusOK, s.reads(t, again.Cookies()[0]))
}

func TestTheFileOfSessionsOpensNothing(t *testing.T) {
	s := serve(t)
	s.token = s.mint(t, "root", "admin")
	cookie := s.signIn(t, s.token)
	path := filepath.Join(s.dir, "sessions.json")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotContains(t, string(raw), cookie.Value)
	require.NotContains(t, string(raw), s.token)
	for key := range strings.SplitSeq(string(raw), `"`) { // the hash is no cookie
		require.Equal(t, http.StatusUnauthorized, s.reads(t, &http.Cookie{Name: cookie.Name, Value: strings.Trim(key, "{}:,")}))
	}
	s.kill()
	require.NoError(t, os.WriteFile(path, []byte(`{"torn`), 0o600))
	s.restart(t)
	require.Contains(t, s.log.String(), "everybody has to sign in again")
	require.Equal(t, http.StatusUnauthorized, s.reads(t, cookie))
	require.Equal(t, http.StatusOK, s.reads(t, s.signIn(t, s.token)))
}

// The page goes on over a restart, under the same sign-in.
func TestAPageStaysSignedInOverARestart(t *testing.T) {
	s := serve(t)
	s.token = s.mint(t, "root", "admin")
	s.push(t, "before", "win-1")
	b := visitor(t, s)
	b.open("/ui/actions")
	signIn(b, s.token)
	b.live()
	b.shows("before", "queued")
	same := b.stays()
	s.kill()
	b.wait(`document.querySelector('#link-state').textContent.startsWith('reconnecting')`)
	s.restart(t)
	s.push(t, "after", "win-1")
	b.live()
	b.shows("after", "queued")
	require.Zero(t, js[int](b, `document.querySelectorAll('#token').length`))
	same()
	b.click("Sign out")
	b.see("Sign in")
	s.kill()
	s.restart(t)
	b.open("/ui/actions")
	b.see("Sign in")
	b.clean()
}
