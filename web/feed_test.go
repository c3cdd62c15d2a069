package web_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
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

func TestSevenTabsUseOneStreamAndAllFollow(t *testing.T) {
	s := serve(t)
	first := visitor(t, s)
	tabs := []*tab{first}
	for len(tabs) < 7 {
		tabs = append(tabs, first.another())
	}
	for i, b := range tabs {
		began := time.Now()
		b.open("/")
		b.live()
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

// A page that is open while much happens keeps what it holds in bounds.
func TestAPageThatIsOpenForLongDoesNotGrow(t *testing.T) {
	s := serve(t)
	agent := s.subscribe(t, "win-1", 100)
	b := visitor(t, s)
	b.open("/ui/actions")
	b.live()
	const rounds, each = 4, 500
	var heap []int
	for round := range rounds {
		for i := range each {
			s.push(t, fmt.Sprintf("a%d-%03d", round, i), "win-1")
			agent.await(t)
			s.ack(t, fmt.Sprintf("a%d-%03d", round, i), "done")
		}
		b.shows(fmt.Sprintf("a%d-%03d", round, each-1), "done")
		heap = append(heap, js[int](b, `(window.gc?.(), performance.memory.usedJSHeapSize)`))
	}
	t.Logf("JS heap after each 1,500 changes: %d bytes", heap)
	require.LessOrEqual(t, js[int](b, `document.querySelectorAll('tbody tr').length`), 200)
	b.clean()
}
