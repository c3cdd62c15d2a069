package main_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a proxy does to a stream, and what doctor says to it. An empty verdict of
// a check is "ok".
func TestDoctorFindsWhatNginxDoes(t *testing.T) {
	t.Parallel()
	program(t, "nginx")
	const plain = `server { listen 127.0.0.1:{port}; location / { proxy_pass http://{upstream}; %s } }`
	for name, c := range map[string]struct {
		block, base, set string
		bad, cure        string
	}{
		// Our own headers keep nginx, as it comes, from holding the stream back.
		"as it comes, but for bodies": {block: strings.ReplaceAll(plain, "%s", ""), bad: "body_size", cure: "client_max_body_size"},
		"set well":                    {block: strings.ReplaceAll(plain, "%s", "client_max_body_size 20m;")},
		"buffering insisted on": {
			block: strings.ReplaceAll(plain, "%s", "client_max_body_size 20m; proxy_buffering on; proxy_ignore_headers X-Accel-Buffering;"),
			bad:   "buffering", cure: "proxy_buffering off;",
		},
		"an idle time-out below the heartbeat": {
			block: strings.ReplaceAll(plain, "%s", "client_max_body_size 20m; proxy_read_timeout 1s;"), set: "stream.heartbeat=4s",
			bad: "idle", cure: "proxy_read_timeout 90s",
		},
		"compression": {
			block: strings.ReplaceAll(plain, "%s", "client_max_body_size 20m; gzip on; gzip_proxied any; gzip_min_length 0; gzip_types text/event-stream;"),
			bad:   "compression", cure: "gzip off;",
		},
		"HTTP/2 and a path prefix": {
			block: `server { listen 127.0.0.1:{port} ssl http2; ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem;
				location /pushd/ { proxy_pass http://{upstream}/; client_max_body_size 20m; } }`,
			base: "https://127.0.0.1:{port}/pushd",
		},
		"a prefix that leads nowhere": {
			block: `server { listen 127.0.0.1:{port}; location /pushd/ { proxy_pass http://{upstream}; } }`,
			base:  "http://127.0.0.1:{port}/pushd", bad: "reach", cure: "proxy_pass http://127.0.0.1:8080/",
		},
		"a server that is not there": {block: `server { listen 127.0.0.1:{port}; location / { proxy_pass http://127.0.0.1:1; } }`, bad: "reach"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := []string{"stream.heartbeat=1s"}
			if c.set != "" {
				set = []string{c.set}
			}
			p := behind(t, set...)
			p.nginx(t, c.block)
			base := "http://127.0.0.1:{port}"
			if c.base != "" {
				base = c.base
			}
			d, code := p.doctor(t, base)
			judge(t, d, code, c.bad, c.cure)
			if strings.HasPrefix(base, "https") {
				require.Contains(t, d.String(), "HTTP/2.0")
			}
		})
	}
}

func judge(t *testing.T, d diagnosis, code int, bad, cure string) {
	t.Helper()
	if bad == "" {
		require.Equal(t, 0, code, d)
		for _, check := range []string{"reach", "clock", "body_size", "compression", "stream", "buffering", "idle", "long_poll"} {
			require.Equal(t, "ok", d.level(check), "%s: %s", check, d)
		}
		return
	}
	require.Equal(t, 1, code, d)
	require.Equal(t, "bad", d.level(bad), d)
	require.Contains(t, d.cures(bad), cure, d)
}

func TestDoctorFindsWhatHAProxyDoes(t *testing.T) {
	t.Parallel()
	program(t, "haproxy")
	const head = "defaults\n mode http\n timeout connect 5s\n"
	const back = "backend b\n server s {upstream}\n"
	for name, c := range map[string]struct{ conf, base, set, bad, cure string }{
		"set well": {conf: head + " timeout client 75s\n timeout server 75s\nfrontend f\n bind 127.0.0.1:{port}\n default_backend b\n" + back},
		"an idle time-out below the heartbeat": {
			conf: head + " timeout client 1s\n timeout server 1s\nfrontend f\n bind 127.0.0.1:{port}\n default_backend b\n" + back,
			set:  "stream.heartbeat=4s", bad: "idle", cure: "timeout client 90s",
		},
		// HAProxy obeys our no-transform.
		"compression": {
			conf: head + " timeout client 75s\n timeout server 75s\nfrontend f\n bind 127.0.0.1:{port}\n filter compression\n compression algo gzip\n compression type text/event-stream application/json\n default_backend b\n" + back,
		},
		"HTTP/2 and a path prefix": {
			conf: head + " timeout client 75s\n timeout server 75s\nfrontend f\n bind 127.0.0.1:{port} ssl crt {dir}/both.pem alpn h2,http/1.1\n http-request replace-path /pushd(/.*) \\1\n default_backend b\n" + back,
			base: "https://127.0.0.1:{port}/pushd",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := "stream.heartbeat=1s"
			if c.set != "" {
				set = c.set
			}
			p := behind(t, set)
			p.haproxy(t, c.conf)
			base := "http://127.0.0.1:{port}"
			if c.base != "" {
				base = c.base
			}
			d, code := p.doctor(t, base)
			judge(t, d, code, c.bad, c.cure)
		})
	}
}

func TestDoctorLooksAtThisMachine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	line := func(more ...string) (diagnosis, int) {
		out, talk, code := run(t, "pushctl", append([]string{"doctor", "-o", "json", "--data-dir", dir}, more...)...)
		var d diagnosis
		require.NoError(t, json.Unmarshal([]byte(out), &d), "%s %s", out, talk)
		return d, code
	}
	d, code := line("--listen", "127.0.0.1:0")
	require.Equal(t, 0, code, d)
	require.Equal(t, "warning", d.level("data_dir"), "others may read it: %s", d)
	require.NoError(t, os.Chmod(dir, 0o700))
	d, code = line("--listen", "127.0.0.1:0")
	require.Equal(t, 0, code, d)
	for _, check := range []string{"settings", "port", "data_dir"} {
		require.Equal(t, "ok", d.level(check), d)
	}
	require.Contains(t, d.String(), "syncs a second")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "it leaves nothing behind")

	live := serve(t, dir)
	d, code = line("--listen", strings.TrimPrefix(live.base, "http://"))
	require.Equal(t, 0, code, d)
	require.Contains(t, d.String(), "a pushd answers")
	require.Contains(t, d.String(), "in use by a running server")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() { _ = http.Serve(l, http.NotFoundHandler()) }() // it ends with its listener
	d, code = line("--listen", l.Addr().String())
	require.Equal(t, 1, code, d)
	require.Equal(t, "bad", d.level("port"), d)

	require.NoError(t, live.stop())
	require.NoError(t, os.Truncate(filepath.Join(dir, "pushd.db"), 0))
	d, code = line("--listen", "127.0.0.1:0")
	require.Equal(t, 1, code, d)
	require.Equal(t, "bad", d.level("data_dir"), d)
}

// Who has no token is told what could not be looked at; that is nothing bad.
func TestDoctorWithoutAToken(t *testing.T) {
	t.Parallel()
	p := behind(t)
	p.token = ""
	d, code := p.doctor(t, p.base)
	require.Equal(t, 0, code, d)
	require.Equal(t, "ok", d.level("reach"), d)
	require.Equal(t, "skipped", d.level("stream"), d)
	require.Equal(t, "skipped", d.level("clock"), d)
	require.Contains(t, d.cures("stream"), "--token-file")
}
