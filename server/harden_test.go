package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server"
	"pushd/server/api"
)

func TestAnAddressThatGoesOnWithBadTokensIsToldToWait(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes, config: func(c *server.Config) { c.MaxTries, c.TriesWindow = 3, time.Hour }})
	for range 3 {
		r.want(401, "GET", "/queue", nil, nil, "Authorization: Bearer wrong")
	}
	a := r.want(429, "GET", "/queue", nil, nil, "Authorization: Bearer wrong")
	require.Equal(t, "1200", a.header.Get("Retry-After"))
	r.want(429, "POST", "/v1/session", map[string]any{"token": "wrong"}, nil)
	r.want(429, "GET", "/events?machine_id=win-1", nil, nil, "Authorization: Basic d3Jvbmc=")
	r.want(401, "GET", "/queue", nil, nil) // who shows none has not tried
	r.want(200, "GET", "/queue", nil, nil, r.as("read"))
	require.Equal(t, 3.0, sum(r.scrape(r.as("read")), "pushd_auth_failures_total", `"limited"`))
}

// Only what a trusted proxy has seen counts as who comes through it.
func TestTheClientIsWhoTheTrustedProxySaw(t *testing.T) {
	t.Parallel()
	proxy := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct {
		trusted []netip.Prefix
		forward string
		want    string // empty: the peer of the connection
	}{
		{nil, "192.0.2.7", ""},
		{proxy, "", ""},
		{proxy, "192.0.2.7", "192.0.2.7"},
		{proxy, "203.0.113.1, 192.0.2.7", "192.0.2.7"},
		{proxy, "203.0.113.1, 192.0.2.7, 10.0.0.9", "192.0.2.7"},
		{proxy, "10.0.0.8, 10.0.0.9", "10.0.0.8"},
		{proxy, "192.0.2.7:4711", "192.0.2.7"},
		{proxy, "[2001:db8::1]:99", "2001:db8::1"},
		{proxy, "::ffff:192.0.2.7", "192.0.2.7"},
		{proxy, "192.0.2.7, unknown", ""},
		{proxy, "nonsense", ""},
	} {
		t.Run(fmt.Sprint(len(c.trusted), c.forward), func(t *testing.T) {
			t.Parallel()
			r := start(t, options{tokens: scopes, config: func(cfg *server.Config) { cfg.TrustedProxies = c.trusted }})
			r.want(204, "POST", "/next?machine_id=win-1", none, nil, r.as("agent"), "X-Forwarded-For: "+c.forward)
			var m api.Machine
			r.want(200, "GET", "/v1/machines/win-1", nil, &m, r.as("read"))
			if c.want == "" {
				require.True(t, strings.HasPrefix(m.Address, "127.0.0.1:"), m.Address)
			} else {
				require.Equal(t, c.want, m.Address)
			}
		})
	}
}

func TestTriesAreCountedByTheClientNotByItsProxy(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes, config: func(c *server.Config) {
		c.MaxTries, c.TriesWindow = 2, time.Hour
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}})
	try := func(status int, from string) {
		r.want(status, "GET", "/queue", nil, nil, "Authorization: Bearer wrong", "X-Forwarded-For: "+from)
	}
	for _, status := range []int{401, 401, 429} {
		try(status, "192.0.2.7")
	}
	try(401, "192.0.2.8")
	for i, status := range []int{401, 401, 429} { // one network of IPv6 is one client
		try(status, fmt.Sprintf("2001:db8:0:1::%d", i))
	}
	try(401, "2001:db8:0:2::1")
}

func TestTheAddressesRememberedAreBounded(t *testing.T) {
	t.Parallel()
	th := server.NewThrottleForTest(2, time.Minute, time.Now)
	for i := range 50_000 {
		th.Strike(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}).String())
	}
	require.LessOrEqual(t, th.Size(), 8192)
}

func TestEachAnswerSaysWhatABrowserMustNotDo(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	for _, c := range routeCases {
		method, _, _ := strings.Cut(c.route, " ")
		path := c.path
		a := r.call(method, path, c.body, r.as("elsewhere"))
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"), c.route)
		require.Contains(t, a.header.Get("Content-Security-Policy"), "frame-ancestors 'none'", c.route)
		require.Equal(t, "same-origin", a.header.Get("Cross-Origin-Resource-Policy"), c.route)
		require.NotEmpty(t, a.header.Get("X-Request-Id"), c.route)
		require.NotEmpty(t, a.header.Get("Cache-Control")+a.header.Get("Set-Cookie")+strconv.Itoa(a.status), c.route)
	}
}

// Whatever the route, who sends a body drop by drop, or none at all of what was
// promised, is cut off; the answer may come before that.
func TestASlowBodyHoldsNoConnectionOnAnyRoute(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes, config: func(c *server.Config) { c.BodyTimeout = 200 * time.Millisecond }})
	for _, c := range routeCases {
		method, _, _ := strings.Cut(c.route, " ")
		switch c.route {
		case "GET /events", "GET /v1/feed": // answered 400 here for their queries
		}
		t.Run(c.route, func(t *testing.T) {
			t.Parallel()
			conn := r.dial()
			conn.send(method + " " + c.path + " HTTP/1.1\r\nHost: " + r.addr + "\r\n" + r.as("admin") +
				"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
			began := time.Now()
			_, err := io.Copy(io.Discard, conn.in) // until the server closes
			require.NoError(t, err)
			require.Less(t, time.Since(began), 10*time.Second)
		})
	}
}

// A body that is too large is refused, or not read, on every route.
func TestABodyWithoutEndIsTakenOnNoRoute(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes, config: func(c *server.Config) { c.Limits.MaxBodyBytes = 64 << 10 }})
	for _, c := range routeCases {
		method, _, _ := strings.Cut(c.route, " ")
		t.Run(c.route, func(t *testing.T) {
			t.Parallel()
			conn := r.dial()
			conn.send(method + " " + c.path + " HTTP/1.1\r\nHost: " + r.addr + "\r\n" + r.as("admin") +
				"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
			chunk := fmt.Sprintf("%x\r\n%s\r\n", 32<<10, strings.Repeat(" ", 32<<10))
			sent := 0
			for ; sent < 64<<20; sent += 32 << 10 {
				if _, err := io.WriteString(conn.conn, chunk); err != nil {
					break
				}
			}
			require.Less(t, sent, 64<<20, "it takes whatever comes")
		})
	}
}

func TestTheLastUseOfATokenIsTold(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	uses := func() map[string]time.Time {
		var page api.List[api.Token]
		r.want(200, "GET", "/v1/tokens", nil, &page, r.as("admin"))
		all := map[string]time.Time{}
		for _, token := range page.Items {
			all[token.Name] = token.LastUsedAt.Time
		}
		return all
	}
	require.Zero(t, uses()["read"])
	require.NotZero(t, uses()["admin"])
	commits := sum(r.scrape(r.as("read")), "pushd_store_commits_total")
	for range 50 {
		r.want(200, "GET", "/v1/session", nil, nil, r.as("read"))
	}
	require.Equal(t, commits, sum(r.scrape(r.as("read")), "pushd_store_commits_total"), "no commit for a use")
	used := uses()["read"]
	require.WithinDuration(t, time.Now(), used, patience)
	r.want(201, "POST", "/v1/tokens", map[string]any{"name": "new", "scopes": []string{"read"}}, nil, r.as("admin"))
	require.Equal(t, used, uses()["read"], "kept when tokens change")
	// It is written at the end, for the next start.
	r.stop()
	err := <-r.ended
	r.ended <- err
	require.NoError(t, err)
	tokens, err := r.store.Tokens(t.Context())
	require.NoError(t, err)
	for _, token := range tokens {
		require.Equal(t, token.Name == "admin" || token.Name == "read", !token.LastUsedAt.IsZero(), token.Name)
	}
}

func TestHeadersWithoutEndAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	conn := r.dial()
	conn.send("GET /queue HTTP/1.1\r\nHost: " + r.addr + "\r\n")
	for range 100 {
		if _, err := io.WriteString(conn.conn, "X-Filler: "+strings.Repeat("x", 2<<10)+"\r\n"); err != nil {
			break
		}
	}
	resp, err := http.ReadResponse(conn.in, nil)
	if err == nil {
		defer resp.Body.Close()
		require.Equal(t, 431, resp.StatusCode)
	}
}
