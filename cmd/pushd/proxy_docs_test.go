package main_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// quoted is the first block of a language in a document.
func quoted(t *testing.T, doc, language string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(doc)
	require.NotNil(t, m, "no block of %s", language)
	return m[1]
}

// What docs/operating.md says to write into a proxy is what doctor is content with,
// over HTTP/2 and as it stands but for addresses.
func TestTheProxiesOfTheDocumentsAreSetWell(t *testing.T) {
	t.Parallel()
	doc := read(t, "docs/operating.md")
	addresses := strings.NewReplacer(
		"127.0.0.1:8080", "{upstream}", "listen 443", "listen 127.0.0.1:{port}", "bind :443", "bind 127.0.0.1:{port}",
		"/etc/ssl/push.key", "{dir}/key.pem",
	)
	for name, front := range map[string]func(p *proxied, t *testing.T){
		"nginx": func(p *proxied, t *testing.T) {
			p.nginx(t, strings.ReplaceAll(addresses.Replace(quoted(t, doc, "nginx")), "/etc/ssl/push.pem", "{dir}/cert.pem"))
		},
		"haproxy": func(p *proxied, t *testing.T) {
			p.haproxy(t, strings.ReplaceAll(addresses.Replace(quoted(t, doc, "haproxy")), "/etc/ssl/push.pem", "{dir}/both.pem"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program(t, name)
			p := behind(t, "stream.heartbeat=1s")
			front(p, t)
			d, code := p.doctor(t, "https://127.0.0.1:{port}")
			judge(t, d, code, "", "")
			require.Contains(t, d.String(), "HTTP/2.0")
		})
	}
}
