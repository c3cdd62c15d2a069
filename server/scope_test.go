package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server"
)

// routeCase is a call of a route, and the tokens that may make it. The machine is
// win-1 where a pattern matters.
type routeCase struct {
	route, path string
	body        any
	allowed     string
}

var none = map[string]any{}

var routeCases = []routeCase{
	{"POST /v1/actions", "/v1/actions", map[string]any{"machine_id": "win-1", "type": "job"}, "admin push push-win"},
	{"GET /v1/actions", "/v1/actions", nil, "admin read read-win"},
	{"GET /v1/actions/:id", "/v1/actions/w1", nil, "admin read read-win"},
	{"POST /v1/actions/:id/cancel", "/v1/actions/w1/cancel", none, "admin operate operate-win"},
	{"POST /v1/actions/:id/redrive", "/v1/actions/w1/redrive", none, "admin operate operate-win"},
	{"POST /v1/actions/:id/resolve", "/v1/actions/w1/resolve", map[string]any{"as": "done"}, "admin operate operate-win"},
	{"POST /v1/cancel", "/v1/cancel", map[string]any{"machine_id": "win-1", "dry_run": true}, "admin operate operate-win"},
	{"POST /v1/redrive", "/v1/redrive", map[string]any{"machine_id": "win-1", "dry_run": true}, "admin operate operate-win"},
	{"GET /events", "/events?machine_id=win-1&max_in_flight=x", nil, "admin agent"}, // 400 to who may
	{"GET /next", "/next?machine_id=win-1", nil, "admin agent"},
	{"POST /next", "/next?machine_id=win-1", nil, "admin agent"},
	{"POST /acks", "/acks", map[string]any{"action_id": "w1", "status": "received"}, "admin agent"},
	{"GET /v1/machines", "/v1/machines", nil, "admin read read-win"},
	{"GET /v1/machines/:id", "/v1/machines/win-1", nil, "admin read read-win"},
	{"PATCH /v1/machines/:id", "/v1/machines/win-1", map[string]any{"max_in_flight": 1}, "admin operate operate-win agent"},
	{"DELETE /v1/machines/:id", "/v1/machines/win-1", nil, "admin operate operate-win"},
	{"POST /v1/machines/:id/beat", "/v1/machines/win-1/beat", map[string]any{"stream_id": "x"}, "admin agent"},
	{"POST /v1/machines/:id/pause", "/v1/machines/win-1/pause", none, "admin operate operate-win"},
	{"POST /v1/machines/:id/resume", "/v1/machines/win-1/resume", none, "admin operate operate-win"},
	{"POST /v1/breakers/close", "/v1/breakers/close", map[string]any{"machine_id": "win-1"}, "admin operate operate-win"},
	{"GET /v1/sessions", "/v1/sessions", nil, "admin read read-win"},
	{"GET /v1/sessions/:id", "/v1/sessions/s1", nil, "admin read read-win"},
	{"POST /v1/sessions/:id/pause", "/v1/sessions/s1/pause", map[string]any{"machine_id": "win-1"}, "admin operate operate-win"},
	{"POST /v1/sessions/:id/resume", "/v1/sessions/s1/resume", map[string]any{"machine_id": "win-1"}, "admin operate operate-win"},
	{"POST /v1/sessions/:id/cancel", "/v1/sessions/s1/cancel", map[string]any{"machine_id": "win-1"}, "admin operate operate-win"},
	{"GET /v1/replays", "/v1/replays", nil, "admin read read-win"},
	{"GET /v1/replays/:id", "/v1/replays/r1", nil, "admin read read-win"},
	{"POST /v1/replays/:id/pause", "/v1/replays/r1/pause", map[string]any{"machine_id": "win-1"}, "admin operate operate-win"},
	{"POST /v1/replays/:id/resume", "/v1/replays/r1/resume", map[string]any{"machine_id": "win-1"}, "admin operate operate-win"},
	{"POST /v1/replays/:id/cancel", "/v1/replays/r1/cancel", map[string]any{"machine_id": "win-1"}, "admin operate operate-win"},
	{"GET /queue", "/queue", nil, "admin read read-win"},
	{"GET /v1/watchdog/metrics", "/v1/watchdog/metrics", nil, "admin read read-win"},
	{"GET /v1/feed", "/v1/feed?x=1", nil, "admin read read-win"}, // 400 to who may
	{"GET /v1/stats", "/v1/stats", nil, "admin read read-win"},
	{"GET /v1/fleet", "/v1/fleet", nil, "admin read read-win"},
	{"GET /v1/dead", "/v1/dead", nil, "admin read read-win"},
	{"GET /metrics", "/metrics", nil, "admin read read-win"},
	{"GET /v1/backup", "/v1/backup", nil, "admin"},
	{"POST /v1/tokens", "/v1/tokens", none, "admin"},
	{"GET /v1/tokens", "/v1/tokens", nil, "admin"},
	{"DELETE /v1/tokens/:id", "/v1/tokens/none", nil, "admin"},
	{"GET /v1/session", "/v1/session", nil, "all"},
	{"POST /v1/session", "/v1/session", none, "all"},
	{"DELETE /v1/session", "/v1/session", nil, "all"},
	{"GET /healthz", "/healthz", nil, "all"},
	{"HEAD /healthz", "/healthz", nil, "all"},
	{"GET /readyz", "/readyz", nil, "all"},
	{"HEAD /readyz", "/readyz", nil, "all"},
	{"GET /openapi.yaml", "/openapi.yaml", nil, "all"},
	{"GET /install.sh", "/install.sh", nil, "all"},
	{"GET /install.ps1", "/install.ps1", nil, "all"},
	{"GET /download/:name", "/download/SHA256SUMS", nil, "all"},
	{"POST /webhooks/:route", "/webhooks/none", none, "all"},
	{"GET /v1/webhooks", "/v1/webhooks", nil, "admin read"},
	{"GET /v1/webhooks/:route/deliveries", "/v1/webhooks/none/deliveries", nil, "admin read"},
	{"GET /v1/webhooks/:route/deliveries/:id", "/v1/webhooks/none/deliveries/1", nil, "admin read"},
	{"POST /v1/webhooks/:route/deliveries/:id/replay", "/v1/webhooks/none/deliveries/1/replay", none, "admin operate"},
	{"POST /v1/webhooks/:route/test", "/v1/webhooks/none/test", none, "admin operate"},
}

var scopes = map[string][]string{
	"admin": {"admin"}, "push": {"push"}, "read": {"read"}, "operate": {"operate"}, "agent": {"agent:win-*"},
	"push-win": {"push:win-*"}, "read-win": {"read:win-*"}, "operate-win": {"operate:win-?"},
	"elsewhere": {"push:lin-*", "read:lin-*", "operate:lin-*", "agent:lin-*"},
}

func TestEachRouteIsForItsScopesOnly(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	for _, id := range []string{"w1", "w2"} {
		r.want(201, "POST", "/v1/actions", map[string]any{"action_id": id, "machine_id": "win-1", "type": "job", "session_id": "s1", "replay_id": "r1"}, nil, r.as("admin"))
	}
	var covered []string
	for _, c := range routeCases {
		covered = append(covered, c.route)
		method, _, _ := strings.Cut(c.route, " ")
		for who := range scopes {
			allowed := c.allowed == "all" || slices.Contains(strings.Fields(c.allowed), who)
			// Lists and glances are for every reader; what is out of reach is not on them.
			if who == "elsewhere" && strings.Contains(c.allowed, "read-win") && !strings.Contains(c.route, ":id") {
				allowed = true
			}
			a := r.call(method, c.path, c.body, r.as(who))
			if allowed {
				require.NotContains(t, []int{401, 403}, a.status, "%s %s: %s", who, c.route, a.body)
				require.Less(t, a.status, 500, "%s %s: %s", who, c.route, a.body)
			} else {
				require.Equal(t, 403, a.status, "%s %s: %s", who, c.route, a.body)
				r.problem(a)
			}
		}
		a := r.call(method, c.path, c.body)
		if c.allowed == "all" {
			require.NotEqual(t, 403, a.status)
		} else {
			require.Equal(t, 401, a.status, c.route)
			r.problem(a)
		}
		require.Equal(t, a.status == 401, r.call(method, c.path, c.body, "Authorization: Bearer wrong").status == 401, c.route)
	}
	require.ElementsMatch(t, server.RouteList(), covered)
}

func TestWhoMayNothingLearnsNothing(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/actions", "{"},
		{"POST", "/acks", "nonsense"},
		{"POST", "/v1/tokens", `{"x":1}`},
		{"POST", "/v1/cancel", "[]"},
		{"GET", "/v1/actions?limt=1", ""},
		{"GET", "/events", ""},
		{"PATCH", "/v1/machines/lin-1", `{"x":1}`},
		{"POST", "/v1/actions/none/resolve", "{}"},
	} {
		require.Equal(t, 401, r.call(c.method, c.path, c.body).status, c.path)
		who := "read"
		if c.method == "GET" {
			who = "push"
		}
		require.Equal(t, 403, r.call(c.method, c.path, c.body, r.as(who)).status, c.path)
	}
	// A machine out of reach is 403 before anything else is looked at.
	require.Equal(t, 403, r.call("GET", "/events?machine_id=lin-1&max_inflight=1", nil, r.as("agent")).status)
}

func TestListsShowWhatIsWithinThePattern(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	for id, machine := range map[string]string{"w1": "win-1", "l1": "lin-1"} {
		r.want(201, "POST", "/v1/actions", map[string]any{"action_id": id, "machine_id": machine, "type": "job", "session_id": "of-" + machine, "replay_id": "both"}, nil, r.as("admin"))
		r.want(200, "POST", "/v1/machines/"+machine+"/pause", none, nil, r.as("admin"))
	}
	for _, path := range []string{"/v1/actions", "/v1/machines", "/v1/sessions", "/queue", "/v1/replays"} {
		a := r.want(200, "GET", path, nil, nil, r.as("read-win"))
		require.NotContains(t, string(a.body), "lin-1", path)
		if path != "/v1/replays" {
			require.Contains(t, string(a.body), "win-1", path)
		}
	}
	var q struct{ Counts map[string]int }
	r.want(200, "GET", "/queue", nil, &q, r.as("read-win"))
	require.Equal(t, 1, q.Counts["queued"])
	r.want(200, "GET", "/v1/replays/both", nil, &q, r.as("read-win"))
	require.Equal(t, 1, q.Counts["queued"])
	r.want(403, "GET", "/v1/sessions/of-lin-1", nil, nil, r.as("read-win"))
	r.want(403, "GET", "/v1/actions?machine_id=lin-1", nil, nil, r.as("read-win"))
	// A whole session is beyond a pattern.
	r.want(403, "POST", "/v1/sessions/of-win-1/cancel", none, nil, r.as("operate-win"))
	r.want(403, "POST", "/v1/cancel", map[string]any{"type": "job"}, nil, r.as("operate-win"))
	r.want(200, "POST", "/v1/replays/both/cancel", map[string]any{"machine_id": "win-1"}, nil, r.as("operate-win"))
	require.Equal(t, http.StatusOK, r.call("GET", "/v1/actions/l1", nil, r.as("admin")).status)
	var l1 struct{ State string }
	r.want(200, "GET", "/v1/actions/l1", nil, &l1, r.as("admin"))
	require.Equal(t, "queued", l1.State)
}

// Under a pattern a resume ends what holds a session on that machine, and leaves
// what holds it elsewhere.
func TestAResumeUnderAPatternIsOfItsMachine(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	for _, machine := range []string{"win-1", "lin-1"} {
		r.want(201, "POST", "/v1/actions", map[string]any{"action_id": "on-" + machine, "machine_id": machine, "type": "job", "session_id": "s1"}, nil, r.as("admin"))
		r.want(200, "POST", "/v1/sessions/s1/pause", map[string]any{"machine_id": machine}, nil, r.as("admin"))
	}
	r.want(403, "POST", "/v1/sessions/s1/resume", none, nil, r.as("operate-win"))
	r.want(403, "POST", "/v1/sessions/s1/resume", map[string]any{"machine_id": "lin-1"}, nil, r.as("operate-win"))
	var left struct {
		Paused []struct {
			MachineID string `json:"machine_id"`
		}
	}
	r.want(200, "POST", "/v1/sessions/s1/resume", map[string]any{"machine_id": "win-1"}, &left, r.as("operate-win"))
	require.Len(t, left.Paused, 1)
	require.Equal(t, "lin-1", left.Paused[0].MachineID)
	r.want(200, "POST", "/v1/sessions/s1/resume", none, nil, r.as("admin"))
	require.Contains(t, string(r.want(200, "GET", "/queue", nil, nil, r.as("admin")).body), `"paused":[]`)
}
