package web_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// story is a fleet on which everything has happened that a page can show.
func story(t *testing.T) *server {
	t.Helper()
	hooked := serveHooks(t, "watchdog.orphan_timeout=700ms", "watchdog.max_resends=2", "policy.breaker_threshold=2")
	hooked.all(t)
	s := hooked.server
	for i := range 14 {
		machine := fmt.Sprintf("win-%04d", i)
		a := s.subscribe(t, machine, 3)
		for j := range 1 + i%5 {
			id := fmt.Sprintf("render-%02d-%d", i, j)
			s.push(t, id, machine, func(p *api.Push) { p.Payload = json.RawMessage(`{"scene":"intro","frame":12345678901234567890}`) })
			a.await(t)
			s.ack(t, id, "received")
			if j%4 != 3 {
				s.ack(t, id, "done", func(a *api.Ack) { a.Result = json.RawMessage(`{"ok":true}`) })
			} else {
				s.ack(t, id, "working", func(a *api.Ack) { a.Progress = &api.Progress{Percent: new(62.0), Note: "frame 74 of 120"} })
			}
		}
	}
	lossy := s.subscribe(t, "kiosk-7", 4)
	till := func(i int) string {
		id := fmt.Sprintf("open-till-%d", i)
		s.push(t, id, "kiosk-7", func(p *api.Push) { p.SessionID, p.OnDead = fmt.Sprintf("till-%d", i), "skip" })
		return id
	}
	jammed := till(0)
	s.settled(t, jammed, "gave_up")
	_, err := s.client().Redrive(t.Context(), jammed)
	require.NoError(t, err)
	for failures := 0; failures < 2; {
		if got := lossy.await(t); got.Delivery > 3 {
			s.ack(t, jammed, "received")
			s.ack(t, jammed, "failed", func(a *api.Ack) {
				a.Delivery, a.Error = got.Delivery, &api.Failure{Kind: "error", Message: "drawer jammed", Code: "E42"}
			})
			failures++
		}
	}
	s.settled(t, till(1), "gave_up")
	s.settled(t, till(2), "gave_up")
	lossy.stop()
	for i := range 6 {
		s.push(t, fmt.Sprintf("receipt-%d", i), "kiosk-7", func(p *api.Push) { p.SessionID = "till-9" })
	}
	press := s.subscribe(t, "press-1", 2)
	for i := range 2 {
		id := fmt.Sprintf("print-%d", i)
		s.push(t, id, "press-1", func(p *api.Push) { p.Target = "claude/team-a" })
		press.await(t)
		s.ack(t, id, "failed", func(a *api.Ack) { a.Error = &api.Failure{Kind: "transient", Message: "429 too many requests"} })
	}
	s.push(t, "print-3", "press-1", func(p *api.Push) { p.Guarantee = "at_most_once" })
	press.await(t)
	require.NoError(t, s.client().Pause(t.Context(), "machines", "win-0003", api.PauseRequest{Note: "disk swap"}))
	return s
}

// Every page in both themes and on a telephone, for eyes: PUSHD_SCREENSHOTS names
// the folder, and without it there is nothing to do.
func TestScreenshots(t *testing.T) {
	s := story(t)
	b := visitor(t, s)
	b.size(1280, 860)
	pages := []struct{ name, path, has string }{
		{"fleet", "/", `document.querySelectorAll('tbody tr').length > 10`},
		{"machine", "/ui/machine/kiosk-7", `document.querySelector('.facts')`},
		{"actions", "/ui/actions?q=state:open", `document.querySelectorAll('tbody tr').length > 3`},
		{"action", "/ui/action/open-till-0", `document.querySelectorAll('.entry').length > 8`},
		{"given-up", "/ui/dead", `document.querySelectorAll('.group').length > 1`},
		{"webhooks", "/ui/webhooks/ci?d=1", `document.querySelectorAll('.hook pre').length === 2`},
		{"system", "/ui/system", `document.querySelectorAll('.chart').length === 4`},
	}
	for _, look := range []struct {
		name          string
		width, height int64
	}{{"dark", 1280, 860}, {"light", 1280, 860}, {"narrow", 320, 700}} {
		b.size(look.width, look.height)
		b.theme(map[string]string{"dark": "dark", "light": "light", "narrow": "light"}[look.name])
		for _, p := range pages {
			b.open(p.path)
			b.live()
			b.wait(p.has)
			require.LessOrEqual(t, js[int](b, `document.documentElement.scrollWidth - innerWidth`), 0, "%s scrolls sideways at %d px", p.name, look.width)
			b.shot(look.name + "-" + p.name)
		}
	}
	b.clean()
}
