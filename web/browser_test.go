package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// One browser serves all tests; each has a context of its own, with its own
// cookies and storage.
var browser struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

func startBrowser() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		browser.err = errNoBrowser
		return
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("lang", "en-GB"), chromedp.WindowSize(1280, 800),
		chromedp.Flag("host-resolver-rules", "MAP pushd.test 127.0.0.1")) // a name that is not this machine's to a browser
	allocated, release := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, closeTab := chromedp.NewContext(allocated)
	browser.stop = func() {
		closeTab()
		release()
	}
	// Without a timeout of its own: the first context's end is the browser's.
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		browser.err = err
		return
	}
	browser.ctx = ctx
}

func stopBrowser() {
	if browser.stop != nil {
		browser.stop()
	}
}

// tab is one tab of the dashboard, and what its console complained of.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu       sync.Mutex
	problems []string
}

// visitor is a browser of its own: cookies and storage are not shared with others.
func visitor(t *testing.T, s *server) *tab {
	t.Helper()
	browser.once.Do(startBrowser)
	if browser.err == errNoBrowser {
		t.Skip(browser.err)
	}
	require.NoError(t, browser.err)
	return newTab(t, browser.ctx, s.base, chromedp.WithNewBrowserContext())
}

// another opens a second tab of the same browser.
func (b *tab) another() *tab { return newTab(b.t, b.ctx, b.base) }

func newTab(t *testing.T, parent context.Context, base string, opts ...chromedp.ContextOption) *tab {
	t.Helper()
	b := &tab{t: t, base: base}
	opts = append(opts, chromedp.WithListener(b.listen))
	ctx, closeTab := chromedp.NewContext(parent, opts...)
	t.Cleanup(closeTab)
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	b.ctx = ctx
	_, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{})
	require.NoError(t, err)
	return b
}

// listen keeps what must never be: exceptions, and what the policy blocked.
func (b *tab) listen(ev any) {
	text := ""
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %v %v", ev.ExceptionDetails.Text, ev.ExceptionDetails.Exception)
		if ev.ExceptionDetails.Exception != nil {
			text += " " + ev.ExceptionDetails.Exception.Description
		}
	case *cdplog.EventEntryAdded:
		if ev.Entry.Source == "security" || strings.Contains(ev.Entry.Text, "Content Security Policy") || strings.Contains(ev.Entry.Text, "Trusted") {
			text = "log: " + ev.Entry.Text
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.problems = append(b.problems, text)
	}
}

// clean requires that nothing was blocked and nothing thrown.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(b.t, b.problems)
}

// open loads an address of the dashboard and waits for its heading.
func (b *tab) open(path string) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.Navigate(b.base+path)))
	b.wait(`document.querySelector('h1')`)
}

// js evaluates an expression, awaiting a promise.
func js[T any](b *tab, expression string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return v
}

// wait waits until an expression is true, looking whenever the page changes. It is
// not chromedp's own Poll, which the page's policy would stop: that is an eval.
func (b *tab) wait(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise(done => {
		const holds = () => { try { return !!(%s); } catch { return false; } };
		if (holds()) return done(true);
		const seen = new MutationObserver(() => { if (holds()) { seen.disconnect(); done(true); } });
		seen.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
	})`, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		b.shot("failed")
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		b.mu.Lock()
		defer b.mu.Unlock()
		require.NoError(b.t, err, "waiting for %s on:\n%s\n%s", expression, text, b.problems)
	}
}

// see waits until the page shows a text.
func (b *tab) see(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

// live waits until the tab is on the feed.
func (b *tab) live() {
	b.t.Helper()
	b.wait(`document.querySelector('#link-state')?.textContent === 'live'`)
}

// click clicks the button or link with a text, the one in a dialog if there is one.
func (b *tab) click(text string) {
	b.t.Helper()
	find := fmt.Sprintf(`[...(document.querySelector('dialog[open]') ?? document).querySelectorAll('button, a')].find(e => e.textContent.trim() === %q && !e.disabled)`, text)
	b.wait(find)
	js[bool](b, find+`.click() ?? true`)
}

// key presses a key.
func (b *tab) key(keys string) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent(keys)))
}

// theme makes the browser prefer dark or light.
func (b *tab) theme(scheme string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	require.NoError(b.t, err)
}

func (b *tab) size(width, height int64) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.EmulateViewport(width, height)))
}

// shot writes a screenshot where PUSHD_SCREENSHOTS says, and nowhere without it.
func (b *tab) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("PUSHD_SCREENSHOTS")
	if dir == "" {
		return
	}
	raw, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(dir, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, strings.ReplaceAll(b.t.Name(), "/", "-")+"-"+name+".png"), raw, 0o600))
}

// get reads a path of the server as its client would.
func (s *server) get(t *testing.T, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.base+path, nil)
	require.NoError(t, err)
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", raw)
	return string(raw)
}
