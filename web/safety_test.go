package web_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"pushd/server/api"
	"pushd/web"
)

const evil = `<script>window.pwned=1</script><img src=x onerror="window.pwned=2"><svg onload="window.pwned=3">&lt;b&gt;"'</script>`

// Whatever a sender, an agent or an operator writes is text, on every page.
func TestScriptTagsInEveryFieldStayText(t *testing.T) {
	s := serve(t, "policy.error_delay=100ms", "policy.max_attempts=1")
	agent := s.subscribe(t, "win-1", 10)
	text, err := json.Marshal(evil)
	require.NoError(t, err)
	payload := json.RawMessage(`{` + string(text) + `:[` + string(text) + `]}`)
	for _, id := range []string{"works", "fails", "is-done"} {
		s.push(t, id, "win-1", func(p *api.Push) {
			p.Payload, p.Labels, p.OnDead = payload, map[string]string{"k": evil, evil: "v"}, "skip"
		})
		agent.await(t)
	}
	s.ack(t, "works", "working", func(a *api.Ack) { a.Progress = &api.Progress{Note: evil} })
	s.ack(t, "fails", "failed", func(a *api.Ack) { a.Error = &api.Failure{Kind: "error", Message: evil, Code: evil} })
	s.ack(t, "is-done", "done", func(a *api.Ack) { a.Result = payload })
	require.NoError(t, s.client().Pause(t.Context(), "machines", "win-1", api.PauseRequest{Note: evil}))
	_, err = s.client().SetCredit(t.Context(), "win-1", new(5), evil)
	require.NoError(t, err)
	b := visitor(t, s)
	for path, shown := range map[string]string{
		"/ui/fleet": "", "/ui/machine/win-1": evil, "/ui/actions": evil, "/ui/action/works": evil, "/ui/action/fails": evil,
		"/ui/action/is-done": "window.pwned", "/ui/dead": evil, "/ui/system": evil, "/ui/webhooks": "",
		"/ui/action/%3Cscript%3E": "<script>", "/ui/machine/%3Cimg%20src=x%3E": "<img src=x>", "/ui/actions?q=%3Cscript%3E": "", "/ui/%3Cscript%3E": "",
	} {
		b.open(path)
		b.live()
		if shown != "" {
			b.see(shown)
		}
		require.Equal(t, 1, js[int](b, `document.scripts.length`), path)
		require.Zero(t, js[int](b, `document.querySelectorAll('img, iframe, object, [onerror], [onload]').length`), path)
		require.False(t, js[bool](b, `'pwned' in window`), path)
	}
	b.clean()
}

func TestThePageIsServedUnderAStrictPolicy(t *testing.T) {
	s := serve(t)
	resp, err := http.Get(s.base + "/")
	require.NoError(t, err)
	defer resp.Body.Close()
	csp := resp.Header.Get("Content-Security-Policy")
	require.Contains(t, csp, "default-src 'none'")
	require.Contains(t, csp, "frame-ancestors 'none'")
	require.NotContains(t, csp, "unsafe")
	require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-cache", resp.Header.Get("Cache-Control"))
	b := visitor(t, s)
	b.open("/")
	b.live()
	// The policy holds: what it forbids is blocked, and told.
	require.False(t, js[bool](b, `(() => { try { document.body.innerHTML = '<b>x</b>'; return true } catch { return false } })()`))
	require.False(t, js[bool](b, `fetch('http://127.0.0.1:9/').then(() => true, () => false)`))
}

func TestFilesAreCachedForGoodAndThePageIsAskedForAgain(t *testing.T) {
	page := answer(t, "/", "")
	require.Equal(t, http.StatusOK, page.Code)
	etag := page.Header().Get("ETag")
	require.Equal(t, http.StatusNotModified, answer(t, "/ui/fleet", etag).Code)
	for _, name := range distFiles(t) {
		if strings.HasPrefix(name, "app-") {
			require.Contains(t, page.Body.String(), "/assets/"+name)
			require.Contains(t, answer(t, "/assets/"+name, "").Header().Get("Cache-Control"), "immutable")
		}
	}
	require.Equal(t, http.StatusNotFound, answer(t, "/assets/none.js", "").Code)
	require.Equal(t, http.StatusNotFound, answer(t, "/assets/../web.go", "").Code)
}

// The long-lived token goes into one request and nowhere else.
func TestASignInLeavesTheTokenInNoAddressAndNoLog(t *testing.T) {
	s := serve(t)
	admin := s.mint(t, "root", "admin")
	s.token = admin
	viewer := s.mint(t, "viewer", "read")
	s.push(t, "a1", "win-1")
	b := visitor(t, s)
	b.open("/ui/actions")
	b.see("Sign in")
	require.False(t, js[bool](b, `document.body.innerText.includes('a1')`))
	signIn(b, "nonsense")
	b.see("the token is not known, or has ended")
	signIn(b, viewer)
	b.live()
	b.see("read-only")
	b.shows("a1", "queued")
	require.Zero(t, js[int](b, `document.querySelectorAll('input[type=checkbox]').length`), "no act is offered")
	b.click("a1")
	b.wait(`[...document.querySelectorAll('button[aria-disabled=true]')].some(e => e.textContent === 'Cancel…' && e.title.includes('scope operate'))`)
	b.click("Cancel…")
	b.see("Your token lacks the scope operate.") // to who cannot hover, too
	b.key("c")
	require.Zero(t, js[int](b, `document.querySelectorAll('dialog').length`), "no question whose answer is known")
	b.click("Actions")
	b.shows("a1", "queued")
	b.key("jc")
	require.Zero(t, js[int](b, `document.querySelectorAll('dialog').length`))
	require.Equal(t, 403, js[int](b, `fetch('/v1/actions/a1/cancel', {method: 'POST'}).then(r => r.status)`), "nor taken")
	require.Empty(t, js[string](b, `document.cookie`), "no script reads the cookie")
	require.NotContains(t, js[string](b, `location.href + JSON.stringify(localStorage) + performance.getEntriesByType('resource').map(e => e.name).join()`), viewer)
	second := b.another()
	second.open("/")
	second.live()
	b.click("Sign out")
	b.see("Sign in")
	second.see("Sign in") // in every tab
	signIn(b, admin)
	b.live()
	b.shows("a1", "queued")
	require.False(t, js[bool](b, `document.body.innerText.includes('read-only')`))
	require.NotContains(t, s.log.String(), viewer)
	require.NotContains(t, s.log.String(), admin)
	b.clean()
}

func signIn(b *tab, token string) {
	b.t.Helper()
	b.wait(`document.querySelector('#token')`)
	js[bool](b, `(document.querySelector('#token').value = '', true)`)
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("#token"), token)))
	b.click("Sign in")
}

// Under a token with a pattern only its machines are seen.
func TestAPatternShowsItsMachinesOnly(t *testing.T) {
	s := serve(t)
	s.token = s.mint(t, "root", "admin")
	some := s.mint(t, "some", "read:win-*", "operate:win-*")
	s.subscribe(t, "win-1", 1)
	s.subscribe(t, "mac-1", 1)
	b := visitor(t, s)
	b.open("/")
	signIn(b, some)
	b.shows("win-1", "online")
	b.see("part of the fleet")
	require.False(t, js[bool](b, `document.body.innerText.includes('mac-1')`))
	b.clean()
}

// What is sent is what is committed, and says how long it is; who does not take gzip
// gets the same unpacked, under a tag of its own.
func TestFilesAreSentPackedToWhoTakesThat(t *testing.T) {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	ask := func(method, path string, headers ...string) (*http.Response, []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, nil)
		require.NoError(t, err)
		r.Header.Set("Accept-Encoding", "identity") // or Go's client asks for gzip itself
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "Accept-Encoding", resp.Header.Get("Vary"))
		return resp, body
	}
	for _, name := range distFiles(t) {
		path := "/assets/" + name
		committed, err := os.ReadFile("dist/" + name + ".gz")
		require.NoError(t, err)
		z, err := gzip.NewReader(bytes.NewReader(committed))
		require.NoError(t, err)
		unpacked, err := io.ReadAll(z)
		require.NoError(t, err)

		packed, body := ask("GET", path, "Accept-Encoding: br;q=1.0, gzip;q=0.8, *;q=0.1")
		require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"))
		require.Equal(t, committed, body, name)
		require.EqualValues(t, len(body), packed.ContentLength)
		tags := []string{packed.Header.Get("ETag")}
		for _, accept := range []string{"identity", "gzip;q=0, identity", "br", "gzipped"} {
			plain, body := ask("GET", path, "Accept-Encoding: "+accept)
			require.Empty(t, plain.Header.Get("Content-Encoding"), accept)
			require.Equal(t, packed.Header.Get("Content-Type"), plain.Header.Get("Content-Type"))
			require.Equal(t, unpacked, body, name)
			require.EqualValues(t, len(body), plain.ContentLength)
			tags = append(tags[:1], plain.Header.Get("ETag"))
		}
		require.NotEqual(t, tags[0], tags[1])

		for i, accept := range []string{"Accept-Encoding: gzip", "Accept-Encoding: identity"} {
			head, body := ask("HEAD", path, accept)
			require.Empty(t, body)
			require.Equal(t, tags[i], head.Header.Get("ETag"))
			require.EqualValues(t, []int{len(committed), len(unpacked)}[i], head.ContentLength)
			known, _ := ask("GET", path, accept, `If-None-Match: "other", W/`+tags[i])
			require.Equal(t, http.StatusNotModified, known.StatusCode)
			require.Equal(t, tags[i], known.Header.Get("ETag"))
			require.Empty(t, known.Header.Get("Content-Encoding"))
			other, _ := ask("GET", path, accept, "If-None-Match: "+tags[1-i])
			require.Equal(t, http.StatusOK, other.StatusCode)
			part, body := ask("GET", path, accept, "Range: bytes=1-9")
			require.Equal(t, http.StatusPartialContent, part.StatusCode)
			require.Equal(t, [][]byte{committed, unpacked}[i][1:10], body)
			beyond, _ := ask("GET", path, accept, "Range: bytes=999999-")
			require.Equal(t, http.StatusRequestedRangeNotSatisfiable, beyond.StatusCode)
			failed, _ := ask("GET", path, accept, `If-Match: "other"`)
			require.Equal(t, http.StatusPreconditionFailed, failed.StatusCode)
		}
	}
}

func TestTheBundleIsSmall(t *testing.T) {
	total := 0
	for _, name := range distFiles(t) {
		a := answer(t, "/assets/"+name, "", "Accept-Encoding: gzip")
		require.Equal(t, http.StatusOK, a.Code, name)
		t.Logf("%s: %d bytes as sent", name, a.Body.Len())
		total += a.Body.Len()
	}
	t.Logf("all of it: %d bytes", total)
	require.LessOrEqual(t, total, 40<<10)
}

// dist is what src makes, byte for byte.
func TestDistIsBuiltFromSource(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("no Node here: dist is not compared with its source")
	}
	if _, err := os.Stat("node_modules/esbuild"); err != nil {
		t.Skip("no node_modules here (`make web` installs them): dist is not compared with its source")
	}
	dir := t.TempDir()
	for _, name := range []string{"src", "build.mjs", "package.json"} {
		out, err := exec.Command("cp", "-r", name, dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	modules, err := filepath.Abs("node_modules")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	cmd := exec.Command("node", "build.mjs")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	built, err := os.ReadDir(filepath.Join(dir, "dist"))
	require.NoError(t, err)
	var names []string
	for _, e := range built {
		names = append(names, strings.TrimSuffix(e.Name(), ".gz"))
		want, err := os.ReadFile(filepath.Join(dir, "dist", e.Name()))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join("dist", e.Name()))
		require.NoError(t, err, "run `make web` and commit web/dist")
		require.True(t, bytes.Equal(want, got), "%s: run `make web` and commit web/dist", e.Name())
	}
	require.Equal(t, names, distFiles(t))
}

// distFiles are what dist holds, by the names under which it is served.
func distFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("dist")
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		name, packed := strings.CutSuffix(e.Name(), ".gz")
		require.True(t, packed, e.Name())
		names = append(names, name)
	}
	return names
}

var handler = web.Handler()
