package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"pushd/ackstore"
)

// scrape reads GET /metrics: each series and its value.
func (r *rig) scrape(headers ...string) map[string]float64 {
	r.t.Helper()
	a := r.want(200, "GET", "/metrics", nil, nil, headers...)
	require.Regexp(r.t, `^text/plain; version=0\.0\.4`, a.header.Get("Content-Type"))
	series := map[string]float64{}
	for line := range strings.Lines(string(a.body)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[at+1:], 64)
		require.NoError(r.t, err, line)
		series[line[:at]] = value
	}
	return series
}

// sum adds up the series of a name, those that bear all of the given labels.
func sum(series map[string]float64, name string, having ...string) float64 {
	total := 0.0
next:
	for key, value := range series {
		if key != name && !strings.HasPrefix(key, name+"{") {
			continue
		}
		for _, label := range having {
			if !strings.Contains(key, label) {
				continue next
			}
		}
		total += value
	}
	return total
}

// workout makes everything happen that is counted in a quick test.
func (r *rig) workout() {
	r.t.Helper()
	for _, id := range []string{"ok", "broken", "bad", "lost", "gone", "later"} {
		r.want(201, "POST", "/v1/actions", map[string]any{"action_id": id, "machine_id": "m1", "type": "job", "max_attempts": 1}, nil)
	}
	r.want(200, "POST", "/v1/actions", push("ok2", "m1"), nil, ndjson)
	r.want(409, "POST", "/v1/actions", map[string]any{"action_id": "ok", "machine_id": "m1", "type": "other"}, nil)
	r.want(200, "POST", "/v1/actions/later/cancel", none, nil)
	r.want(200, "POST", "/v1/sessions/s1/pause", none, nil)
	live := r.subscribe("m1", "")
	last := ""
	for _, ack := range []map[string]any{
		{"action_id": "ok", "status": "received"},
		{"action_id": "ok", "status": "done"},
		{"action_id": "ok", "status": "done"},
		{"action_id": "broken", "status": "failed", "error": map[string]any{"message": "no"}},
		{"action_id": "bad", "status": "failed", "error": map[string]any{"kind": "permanent"}},
	} {
		if id := ack["action_id"].(string); id != last {
			last = id
			require.Contains(r.t, live.await("action"), `"action_id":"`+id+`"`)
		}
		r.want(200, "POST", "/acks", ack, nil)
	}
	require.Contains(r.t, live.await("action"), `"action_id":"lost"`) // written: what is only in flight would be given back
	live.cancel()
	live.end()
	r.awaitState("lost", "gave_up")
	r.want(200, "POST", "/v1/actions/lost/redrive", none, nil)
}

// awaitState waits until an action is in one of some states.
func (r *rig) awaitState(id string, states ...string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		var record struct{ State string }
		a := r.call("GET", "/v1/actions/"+id, nil)
		return a.status == 200 && json.Unmarshal(a.body, &record) == nil && slices.Contains(states, record.State)
	}, patience, 5*time.Millisecond, "%s never is %v", id, states)
}

func quickRules() ackstore.Rules {
	q := rules()
	q.DisconnectGrace, q.ReconnectGrace, q.MaxDisconnectResends = 10*time.Millisecond, 10*time.Millisecond, 0
	q.MaxMachines = 20_000
	return q
}

func TestMetricsTellWhatHappened(t *testing.T) {
	t.Parallel()
	r := start(t, options{rules: quickRules})
	r.workout()
	require.Eventually(t, func() bool { return sum(r.scrape(), "pushd_streams_closed_total") == 1 }, patience, 10*time.Millisecond)
	got := r.scrape()
	for series, want := range map[string]float64{
		`pushd_actions_enqueued_total{outcome="queued",source="api"}`:      7,
		`pushd_actions_enqueued_total{outcome="conflict",source="api"}`:    1,
		`pushd_acks_total{outcome="settled",verb="done"}`:                  1,
		`pushd_acks_total{outcome="duplicate",verb="done"}`:                1,
		`pushd_acks_total{outcome="accepted",verb="received"}`:             1,
		`pushd_actions_settled_total{reason="ack",state="done"}`:           1,
		`pushd_actions_settled_total{reason="ack",state="failed"}`:         2,
		`pushd_actions_settled_total{reason="waiting",state="cancelled"}`:  1,
		`pushd_actions_settled_total{reason="disconnect",state="gave_up"}`: 1,
		`pushd_attempt_failures_total{class="permanent"}`:                  1,
		`pushd_attempt_failures_total{class="error"}`:                      1,
		`pushd_orphans_detected_total{cause="disconnect"}`:                 1,
		`pushd_orphans_giveup_total{cause="disconnect"}`:                   1,
		`pushd_orphan_age_seconds_count{cause="disconnect"}`:               1,
		`pushd_redrives_total{from="gave_up"}`:                             1,
		`pushd_sessions_paused_total{reason="operator"}`:                   1,
		`pushd_sessions{status="paused"}`:                                  1,
		`pushd_deliveries_total{reason="first"}`:                           4,
		`pushd_enqueue_to_send_seconds_count`:                              4,
		`pushd_send_to_received_seconds_count`:                             1,
		`pushd_send_to_result_seconds_count`:                               3,
		`pushd_streams_closed_total{reason="client_gone"}`:                 1,
		`pushd_machines{status="offline"}`:                                 1,
		`pushd_build_info{version="test"}`:                                 1,
		`pushd_http_requests_total{code="2xx",route="/acks"}`:              5,
	} {
		require.Equal(t, want, got[series], series)
	}
	for _, name := range []string{"go_goroutines", "process_resident_memory_bytes", "pushd_store_size_bytes", "pushd_store_commits_total"} {
		require.Positive(t, got[name], name)
	}
	// What came in and was not settled, or was queued again, is what there is.
	unsettled := sum(got, "pushd_actions", `"queued"`) + sum(got, "pushd_actions", `"scheduled"`) + sum(got, "pushd_actions", `"in_`)
	in := sum(got, "pushd_actions_enqueued_total", `"queued"`) + sum(got, "pushd_redrives_total") - sum(got, "pushd_redrives_total", `"in_doubt"`)
	require.Equal(t, unsettled, in-sum(got, "pushd_actions_settled_total"))
}

func TestSeriesDoNotGrowWithMachines(t *testing.T) {
	t.Parallel()
	r := start(t, options{rules: quickRules})
	r.workout()
	r.pushMachines(0, 100)
	_ = r.scrape() // so that its own route is counted
	before := r.scrape()
	r.pushMachines(100, 10_000)
	after := r.scrape()
	require.Equal(t, 10_001.0, sum(after, "pushd_machines"))
	require.ElementsMatch(t, slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	require.Less(t, len(after), 700)
	for series := range after {
		require.NotRegexp(t, `machine-|(action|session|replay|machine)(_id)?="`, series)
	}
}

// pushMachines makes machines from one number to another.
func (r *rig) pushMachines(from, to int) {
	r.t.Helper()
	for ; from < to; from += 100 {
		var all []map[string]any
		for i := from; i < from+100; i++ {
			id := fmt.Sprintf("machine-%05d", i)
			all = append(all, map[string]any{"action_id": "on-" + id, "machine_id": id, "type": "job", "session_id": "s-" + id, "replay_id": "r-" + id})
		}
		r.want(201, "POST", "/v1/actions", all, nil)
	}
}

var metricName = regexp.MustCompile(`\b(?:pushd|go|process)_[a-z0-9_]+`)

// What the dashboard and the alerts ask for is there, and the labels they name.
func TestDashboardAndAlertsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	r := start(t, options{rules: quickRules})
	r.workout()
	names, labels := map[string]bool{}, map[string]bool{}
	for series := range r.scrape() {
		name, rest, _ := strings.Cut(series, "{")
		names[name] = true
		for _, m := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(rest, -1) {
			labels[m[1]] = true
		}
	}
	raw, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	require.NoError(t, err)
	for _, name := range metricName.FindAllString(string(raw), -1) {
		require.True(t, names[name] || names[name+"_count"], "%s is not exported (docs/metrics.md)", name)
	}
	expressions := append(dashboardExpressions(t), alertExpressions(t)...)
	require.Greater(t, len(expressions), 20)
	used := map[string]bool{}
	for _, expr := range expressions {
		for _, name := range metricName.FindAllString(expr, -1) {
			require.True(t, names[name], "%s is not exported (%s)", name, expr)
			used[name] = true
		}
		for _, m := range regexp.MustCompile(`(?:by|sum by|without) \(([^)]*)\)|[{,]\s*(\w+)\s*(?:=|!=|=~)"`).FindAllStringSubmatch(expr, -1) {
			for label := range strings.SplitSeq(m[1]+m[2], ",") {
				label = strings.TrimSpace(label)
				require.True(t, labels[label] || label == "instance" || label == "job", "no series has the label %s (%s)", label, expr)
			}
		}
	}
	require.Greater(t, len(used), 20)
}

func dashboardExpressions(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", "metrics", "grafana.json"))
	require.NoError(t, err)
	var board struct {
		Title  string
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	require.NotEmpty(t, board.Title)
	var all []string
	seen := map[int]bool{}
	for _, p := range board.Panels {
		require.False(t, seen[p.ID], "panel %d twice", p.ID)
		seen[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

func alertExpressions(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "docs", "metrics", "alerts.yaml"))
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				For         string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	var all []string
	for _, g := range file.Groups {
		for _, rule := range g.Rules {
			require.NotEmpty(t, rule.Alert)
			require.NotEmpty(t, rule.Labels["severity"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
			require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
			all = append(all, rule.Expr)
		}
	}
	return all
}
