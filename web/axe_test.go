package web_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// answer asks the package alone, without a server around it.
func answer(t *testing.T, path, etag string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

const axeRun = `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
	.then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ') + ' ' + (n.any[0]?.message ?? n.all[0]?.message ?? '')).slice(0, 4).join(' | ')))`

// axe looks at every page in both themes, with a dialog open and on a telephone.
func TestAxeFindsNothing(t *testing.T) {
	axe, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("no node_modules here (`make web` installs them): axe-core does not look at the pages")
	}
	s := story(t)
	b := visitor(t, s)
	look := func(what string) {
		t.Helper()
		require.NoError(t, chromedp.Do(b.ctx, chromedp.Evaluate[chromedp.Void](string(axe))))
		require.Empty(t, js[[]string](b, axeRun), what)
	}
	for _, scheme := range []string{"dark", "light"} {
		b.theme(scheme)
		for path, has := range map[string]string{
			"/ui/fleet": "kiosk-7", "/ui/machine/kiosk-7": "Deliveries", "/ui/actions": "receipt-1", "/ui/action/open-till-0": "taken for lost",
			"/ui/dead": "Never answered", "/ui/webhooks/ci?d=1": "filtered out", "/ui/system": "Bytes to first ack",
		} {
			b.open(path)
			b.live()
			b.see(has)
			look(scheme + " " + path)
		}
		b.open("/ui/action/open-till-0")
		b.click("Redrive…")
		b.see("Redrive open-till-0?")
		look(scheme + " dialog")
	}
	b.size(320, 700)
	b.open("/ui/actions")
	b.see("receipt-1")
	look("narrow")
	s.token = s.mint(t, "root", "admin")
	reader := s.mint(t, "reader", "read")
	b.open("/ui/action/open-till-0")
	b.see("Sign in")
	look("sign-in")
	signIn(b, reader)
	b.see("Redrive…")
	look("what the token may not do")
}
