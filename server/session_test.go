package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server"
)

// signIn exchanges a token's name for the header of a cookie.
func (r *rig) signIn(name string, headers ...string) string {
	r.t.Helper()
	a := r.want(204, "POST", "/v1/session", map[string]any{"token": r.tokens[name]}, nil, headers...)
	pair, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return "Cookie: " + pair
}

func TestASessionEndsAWeekAfterItsSignIn(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	r := start(t, options{tokens: scopes, now: clock.now})
	cookie := r.signIn("read")
	clock.set(7*24*time.Hour - time.Hour)
	r.want(200, "GET", "/queue", nil, nil, cookie)
	clock.set(7 * 24 * time.Hour)
	r.want(401, "GET", "/queue", nil, nil, cookie)
}

func TestASignOutEndsTheFeedsOfItsSessionAndNoOthers(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	leaves, stays := r.signIn("read"), r.signIn("read")
	ends, goesOn := r.watch("", leaves), r.watch("", stays)
	r.want(204, "DELETE", "/v1/session", nil, nil, leaves)
	ends.end()
	r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil, r.as("admin"))
	require.Contains(t, goesOn.await("change"), `"a1"`)
	r.want(200, "GET", "/queue", nil, nil, stays)
}

func TestAFeedEndsWithItsSession(t *testing.T) {
	t.Parallel()
	var at atomic.Int64 // the clock stands
	at.Store(time.Now().UnixNano())
	r := start(t, options{tokens: scopes, config: func(c *server.Config) { c.Now = func() time.Time { return time.Unix(0, at.Load()) } }})
	first := r.signIn("read")
	feed := r.watch("", first)
	second := r.signIn("read", first)
	feed.end()
	r.want(401, "GET", "/queue", nil, nil, first)
	at.Add(int64(7*24*time.Hour - 100*time.Millisecond))
	r.watch("", second).end()
}

// Whoever comes to look after a full disk must get in; a sign-out that is not on
// disk says so, and can be asked for again.
func TestSessionsWhereTheDiskIsNotToBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	file := filepath.Join(dir, "sessions.json")
	r := start(t, options{tokens: scopes, config: func(c *server.Config) { c.SessionFile = file }})
	cookie := r.signIn("read")
	require.Contains(t, r.log.String(), "a session is not on disk")
	r.want(200, "GET", "/queue", nil, nil, cookie)
	r.want(503, "DELETE", "/v1/session", nil, nil, cookie)
	r.want(401, "GET", "/queue", nil, nil, cookie)
	require.NoError(t, os.Mkdir(dir, 0o700))
	r.want(204, "DELETE", "/v1/session", nil, nil, cookie)
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "{}", string(raw))
}
