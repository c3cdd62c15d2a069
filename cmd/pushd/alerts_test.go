package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// toldSettings give each kind a receiver of its own: a message spells out five.
const toldSettings = `
policy: {breaker_threshold: 1, breaker_pause: 1h, transient_max_attempts: 5}
watchdog: {scan_interval: 1s}
stream: {disconnect_grace: 1s, reconnect_grace: 1s}
alerts:
  gather: %s
  every: 50ms
  offline_after: 1s
  receivers:
`

const alertSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"

// word is one alert as a receiver hears it.
type word struct {
	Kind     string
	Key      string
	Text     string
	Resolved bool
}

// ears are a receiver of alerts. Who is deaf answers 503.
type ears struct {
	*httptest.Server
	mu    sync.Mutex
	deaf  bool
	tries map[string][]string // by what is told: the ids of the messages, also of those that were refused
	heard []word
	more  chan struct{}
}

func listenForAlerts(t *testing.T) *ears {
	t.Helper()
	e := &ears{more: make(chan struct{}, 1000), tries: map[string][]string{}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var said struct{ Data struct{ Events []word } }
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &said)
		}
		e.mu.Lock()
		for _, one := range said.Data.Events {
			e.tries[one.Key] = append(e.tries[one.Key], r.Header.Get("webhook-id"))
		}
		if e.deaf || err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else {
			e.heard = append(e.heard, said.Data.Events...)
		}
		e.mu.Unlock()
		e.more <- struct{}{}
	}))
	t.Cleanup(e.Close)
	return e
}

// count is how often something was told.
func (e *ears) count(key string, resolved bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counted(key, resolved)
}

func (e *ears) counted(key string, resolved bool) (n int) {
	for _, h := range e.heard {
		if h.Key == key && h.Resolved == resolved {
			n++
		}
	}
	return n
}

// await waits until something has been told so often.
func (e *ears) await(t *testing.T, d *daemon, times int, key string, resolved bool) {
	t.Helper()
	e.awaitAny(t, d, func() bool { return e.counted(key, resolved) >= times })
}

// awaitAny looks at what was heard each time that there is more.
func (e *ears) awaitAny(t *testing.T, d *daemon, is func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		e.mu.Lock()
		there, heard := is(), slices.Clone(e.heard)
		e.mu.Unlock()
		if there {
			return
		}
		select {
		case <-e.more:
		case <-late:
			require.FailNow(t, "nobody is told", "%+v\n%s", heard, d.log.String())
		}
	}
}

// trouble is one kind of alert: what makes it, and what ends it.
type trouble struct {
	key        string
	make, mend func(c *api.Client)
}

func troubles(t *testing.T) []trouble {
	ctx := t.Context()
	push := func(c *api.Client, p api.Push) {
		p.Type = "job"
		_, err := c.Push(ctx, p)
		require.NoError(t, err)
	}
	take := func(c *api.Client, s api.Subscription) {
		resp, err := c.Next(ctx, s, 0)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	ack := func(c *api.Client, a api.Ack) {
		_, err := c.Ack(ctx, a)
		require.NoError(t, err)
	}
	redrive := func(id string) func(c *api.Client) {
		return func(c *api.Client) {
			_, err := c.Redrive(ctx, id)
			require.NoError(t, err)
		}
	}
	lost := api.Push{OrphanTimeoutS: api.S(time.Millisecond), MaxResends: new(0)}
	return []trouble{
		{"machine/away", func(c *api.Client) {
			resp, err := c.Subscribe(ctx, api.Subscription{MachineID: "away"})
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}, func(c *api.Client) {
			resp, err := c.Subscribe(ctx, api.Subscription{MachineID: "away"})
			require.NoError(t, err)
			t.Cleanup(func() { _ = resp.Body.Close() }) // it stays
		}},
		{"action/failed", func(c *api.Client) {
			push(c, api.Push{ActionID: "failed", MachineID: "f"})
			take(c, api.Subscription{MachineID: "f"})
			ack(c, api.Ack{ActionID: "failed", Status: "failed", Error: &api.Failure{Kind: "permanent"}})
		}, redrive("failed")},
		{"action/gave-up", func(c *api.Client) {
			p := lost
			p.ActionID, p.MachineID = "gave-up", "g"
			push(c, p)
			take(c, api.Subscription{MachineID: "g"})
		}, redrive("gave-up")},
		{"action/doubt", func(c *api.Client) {
			push(c, api.Push{ActionID: "doubt", MachineID: "d", Guarantee: "at_most_once"})
			take(c, api.Subscription{MachineID: "d", InstanceID: "i1"})
			ack(c, api.Ack{ActionID: "doubt", Status: "received"})
			take(c, api.Subscription{MachineID: "d", InstanceID: "i2"})
		}, func(c *api.Client) {
			_, err := c.Resolve(ctx, "doubt", api.Resolution{As: "done"})
			require.NoError(t, err)
		}},
		{"pause/session/s/h", func(c *api.Client) {
			for _, id := range []string{"help-1", "help-2"} {
				p := lost
				p.ActionID, p.MachineID, p.SessionID, p.OnDead = id, "h", "s", "skip"
				push(c, p)
				take(c, api.Subscription{MachineID: "h"})
				require.Eventually(t, func() bool {
					r, err := c.Action(ctx, id, time.Second)
					return err == nil && r.State == "gave_up"
				}, patience, 10*time.Millisecond)
			}
		}, func(c *api.Client) { require.NoError(t, c.Resume(ctx, api.Sessions, "s")) }},
		{"breaker/b/claude", func(c *api.Client) {
			push(c, api.Push{ActionID: "broke", MachineID: "b", Target: "claude"})
			take(c, api.Subscription{MachineID: "b"})
			ack(c, api.Ack{ActionID: "broke", Status: "failed", Error: &api.Failure{Kind: "transient"}})
		}, func(c *api.Client) { require.NoError(t, c.CloseBreaker(ctx, "b", "claude")) }},
	}
}

// settings are those of a server that tells e.
func (e *ears) settings(gather string) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, toldSettings, gather)
	for _, kind := range []string{"gave_up", "failed", "in_doubt", "need_help", "breaker", "machine_offline"} {
		fmt.Fprintf(&text, "  - {id: %s, kind: webhook, events: [%[1]s], url: %q, secret: file:secret}\n", kind, e.URL)
	}
	return []byte(text.String())
}

// Each kind of alert is told once, and once that it has passed.
func TestEachAlertIsToldOnceAndResolved(t *testing.T) {
	t.Parallel()
	e := listenForAlerts(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(alertSecret), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pushd.yaml"), e.settings("50ms"), 0o600))
	d := startIn(t, dir)
	all := troubles(t)
	for _, one := range all {
		one.make(d.client())
		e.await(t, d, 1, one.key, false)
		one.mend(d.client())
		e.await(t, d, 1, one.key, true)
	}
	for _, one := range all {
		require.Equal(t, 1, e.count(one.key, false), one.key)
		require.Equal(t, 1, e.count(one.key, true), one.key)
	}
}

// What a receiver did not take is told it after a kill, under the same id; what was
// only heard is after a graceful end; and what stands then is told again, so that
// its end can be.
func TestAlertsOutliveTheServer(t *testing.T) {
	t.Parallel()
	e := listenForAlerts(t)
	e.deaf = true
	dir := t.TempDir()
	life := func(gather string) *daemon {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "pushd.yaml"), e.settings(gather), 0o600))
		return startIn(t, dir)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "secret"), []byte(alertSecret), 0o600))
	d := life("50ms")
	all := troubles(t)
	failed, breaker := all[1], all[5]
	failed.make(d.client())
	e.awaitAny(t, d, func() bool { return len(e.tries[failed.key]) > 0 })
	d.kill()
	e.mu.Lock()
	e.deaf = false
	e.mu.Unlock()

	d = life("1h")
	e.await(t, d, 1, failed.key, false) // from the outbox: nothing that is heard now is due
	breaker.make(d.client())
	code, err := d.end(os.Interrupt)
	require.NoError(t, err)
	require.Zero(t, code)
	require.Zero(t, e.count(breaker.key, false))

	d = life("50ms")
	e.await(t, d, 2, breaker.key, false) // from the outbox, and as what stands
	breaker.mend(d.client())
	e.await(t, d, 1, breaker.key, true)
	require.Equal(t, 1, e.count(failed.key, false))
	e.mu.Lock()
	defer e.mu.Unlock()
	ids := e.tries[failed.key]
	require.Equal(t, ids[0], ids[len(ids)-1])
}
