package main_test

import (
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// visitors are what was asked of a proxy or a server, in order.
type visitors struct {
	mu  sync.Mutex
	all []string
}

func (v *visitors) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, text)
}

func (v *visitors) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.all)
}

// facade is what stands at the far end of the way: it has the certificate, knows
// who asked for what, and can hold streams as a proxy that buffers does.
type facade struct {
	*httptest.Server
	visitors
	hold atomic.Bool
}

// newFacade starts one; cert is the folder of its certificate, empty: plain http.
func newFacade(t *testing.T, to, cert string) *facade {
	t.Helper()
	upstream := &url.URL{Scheme: "http", Host: to}
	onward := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) }}
	f := &facade{}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r.URL.Path)
		if f.hold.Load() && r.URL.Path == "/events" {
			<-r.Context().Done()
			return
		}
		onward.ServeHTTP(w, r)
	}))
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(cert, "cert.pem"), filepath.Join(cert, "key.pem"))
		require.NoError(t, err)
		f.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
		f.StartTLS()
	} else {
		f.Start()
	}
	t.Cleanup(func() { shut(f.Server) })
	return f
}

// shut closes a server whose client comes again and again. First nobody new comes
// in: Close would wait for a stream that is opened while the others are cut.
func shut(s *httptest.Server) {
	_ = s.Listener.Close() // Close does it once more
	s.CloseClientConnections()
	s.Close()
}

// gateway is a forward proxy as offices have them: absolute addresses over http,
// CONNECT for https, and a password. It takes every name for one address.
type gateway struct {
	*httptest.Server
	visitors
	to, password string
}

func newGateway(t *testing.T, to string) *gateway {
	t.Helper()
	g := &gateway{to: to, password: "s%cret#1"}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() { shut(g.Server) })
	return g
}

// address is the gateway with what it asks for, as the environment has it.
func (g *gateway) address(password string) string {
	u, _ := url.Parse(g.URL) // our own
	u.User = url.UserPassword("bob", password)
	return u.String()
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path
	if r.Method == http.MethodConnect {
		name = "CONNECT"
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("bob:"+g.password))
	if r.Header.Get("Proxy-Authorization") != want {
		g.note("refused")
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	g.note(r.Host + " " + name)
	if r.Method == http.MethodConnect {
		g.tunnel(w)
		return
	}
	there := &url.URL{Scheme: "http", Host: g.to}
	(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(there) }}).ServeHTTP(w, r)
}

func (g *gateway) tunnel(w http.ResponseWriter) {
	server, err := net.Dial("tcp", g.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = server.Close() // nobody to speak to
		return
	}
	go func() {
		_, _ = io.Copy(server, client) // until one side is gone
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server) // likewise
	_ = client.Close()
}

// says waits until the agent's log holds a text.
func (h *hand) says(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(h.log(), text) }, 2*patience, 20*time.Millisecond, "%q is not in the log", text)
}

// gone waits until the agent has ended.
func (h *hand) gone(t *testing.T) {
	t.Helper()
	select {
	case <-h.exited:
	case <-time.After(patience):
		require.FailNow(t, "the agent does not end", h.log())
	}
}

// discreet is a log that tells nothing of the password, however it is spelt.
func discreet(t *testing.T, log string) {
	t.Helper()
	for _, spelt := range []string{"s%cret", "s%25cret", base64.StdEncoding.EncodeToString([]byte("bob:s%cret#1"))} {
		require.NotContains(t, log, spelt)
	}
}

// A stream, acks and, where streams are held, polls go by the proxy that the
// environment names, with its password, which no log shows.
func TestAnAgentGoesByTheProxyOfItsEnvironment(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			w := site(t, echoes)
			cert := ""
			if scheme == "https" {
				certify(t, w.dir)
				cert = w.dir
			}
			f := newFacade(t, w.address, cert)
			g := newGateway(t, f.Listener.Addr().String())
			w.server = scheme + "://pushd.test" // no such name: only the proxy finds it
			w.work(strings.ToUpper(scheme)+"_PROXY="+g.address(g.password), "SSL_CERT_FILE="+filepath.Join(w.dir, "cert.pem"))
			w.push("echo", 1)
			require.Equal(t, "done", w.settled("echo-000").State)
			require.Subset(t, f.list(), []string{"/events", "/acks"})
			require.NotContains(t, f.list(), "/next")

			f.hold.Store(true)
			f.CloseClientConnections()
			w.agent.says(t, "polling instead")
			w.pushOne("held")
			require.Equal(t, "done", w.settled("held").State)
			require.Contains(t, f.list(), "/next")
			if scheme == "http" {
				require.Subset(t, g.list(), []string{"pushd.test /events", "pushd.test /acks", "pushd.test /next"})
			} else {
				require.Equal(t, []string{"pushd.test:443 CONNECT"}, slices.Compact(g.list()), "it sees nothing else")
			}
			shut(g.Server)
			f.CloseClientConnections() // tunnels outlive their gateway
			w.agent.says(t, "proxyconnect")
			discreet(t, w.agent.log())
		})
	}
}

// 0.0.0.0 is this machine, and no loopback address by name, which would go past
// the proxy anyhow.
func TestAnAgentGoesPastTheProxyWhereItIsTold(t *testing.T) {
	t.Parallel()
	w := site(t, echoes)
	f := newFacade(t, w.address, "")
	g := newGateway(t, f.Listener.Addr().String())
	_, port, err := net.SplitHostPort(f.Listener.Addr().String())
	require.NoError(t, err)
	w.server = "http://0.0.0.0:" + port
	w.push("echo", 1)
	w.work("HTTP_PROXY="+g.address(g.password), "NO_PROXY=example.org,0.0.0.0")
	require.Equal(t, "done", w.settled("echo-000").State)
	require.Empty(t, g.list())
	w.end()
	w.work("HTTP_PROXY="+g.address(g.password), "NO_PROXY=example.org")
	require.Contains(t, g.list(), "0.0.0.0:"+port+" /events")
}

func TestAProxysPasswordIsInNoLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ scheme, password, says string }{
		"wrong, http":  {"http", "s%cret", "407"},
		"wrong, https": {"https", "s%cret", "Proxy Authentication Required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := site(t, echoes)
			g := newGateway(t, w.address)
			w.server = c.scheme + "://pushd.test"
			w.begin(strings.ToUpper(c.scheme) + "_PROXY=" + g.address(c.password))
			w.agent.says(t, c.says)
			discreet(t, w.agent.log())
		})
	}
	t.Run("not escaped", func(t *testing.T) {
		t.Parallel()
		w := site(t, echoes)
		w.server = "http://pushd.test"
		w.begin("HTTP_PROXY=http://bob:s%cret#1@127.0.0.1:3128")
		w.agent.gone(t)
		require.Contains(t, w.agent.log(), "HTTP_PROXY holds no address")
		require.Equal(t, 1, strings.Count(w.agent.log(), "\n"), w.agent.log())
		discreet(t, w.agent.log())
		w.agent = nil
	})
}

func echoes(string) string { return "handlers: {echo: {kind: exec, command: [cat]}}\n" }
