package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

func TestAServerKilledAndRestartedIsLiveAgainWithoutReload(t *testing.T) {
	s := serve(t)
	s.push(t, "before", "win-1")
	b := visitor(t, s)
	b.open("/ui/actions")
	b.live()
	b.shows("before", "queued")
	same := b.stays()
	s.kill()
	b.wait(`document.querySelector('#link-state').textContent.startsWith('reconnecting')`)
	s.restart(t)
	s.push(t, "during", "win-1") // before the page is back, it may be
	b.live()
	b.shows("during", "queued")
	b.shows("before", "queued")
	s.push(t, "after", "win-1")
	b.shows("after", "queued")
	same()
	b.clean()
}

// HTTP/1.1 gives a browser six connections to a server: eight tabs with a stream
// each would leave two of them hanging.
func TestEightTabsUseOneStreamAndAllFollow(t *testing.T) {
	s := serve(t)
	first := visitor(t, s)
	tabs := []*tab{first}
	for len(tabs) < 8 {
		tabs = append(tabs, first.another())
	}
	for i, b := range tabs {
		began := time.Now()
		b.open("/")
		b.live()
		require.Equal(t, "http/1.1", js[string](b, `performance.getEntriesByType('resource').find(e => e.name.endsWith('/v1/session')).nextHopProtocol`))
		t.Logf("tab %d is live after %s", i+1, time.Since(began).Round(time.Millisecond))
	}
	require.Equal(t, "1", s.metric(t, "pushd_feed_viewers"))
	s.subscribe(t, "win-1", 1)
	for i, b := range tabs {
		b.shows("win-1", "online")
		t.Logf("tab %d shows the machine", i+1)
	}
	require.Equal(t, "1", s.metric(t, "pushd_feed_viewers"))
	// The tab that leads goes away: another takes over.
	began := time.Now()
	require.NoError(t, chromedp.Do(first.ctx, chromedp.Navigate("about:blank")))
	s.subscribe(t, "win-2", 1)
	for _, b := range tabs[1:] {
		b.shows("win-2", "online")
		b.live()
	}
	t.Logf("after the leader went the others were live again after %s", time.Since(began).Round(time.Millisecond))
	require.Equal(t, "1", s.metric(t, "pushd_feed_viewers"))
	for _, b := range tabs[1:] {
		b.clean()
	}
}

// EventSource gives up for good on a 5xx, which is what a proxy says while the server
// behind it restarts.
func TestAPageBehindAProxyThatAnswers502IsLiveAgain(t *testing.T) {
	s := serve(t)
	s.token = s.mint(t, "root", "admin") // an open server is not for proxies
	target, err := url.Parse(s.base)
	require.NoError(t, err)
	var down atomic.Bool
	refused := make(chan struct{}, 1000)
	behind := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !down.Load() {
			behind.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/v1/feed" {
			refused <- struct{}{}
		}
		http.Error(w, "there is nobody behind me", http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	b := visitor(t, s)
	b.base = proxy.URL
	b.open("/ui/actions")
	signIn(b, s.token)
	b.live()
	same := b.stays()
	down.Store(true)
	proxy.CloseClientConnections()
	for range 3 { // it asks again, and again
		select {
		case <-refused:
		case <-time.After(patience):
			require.Fail(t, "the page does not ask again")
		}
	}
	b.wait(`document.querySelector('#link-state').textContent.startsWith('reconnecting')`)
	s.push(t, "meanwhile", "win-1")
	down.Store(false)
	b.live()
	b.shows("meanwhile", "queued")
	same()
	b.clean()
}

// From another host without TLS a browser has no locks and no clipboard; the tabs
// share one stream all the same, and what is to be copied is.
func TestPlainHTTPFromAnotherHostSharesOneStreamToo(t *testing.T) {
	s := serve(t)
	s.token = s.mint(t, "root", "admin")
	first := visitor(t, s)
	first.base = strings.Replace(s.base, "127.0.0.1", "pushd.test", 1)
	first.open("/ui/actions")
	require.False(t, js[bool](first, `isSecureContext || 'locks' in navigator || 'clipboard' in navigator`))
	signIn(first, s.token)
	first.live()
	second := first.another()
	second.open("/ui/actions")
	second.live()
	require.Equal(t, "1", s.metric(t, "pushd_feed_viewers"))
	s.push(t, "a1", "win-1")
	for _, b := range []*tab{first, second} {
		b.shows("a1", "queued")
	}
	began := time.Now()
	require.NoError(t, chromedp.Do(first.ctx, chromedp.Navigate("about:blank")))
	s.push(t, "a2", "win-1")
	second.shows("a2", "queued")
	t.Logf("after the leader went the other went on after %s", time.Since(began).Round(time.Millisecond))
	second.live()
	require.Equal(t, "1", s.metric(t, "pushd_feed_viewers"))
	second.open("/ui/action/a1")
	second.wait(`[...document.querySelectorAll('button')].some(e => e.textContent === 'JSON')`)
	require.NoError(t, chromedp.Do(second.ctx, chromedp.Click(`//button[text()="JSON"]`)))
	second.see("copied")
	second.clean()
}

func TestAViewThatIsPausedWaitsAndSaysSo(t *testing.T) {
	s := serve(t)
	b := visitor(t, s)
	b.open("/ui/actions")
	b.live()
	b.key("p")
	b.wait(`document.querySelector('#link-state').textContent === 'paused'`)
	s.push(t, "a1", "win-1")
	b.wait(`document.querySelector('#link-state').textContent.includes('changes wait')`)
	require.False(t, js[bool](b, `document.body.innerText.includes('a1')`))
	b.key("p")
	b.shows("a1", "queued")
	b.clean()
}

// What a list could not load is told, and never shown as empty.
func TestAListThatCannotBeReadIsNotShownAsEmpty(t *testing.T) {
	s := serve(t)
	b := visitor(t, s)
	b.open("/ui/system")
	b.live()
	s.kill()
	b.wait(`document.querySelector('#link-state').textContent.startsWith('reconnecting')`)
	b.click("Actions")
	b.see("The actions could not be read: the server does not answer.")
	require.False(t, js[bool](b, `document.body.innerText.includes('No action')`))
	s.restart(t)
	b.live()
	b.see("No action has been pushed yet.")
	b.clean()
}

// A page that is left open while much happens keeps what it holds in bounds, and goes
// on answering: 20,000 changes, or 200,000 with PUSHD_WEB_LARGE.
func TestAPageThatIsOpenForLongDoesNotGrow(t *testing.T) {
	rounds := 66
	if os.Getenv("PUSHD_WEB_LARGE") != "" {
		rounds *= 10
	}
	const each = 100 // actions a round: pushed, sent and done are 300 changes
	s := serve(t)
	agent := s.subscribe(t, "win-1", each)
	b := visitor(t, s)
	_, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		window.seen = {};
		window.EventSource = class extends EventSource {
			addEventListener(name, f) { super.addEventListener(name, e => { seen[name] = (seen[name] ?? 0) + 1; f(e); }); }
		};`})
	require.NoError(t, err)
	b.open("/ui/actions")
	b.live()
	heap := func() float64 {
		_, err := chromedp.Call(b.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
		require.NoError(t, err)
		return js[float64](b, `performance.memory.usedJSHeapSize / 1e6`)
	}
	var heaps []float64
	id := func(round, i int) string { return fmt.Sprintf("a%03d-%03d", round, i) }
	tick := time.NewTicker(200 * time.Millisecond) // at most 1,500 changes a second, half as much again as frames can hold
	defer tick.Stop()
	began, share := time.Now(), b.measure()
	for round := range rounds {
		<-tick.C
		pushes, acks := make([]api.Push, each), make([]api.Ack, each)
		for i := range each {
			pushes[i] = api.Push{ActionID: id(round, i), MachineID: "win-1", Type: "job"}
			acks[i] = api.Ack{ActionID: id(round, i), Status: "done"}
		}
		_, err := s.client().PushAll(t.Context(), pushes)
		require.NoError(t, err)
		for range each {
			agent.await(t)
		}
		_, err = s.client().AckAll(t.Context(), acks)
		require.NoError(t, err)
		if round%(rounds/6) == rounds/6-1 {
			b.shows(id(round, each-1), "done")
			heaps = append(heaps, heap())
		}
	}
	busy := share()
	seen := js[map[string]int](b, `seen`)
	t.Logf("%d changes in %s, of which the page was told %d, and %d times to read again; main thread busy %.0f %%; JS heap in MB: %.1f",
		rounds*each*3, time.Since(began).Round(time.Second), seen["change"], seen["resync"], 100*busy["TaskDuration"], heaps)
	require.Positive(t, seen["change"])
	require.Less(t, heaps[len(heaps)-1], heaps[0]+3, "the heap grows")
	require.LessOrEqual(t, js[int](b, `document.querySelectorAll('tbody tr').length`), 200)
	answered := time.Now()
	b.click("Fleet")
	b.shows("win-1", "online")
	b.wait(`document.querySelectorAll('.just-now li').length === 8`)
	t.Logf("a click is answered after %s", time.Since(answered).Round(time.Millisecond))
	b.clean()
}
