package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server"
	"pushd/server/api"
)

func TestATokenInTheQueryIsRefusedBeforeAllElseAndNotRepeated(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	secret := r.tokens["admin"]
	for _, q := range []string{"?token=", "?access_token=", "?AUTH=", "?x=1&authorization=", "?%74oken=", "?machine_id=m1&token="} {
		for _, path := range []string{"/queue", "/nothing", "/webhooks/x"} {
			a := r.want(400, "GET", path+q+secret, nil, nil)
			require.NotContains(t, string(a.body), secret)
		}
	}
	require.NotContains(t, r.log.String(), secret)
}

func TestTheLogHoldsNoSecretNoPayloadAndNoQuery(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	r.want(201, "POST", "/v1/actions", map[string]any{"action_id": "a1", "machine_id": "m1", "type": "job", "payload": "pay-load"}, nil, r.as("admin"))
	r.want(200, "GET", "/v1/actions?label=que:ry", nil, nil, r.as("admin"))
	r.want(404, "GET", "/v1/nothing/in-the-path", nil, nil, r.as("admin"))
	r.want(204, "POST", "/v1/session", map[string]any{"token": r.tokens["admin"]}, nil)
	r.want(401, "GET", "/queue", nil, nil, "Authorization: Bearer wrong-token")
	log := r.log.String()
	require.Contains(t, log, `"route":"/v1/actions"`)
	require.Contains(t, log, `"machine":"m1"`)
	for _, secret := range []string{r.tokens["admin"], "pay-load", "que:ry", "in-the-path", "wrong-token"} {
		require.NotContains(t, log, secret)
	}
}

func TestAnOpenServerAnswersItsOwnHostOnly(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	_, port, _ := strings.Cut(r.addr, ":")
	for _, header := range []string{
		"Host: evil.example", "Host: 192.0.2.7:8080", "Host: localhost.evil.example", "Host: 127.0.0.1.evil.example", "Host: [2001:db8::1]:80",
		"Forwarded: for=192.0.2.7", "X-Forwarded-For: 192.0.2.7", "Via: 1.1 proxy",
	} {
		for _, path := range []string{"/queue", "/events?machine_id=m1", "/healthz", "/nothing"} {
			r.want(421, "GET", path, nil, nil, header)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:" + port, "127.0.0.1:" + port, "[::1]:" + port, "127.8.8.8"} {
		r.want(200, "GET", "/queue", nil, nil, "Host: "+host)
	}
}

func TestAnInsecureServerAnswersAnyHost(t *testing.T) {
	t.Parallel()
	r := start(t, options{config: func(c *server.Config) { c.Insecure = true }})
	r.want(200, "GET", "/queue", nil, nil, "Host: pushd.example")
	r.want(403, "GET", "/queue", nil, nil, "Sec-Fetch-Site: cross-site")
}

func TestOtherSitesAreRefusedEverywhereButAtWebhooks(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	for _, header := range []string{
		"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example", "Origin: null", "Origin: http://127.0.0.1:1", "Origin: ftp://" + r.addr,
	} {
		r.want(403, "GET", "/queue", nil, nil, header)
		r.want(403, "POST", "/v1/actions", push("a1", "m1"), nil, header)
		r.want(404, "POST", "/webhooks/none", none, nil, header)
	}
	for _, header := range []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "Origin: http://" + r.addr, "Origin: https://" + r.addr} {
		r.want(200, "GET", "/queue", nil, nil, header)
	}
	r.want(200, "GET", "/queue", nil, nil, "Host: localhost", "Origin: http://localhost:80")
	r.want(404, "GET", "/v1/actions/a1", nil, nil)
}

func TestTheFirstTokenClosesAnOpenServer(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	var token api.Token
	a := r.want(201, "POST", "/v1/tokens", map[string]any{"name": "boss", "scopes": []string{"admin"}}, &token)
	require.Contains(t, string(a.body), `"token":"pushd_`)
	r.want(401, "GET", "/queue", nil, nil)
	bearer := "Authorization: Bearer " + token.Text
	r.want(200, "GET", "/queue", nil, nil, bearer, "Host: pushd.example")
	require.NotContains(t, string(r.want(200, "GET", "/v1/tokens", nil, nil, bearer).body), token.Text)
	r.want(204, "DELETE", "/v1/tokens/"+token.ID, nil, nil, bearer)
	r.want(200, "GET", "/queue", nil, nil)
}

func TestACookieStandsForItsTokenUntilItEnds(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	begin := func(who string) string {
		a := r.want(204, "POST", "/v1/session", map[string]any{"token": r.tokens[who]}, nil)
		cookie := a.header.Get("Set-Cookie")
		require.Contains(t, cookie, "HttpOnly")
		require.Contains(t, cookie, "SameSite=Strict")
		pair, _, _ := strings.Cut(cookie, ";")
		require.NotContains(t, pair, r.tokens[who])
		return "Cookie: " + pair
	}
	r.want(401, "POST", "/v1/session", map[string]any{"token": "wrong"}, nil)
	admin, reader := begin("admin"), begin("read")
	r.want(200, "GET", "/queue", nil, nil, reader)
	r.want(403, "GET", "/v1/tokens", nil, nil, reader)
	r.want(204, "DELETE", "/v1/session", nil, nil, reader)
	r.want(401, "GET", "/queue", nil, nil, reader)
	// The token's end is the session's.
	var page api.List[api.Token]
	r.want(200, "GET", "/v1/tokens", nil, &page, admin)
	for _, token := range page.Items {
		if token.Name == "admin" {
			r.want(204, "DELETE", "/v1/tokens/"+token.ID, nil, nil, admin)
		}
	}
	r.want(401, "GET", "/queue", nil, nil, admin)
}

func TestWhatIsOpenUnderATokenEndsWithIt(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	boss := r.client("admin")
	create := func(name string, expires time.Time) api.Token {
		token, err := boss.CreateToken(t.Context(), api.NewToken{Name: name, Scopes: []string{"agent:*", "read"}, ExpiresAt: api.At(expires)})
		require.NoError(t, err)
		r.tokens[name] = token.Text
		return token
	}
	dropped := create("dropped", time.Time{})
	create("expiring", time.Now().Add(5*time.Second)) // which is long after the hello
	one, two := r.subscribe("m1", "dropped"), r.subscribe("m2", "expiring")
	feed := r.watch("dropped")
	one.await("hello")
	two.await("hello")
	require.NoError(t, boss.DropToken(t.Context(), dropped.ID))
	require.Contains(t, one.await("bye"), `"revoked"`)
	require.Contains(t, two.await("bye"), `"revoked"`)
	feed.end()
	require.Equal(t, http.StatusUnauthorized, r.call("GET", "/queue", nil, r.as("expiring")).status)
	require.True(t, api.IsStatus(boss.DropToken(t.Context(), dropped.ID), 404))
}
