package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
	"pushd/server/webhook"
	"pushd/stream"
)

const benchSettings = `
webhooks:
  routes:
  - id: gh
    source: github
    secrets: ["file:secret"]
    machines: ["m*"]
    when: {body.action: opened}
    actions:
    - machine_id: {$from: body.machine}
      session_id: "s-{{ .body.issue.number }}"
      type: job
      payload: {title: "{{ .body.issue.title | trunc 500 }}", issue: {$from: body.issue}}
`

// fleet is machines that are connected and do what they are sent at once.
func fleet(b *testing.B, ctx context.Context, d *daemon, n int) *sync.WaitGroup {
	b.Helper()
	var running, ready sync.WaitGroup
	ready.Add(n)
	for i := range n {
		running.Go(func() {
			c := d.client()
			c.HTTP = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
			resp, err := c.Subscribe(ctx, api.Subscription{MachineID: fmt.Sprint("m", i), MaxInFlight: new(10)})
			ready.Done()
			if err != nil {
				return
			}
			defer resp.Body.Close()
			events := stream.NewDecoder(resp.Body)
			for {
				e, err := events.Next()
				if err != nil {
					return
				}
				var a api.Record
				if e.Name != "action" || json.Unmarshal(e.Data, &a) != nil {
					continue
				}
				_, _ = c.AckAll(ctx, []api.Ack{
					{ActionID: a.ActionID, Status: "received"}, {ActionID: a.ActionID, Status: "done"},
				})
			}
		})
	}
	ready.Wait()
	return &running
}

// BenchmarkWebhooks delivers 200 webhooks a second beside a fleet of 100 machines
// that does what they become, and reports how long senders waited. The rate is
// kept whatever the answers do, so that a slow answer is not a rest.
func BenchmarkWebhooks(b *testing.B) {
	dir := b.TempDir()
	for name, text := range map[string]string{"pushd.yaml": benchSettings, "secret": "pushd-test-secret"} {
		require.NoError(b, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	set, err := webhook.Load([]byte(benchSettings), webhook.Env{ReadFile: func(string) ([]byte, error) { return []byte("pushd-test-secret"), nil }})
	require.NoError(b, err)
	d := startIn(b, dir)
	ctx, stop := context.WithCancel(b.Context())
	running := fleet(b, ctx, d, 100)
	const rate = 200
	total := rate * 10 * max(1, b.N)
	waits := make([]time.Duration, total)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / rate)
	b.ResetTimer()
	for i := range total {
		<-tick.C
		due := time.Now()
		all.Go(func() {
			body := fmt.Sprintf(`{"action":"opened","machine":"m%d","issue":{"number":%d,"title":"It is broken","body":%q}}`, i%100, i, bytes.Repeat([]byte("x"), 4096))
			s := set.Routes[0].Sign([]byte(body), "issues", fmt.Sprint("d", i), false, time.Now())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+"/webhooks/gh", bytes.NewReader(s.Body))
			if err != nil {
				return
			}
			req.Header = s.Header
			resp, err := client.Do(req)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusAccepted {
				waits[i] = time.Since(due)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	tick.Stop()
	require.NotContains(b, waits, time.Duration(0), "a delivery was not taken")
	slices.Sort(waits)
	at := func(p float64) float64 { return float64(waits[int(p*float64(total-1))]) / float64(time.Millisecond) }
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
	b.ReportMetric(at(1), "max-ms")
	stop()
	running.Wait()
}
