package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// A reader's clock that is two hours wrong, in a zone of its own, changes no age and
// sets no pause by itself.
func TestAWrongClockAndAForeignZoneTellTheSameAges(t *testing.T) {
	s := serve(t)
	s.subscribe(t, "win-1", 1)
	for _, off := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		b := visitor(t, s)
		_, err := chromedp.Call(b.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"})
		require.NoError(t, err)
		_, err = chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: fmt.Sprintf(`{ const now = Date.now; Date.now = () => now() + %d; }`, off.Milliseconds()),
		})
		require.NoError(t, err)
		b.open("/")
		b.live()
		b.shows("win-1", "online")
		b.wait(`(() => { const [, n, unit] = /^(\d+) (s|min)/.exec(` + row("win-1") + `.querySelector('time').textContent); return (unit === 's' ? +n : 60 * n) <= 60 * 5; })()`)
		b.open("/ui/machine/win-1")
		b.live()
		b.click("Pause")
		js[bool](b, `(() => { const i = document.querySelector('dialog select'); i.value = '10'; i.dispatchEvent(new Event('change', {bubbles: true})); return true })()`)
		b.click("Pause the machine")
		b.see("machine win-1 is paused.")
		m, err := s.client().Machine(t.Context(), "win-1")
		require.NoError(t, err)
		require.Len(t, m.Paused, 1)
		require.WithinDuration(t, time.Now().Add(10*time.Minute), m.Paused[0].Until.Time, 2*time.Minute)
		// The end is told by the wall clock of the reader's zone, 5:45 east of Greenwich.
		kathmandu := m.Paused[0].Until.UTC().Add(5*time.Hour + 45*time.Minute).Format("15:04:05")
		b.see("until ")
		b.see(kathmandu)
		require.NoError(t, s.client().Resume(t.Context(), "machines", "win-1"))
		b.clean()
	}
}

// Words of any script, and ids as long as they may be, break no page.
func TestLongIDsAndWordsOfAnyScriptBreakNoPage(t *testing.T) {
	s := serve(t, "policy.max_attempts=1")
	long := strings.Repeat("abcdefghij-0123456789.", 6)[:128]
	hebrew := "המגירה תקועה (E42), נסה שוב 2×"
	agent := s.subscribe(t, long, 5)
	for i, id := range []string{long, "x" + long[1:], "y" + long[1:]} {
		s.push(t, id, long, func(p *api.Push) {
			p.Type, p.SessionID, p.OnDead = "type-"+long[:50], fmt.Sprint(i, long[1:]), "skip"
			p.Labels = map[string]string{"קופה": hebrew, "レジ": "引き出しが開かない🙃"}
		})
		agent.await(t)
		s.ack(t, id, "failed", func(a *api.Ack) {
			a.Error = &api.Failure{Kind: "permanent", Message: hebrew + strings.Repeat("ﷺ", 40)}
		})
	}
	require.NoError(t, s.client().Pause(t.Context(), "machines", long, api.PauseRequest{Note: hebrew}))
	b := visitor(t, s)
	for _, width := range []int64{1280, 320} {
		b.size(width, 800)
		for path, shown := range map[string]string{
			"/": long, "/ui/machine/" + long: hebrew, "/ui/actions": long, "/ui/action/" + long: "引き出しが開かない🙃", "/ui/dead": hebrew, "/ui/system": hebrew,
		} {
			b.open(path)
			b.live()
			b.see(shown)
			require.LessOrEqual(t, js[int](b, `document.documentElement.scrollWidth - innerWidth`), 0, "%s scrolls sideways at %d px", path, width)
			b.shot(fmt.Sprint(width, strings.ReplaceAll(path[:min(len(path), 12)], "/", "-")))
		}
	}
	// What is written from the right stands by itself: the sentence around it keeps its order.
	b.open("/ui/machine/" + long)
	b.live()
	b.wait(`getComputedStyle([...document.querySelectorAll('bdi')].find(e => e.textContent.includes('E42'))).unicodeBidi === 'isolate'`)
	b.clean()
}
