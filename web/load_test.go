package web_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// What a page costs is measured and told, not judged: a loaded machine is slow.

func TestAThousandMachinesAreQuicklyThereAndStayCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement")
	}
	s := serve(t)
	machines := 1000
	if os.Getenv("PUSHD_WEB_LARGE") != "" {
		machines = 10_000
	}
	push(t, s, machines, func(i int) api.Push {
		return api.Push{ActionID: fmt.Sprintf("seed-%04d", i), MachineID: fmt.Sprintf("m-%04d", i), Type: "job"}
	})
	const busy = 50 // of them with an agent that is sent something now and then
	agents := make([]*agent, busy)
	for i := range agents {
		agents[i] = s.subscribe(t, fmt.Sprintf("m-%04d", i), 100)
	}
	b := visitor(t, s)
	b.open("/ui/system") // what the browser keeps is kept now, as for a reader who comes back
	require.NoError(t, chromedp.Do(b.ctx, chromedp.Navigate("about:blank")))
	b.open("/")
	b.wait(`document.querySelectorAll('tbody tr').length > 20`)
	t.Logf("Fleet with %d machines: first contentful paint %.0f ms, rows %.0f ms after navigation", machines,
		js[float64](b, `performance.getEntriesByName('first-contentful-paint')[0].startTime`), js[float64](b, `performance.now()`))
	require.LessOrEqual(t, js[int](b, `document.querySelectorAll('tbody tr').length`), 200)
	b.live()
	share := b.mainThread(10*time.Second, func(ctx context.Context) {
		tick := time.NewTicker(20 * time.Millisecond) // 50 changes a second
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				_, err := s.client().Push(ctx, api.Push{MachineID: fmt.Sprintf("m-%04d", i%busy), Type: "job"})
				if err != nil && ctx.Err() == nil {
					t.Errorf("push: %v", err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	t.Logf("main thread at 50 pushes a second (each two changes): busy %.0f %%, script %.0f %%, layout and style %.0f %%, heap %.1f MB",
		100*share["TaskDuration"], 100*share["ScriptDuration"], 100*(share["LayoutDuration"]+share["RecalcStyleDuration"]), share["JSHeapUsedSize"]/1e6)
	began := time.Now()
	b.click("offline")
	b.wait(`location.search.includes('offline') && document.querySelector('tbody tr td')`)
	t.Logf("a click on a filter is answered after %s", time.Since(began).Round(time.Millisecond))
	b.clean()
}

func TestAHundredThousandActionsArePagedAndWindowed(t *testing.T) {
	n := 100_000
	if os.Getenv("PUSHD_WEB_LARGE") == "" {
		n = 5_000
	}
	s := serve(t)
	push(t, s, n, func(i int) api.Push {
		return api.Push{ActionID: fmt.Sprintf("seed-%06d", i), MachineID: fmt.Sprintf("seed-%02d", i%50), SessionID: fmt.Sprint("s-", i), Type: "case"}
	})
	b := visitor(t, s)
	began := time.Now()
	b.open("/ui/actions")
	b.shows(fmt.Sprintf("seed-%06d", n-1), "queued")
	t.Logf("first rows of %d actions after %s", n, time.Since(began).Round(time.Millisecond))
	for range 12 { // to the end of what is loaded, twelve times: each brings more
		rows := js[int](b, `(scrollTo(0, document.body.scrollHeight), +document.querySelector('table').ariaRowCount)`)
		b.wait(fmt.Sprintf(`+document.querySelector('table').ariaRowCount > %d`, rows))
	}
	require.LessOrEqual(t, js[int](b, `document.querySelectorAll('tbody tr').length`), 200)
	began = time.Now()
	b.open("/ui/actions?q=machine:seed-07+state:queued")
	b.shows(fmt.Sprintf("seed-%06d", n-43), "queued")
	t.Logf("a search in them after %s", time.Since(began).Round(time.Millisecond))
	b.clean()
}

// push pushes many in arrays of a thousand.
func push(t *testing.T, s *server, n int, of func(i int) api.Push) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		var all []api.Push
		for i := from; i < min(n, from+1000); i++ {
			all = append(all, of(i))
		}
		_, err := s.client().PushAll(t.Context(), all)
		require.NoError(t, err)
	}
}

// mainThread measures which share of a while the page's main thread was busy, by
// kind, while something goes on.
func (b *tab) mainThread(d time.Duration, meanwhile func(context.Context)) map[string]float64 {
	b.t.Helper()
	share := b.measure()
	ctx, cancel := context.WithTimeout(b.ctx, d)
	defer cancel()
	var other sync.WaitGroup
	other.Go(func() { meanwhile(ctx) })
	other.Wait() // until its time is over
	return share()
}

// measure begins to measure the page's main thread; what it returns tells the shares
// of the time since then, and the heap.
func (b *tab) measure() func() map[string]float64 {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, performance.Enable, performance.EnableParams{})
	require.NoError(b.t, err)
	read := func() map[string]float64 {
		all, err := chromedp.Run(b.ctx, func(ctx context.Context, _ *chromedp.Target) (map[string]float64, error) {
			got, err := chromedp.Call(b.ctx, performance.GetMetrics, struct{}{})
			out := map[string]float64{}
			for _, m := range got.Metrics {
				out[m.Name] = m.Value
			}
			return out, err
		})
		require.NoError(b.t, err)
		return all
	}
	before := read()
	return func() map[string]float64 {
		after := read()
		out := map[string]float64{"JSHeapUsedSize": after["JSHeapUsedSize"]}
		for _, name := range []string{"TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"} {
			out[name] = (after[name] - before[name]) / (after["Timestamp"] - before["Timestamp"])
		}
		return out
	}
}
