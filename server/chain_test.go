package server_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore/boltstore"
	"pushd/server"
	"pushd/server/api"
	"pushd/server/webhook"
)

const chainRoutes = `
webhooks:
  routes:
  - id: deploy
    source: settled
    when: {action.state: done, action.type: build, action.result.ok: true}
    actions:
    - machine_id: "{{ .action.machine_id }}"
      type: deploy
      session_id: "{{ .action.session_id }}"
      payload: {built: {$from: action.result}, by: "{{ .action.action_id }}"}
  - id: report
    source: settled
    when: {action.state: [failed, gave_up], action.labels.team: a}
    actions: [{machine_id: desk, type: report}]
  - id: loop
    source: settled
    when: {action.type: spin}
    actions: [{machine_id: "{{ .action.machine_id }}", type: spin}]
`

// startChained runs chains beside the server until the test ends.
func startChained(t *testing.T, routes string) *hooked {
	t.Helper()
	set, err := webhook.Load([]byte(routes), webhook.Env{Getenv: func(string) string { return hookSecret }, ReadFile: os.ReadFile})
	require.NoError(t, err)
	bell := server.NewBell()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	r := start(t, options{
		config: func(c *server.Config) { c.Stream.WriteTimeout = 5 * time.Second },
		deps: func(d *server.Deps, s *boltstore.Store) {
			require.NoError(t, s.Follow(t.Context(), server.FollowingOf(set)))
			d.Webhooks = server.Webhooks{Set: set, Inbox: s, Bell: bell}
		},
		changed: bell.Changed,
		beside:  func(s *server.Server) { running.Go(func() { _ = s.RunChains(ctx) }) },
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return &hooked{r, set}
}

// end makes an agent take the next action of a machine and answer it.
func (h *hooked) end(machine string, ack map[string]any) map[string]any {
	h.t.Helper()
	var got map[string]any
	h.want(200, "POST", "/next?wait_s=10&machine_id="+machine, nil, &got)
	ack["action_id"], ack["delivery"] = got["action_id"], got["delivery"]
	h.want(200, "POST", "/acks", ack, nil)
	return got
}

func TestAnEndMakesTheNextAction(t *testing.T) {
	t.Parallel()
	h := startChained(t, chainRoutes)
	h.want(201, "POST", "/v1/actions", map[string]any{"action_id": "b1", "machine_id": "m1", "session_id": "s1", "type": "build", "labels": map[string]string{"pushd.origin": "untrusted:webhook/x"}}, nil)
	h.end("m1", map[string]any{"status": "done", "result": map[string]any{"ok": true, "n": 1}})
	got := h.end("m1", map[string]any{"status": "done"})
	require.Equal(t, "deploy", got["type"])
	require.Equal(t, "s1", got["session_id"])
	require.Equal(t, map[string]any{"built": map[string]any{"ok": true, "n": float64(1)}, "by": "b1"}, got["payload"])
	require.Equal(t, map[string]any{"pushd.origin": "untrusted:webhook/x", "pushd.chain_depth": "1", "pushd.chain_of": "b1", "pushd.delivery": "b1"}, got["labels"])

	h.want(201, "POST", "/v1/actions", map[string]any{"machine_id": "m1", "type": "build"}, nil)
	h.end("m1", map[string]any{"status": "done", "result": map[string]any{"ok": false}})
	h.want(201, "POST", "/v1/actions", map[string]any{"machine_id": "m1", "type": "other", "labels": map[string]string{"team": "a"}}, nil)
	h.end("m1", map[string]any{"status": "failed", "error": map[string]any{"kind": "permanent"}})
	require.Equal(t, "report", h.end("desk", map[string]any{"status": "done"})["type"])
	var list api.List[api.Record]
	h.want(200, "GET", "/v1/actions?type=deploy", nil, &list)
	require.Len(t, list.Items, 1, "ok was false the second time")
	var page api.List[api.Delivery]
	h.want(200, "GET", "/v1/webhooks/deploy/deliveries", nil, &page)
	require.Len(t, page.Items, 1)
	require.Equal(t, "b1", page.Items[0].DeliveryID)
	h.want(404, "POST", "/webhooks/deploy", "{}", nil)
}

// A chain that feeds itself ends at its sixteenth link, with a clear record.
func TestALoopEnds(t *testing.T) {
	t.Parallel()
	h := startChained(t, chainRoutes)
	h.want(201, "POST", "/v1/actions", map[string]any{"machine_id": "m1", "type": "spin"}, nil)
	for range 17 {
		h.end("m1", map[string]any{"status": "done"})
	}
	var page api.List[api.Delivery]
	require.Eventually(t, func() bool {
		h.want(200, "GET", "/v1/webhooks/loop/deliveries", nil, &page)
		return len(page.Items) == 17
	}, patience, 10*time.Millisecond)
	require.Equal(t, "looped", page.Items[0].Verdict)
	require.Contains(t, page.Items[0].Detail, "16 links")
	require.Empty(t, page.Items[0].Actions)
	var list api.List[api.Record]
	h.want(200, "GET", "/v1/actions?type=spin", nil, &list)
	require.Len(t, list.Items, 17)
}
