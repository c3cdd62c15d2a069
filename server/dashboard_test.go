package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type statsAnswer struct {
	StepS                                     int `json:"step_s"`
	Pushed, Deliveries, Resends, Done, Failed []int
	PushToBytes                               *percentiles `json:"push_to_bytes_ms"`
	BytesToAck                                *percentiles `json:"bytes_to_ack_ms"`
}

type percentiles struct {
	P50 []*float64 `json:"p50"`
	All *float64   `json:"all_p99"`
}

func total(column []int) int {
	n := 0
	for _, v := range column {
		n += v
	}
	return n
}

func TestStatsCountTheLastHour(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	s := r.subscribe("win-1", "")
	for i := range 3 {
		id := fmt.Sprint("a", i)
		r.want(http.StatusCreated, "POST", "/v1/actions", push(id, "win-1"), nil)
		s.await("action")
		r.want(http.StatusOK, "POST", "/acks", map[string]any{"action_id": id, "status": "done"}, nil)
	}
	require.Eventually(t, func() bool { // changes are told after the answer
		var a statsAnswer
		r.want(http.StatusOK, "GET", "/v1/stats", nil, &a)
		return total(a.Done) == 3
	}, patience, 20*time.Millisecond)
	for _, step := range []int{1, 60, 3600} {
		var a statsAnswer
		r.want(http.StatusOK, "GET", fmt.Sprint("/v1/stats?step_s=", step), nil, &a)
		require.Len(t, a.Deliveries, 3600/step)
		require.Equal(t, []int{3, 3, 0, 3, 0}, []int{total(a.Pushed), total(a.Deliveries), total(a.Resends), total(a.Done), total(a.Failed)})
		require.Len(t, a.PushToBytes.P50, 3600/step)
		require.NotNil(t, a.PushToBytes.All)
		require.NotNil(t, a.BytesToAck.All)
	}
	var one statsAnswer
	r.want(http.StatusOK, "GET", "/v1/stats?machine_id=win-1", nil, &one)
	require.Equal(t, 120, one.StepS)
	require.Equal(t, 3, total(one.Deliveries))
	require.Nil(t, one.PushToBytes)
	r.want(http.StatusBadRequest, "GET", "/v1/stats?step_s=7", nil, nil)
}

type fleetAnswer struct {
	Items []struct {
		MachineID string   `json:"machine_id"`
		State     string   `json:"state"`
		Queued    int      `json:"queued"`
		Troubles  []string `json:"troubles"`
	} `json:"items"`
	Total, Machines, Troubled, Unacked int
	OldestUnacked                      *struct {
		ActionID  string `json:"action_id"`
		MachineID string `json:"machine_id"`
	} `json:"oldest_unacked"`
}

func (a fleetAnswer) ids() []string {
	var ids []string
	for _, m := range a.Items {
		ids = append(ids, m.MachineID)
	}
	return ids
}

// fleetWhen asks until an answer holds: one is as of a moment ago.
func (r *rig) fleetWhen(query string, holds func(fleetAnswer) bool) fleetAnswer {
	r.t.Helper()
	var a fleetAnswer
	require.Eventually(r.t, func() bool {
		a = fleetAnswer{}
		r.want(http.StatusOK, "GET", "/v1/fleet"+query, nil, &a)
		return holds(a)
	}, patience, 50*time.Millisecond)
	return a
}

func TestTheFleetIsSortedByTroubleSearchedAndWindowed(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	for _, id := range []string{"a-1", "b-2", "c-3"} {
		r.subscribe(id, "")
	}
	r.want(http.StatusCreated, "POST", "/v1/actions", push("x", "z-9"), nil) // offline, with work
	a := r.fleetWhen("", func(a fleetAnswer) bool { return a.Machines == 4 && a.Items[0].Queued == 1 })
	require.Equal(t, []string{"z-9", "a-1", "b-2", "c-3"}, a.ids())
	require.Equal(t, []string{"gone_with_work"}, a.Items[0].Troubles)
	require.Equal(t, 1, a.Troubled)
	all := func(fleetAnswer) bool { return true }
	require.Equal(t, []string{"b-2"}, r.fleetWhen("?q=B-", all).ids())
	require.Equal(t, []string{"z-9"}, r.fleetWhen("?has=queued", all).ids())
	require.Equal(t, []string{"z-9"}, r.fleetWhen("?state=offline", all).ids())
	window := r.fleetWhen("?sort=id&offset=1&limit=2", all)
	require.Equal(t, []string{"b-2", "c-3"}, window.ids())
	require.Equal(t, 4, window.Total)
	require.Empty(t, r.fleetWhen("?offset=100", all).ids())
	r.want(http.StatusBadRequest, "GET", "/v1/fleet?sort=colour", nil, nil)
	r.want(http.StatusBadRequest, "GET", "/v1/fleet?has=luck", nil, nil)
}

type deadGroup struct {
	State, Reason string
	Count         int
	ActionIDs     []string `json:"action_ids"`
	Machines      []struct {
		MachineID string `json:"machine_id"`
	}
}

func TestDeadLettersAreGroupedByReason(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	s := r.subscribe("win-1", "")
	for i, kind := range []string{"permanent", "permanent", "error"} {
		a := push(fmt.Sprint("a", i), "win-1")
		a["max_attempts"], a["on_dead"] = 1, "skip"
		r.want(http.StatusCreated, "POST", "/v1/actions", a, nil)
		s.await("action")
		r.want(http.StatusOK, "POST", "/acks", map[string]any{
			"action_id": a["action_id"], "status": "failed", "error": map[string]any{"kind": kind, "message": "no paper"},
		}, nil)
	}
	var a struct {
		Groups []deadGroup
		Counts map[string]int
	}
	r.want(http.StatusOK, "GET", "/v1/dead", nil, &a)
	require.Equal(t, 3, a.Counts["failed"])
	require.Len(t, a.Groups, 2)
	slices.SortFunc(a.Groups, func(x, y deadGroup) int { return y.Count - x.Count })
	require.Equal(t, "permanent", a.Groups[0].Reason)
	require.Equal(t, []string{"a1", "a0"}, a.Groups[0].ActionIDs)
	require.Equal(t, "win-1", a.Groups[0].Machines[0].MachineID)
}

func TestTheOldestDeliveryWithoutAnAckIsKnown(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: map[string][]string{"root": {"admin"}, "some": {"read:win-*"}}})
	for _, sent := range [][2]string{{"first", "mac-1"}, {"second", "win-1"}, {"third", "win-2"}} {
		r.want(http.StatusCreated, "POST", "/v1/actions", push(sent[0], sent[1]), nil, r.as("root"))
		r.subscribe(sent[1], "root").await("action")
	}
	oldest := func(who, id string, n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			var a fleetAnswer
			r.want(http.StatusOK, "GET", "/v1/fleet", nil, &a, r.as(who))
			if id == "" {
				return a.OldestUnacked == nil && a.Unacked == 0
			}
			return a.Unacked == n && a.OldestUnacked != nil && a.OldestUnacked.ActionID == id
		}, patience, 20*time.Millisecond, id)
	}
	oldest("root", "first", 3)
	oldest("some", "second", 2)
	ack := func(id, status string) {
		r.want(http.StatusOK, "POST", "/acks", map[string]any{"action_id": id, "status": status}, nil, r.as("root"))
	}
	r.want(http.StatusOK, "POST", "/v1/actions/second/cancel", nil, nil, r.as("root")) // asked: it is out as it was
	oldest("some", "second", 2)
	ack("second", "received")
	oldest("some", "third", 1)
	ack("third", "done")
	oldest("some", "", 0)
	oldest("root", "first", 1)
}

func TestADashboardSeesWhatItsTokenCovers(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: map[string][]string{"root": {"admin"}, "some": {"read:win-*"}, "push": {"push"}}})
	for _, machine := range []string{"win-1", "mac-1"} {
		r.want(http.StatusCreated, "POST", "/v1/actions", push("for-"+machine, machine), nil, r.as("root"))
		r.subscribe(machine, "root").await("action")
	}
	var fleet fleetAnswer
	r.want(http.StatusOK, "GET", "/v1/fleet", nil, &fleet, r.as("some"))
	require.Equal(t, []string{"win-1"}, fleet.ids())
	require.Equal(t, 1, fleet.Machines)
	var stats statsAnswer
	require.Eventually(t, func() bool {
		stats = statsAnswer{}
		r.want(http.StatusOK, "GET", "/v1/stats", nil, &stats, r.as("some"))
		return total(stats.Deliveries) == 1
	}, patience, 20*time.Millisecond)
	require.Nil(t, stats.PushToBytes)
	r.want(http.StatusOK, "GET", "/v1/stats?machine_id=win-1", nil, nil, r.as("some"))
	r.want(http.StatusForbidden, "GET", "/v1/stats?machine_id=mac-1", nil, nil, r.as("some"))
	r.want(http.StatusForbidden, "GET", "/v1/fleet", nil, nil, r.as("push"))
	who := struct {
		SignedIn bool `json:"signed_in"`
		Open     bool
		Can      []string
		Partly   bool
		Name     string
	}{}
	r.want(http.StatusOK, "GET", "/v1/session", nil, &who, r.as("some"))
	require.True(t, who.SignedIn && who.Partly && !who.Open)
	require.Equal(t, []string{"read"}, who.Can)
	who.SignedIn = true
	r.want(http.StatusOK, "GET", "/v1/session", nil, &who)
	require.False(t, who.SignedIn)
}

func TestThePageNeedsNoTokenAndHoldsNoData(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: map[string][]string{"root": {"admin"}}})
	for _, path := range []string{"/", "/ui/fleet", "/ui/action/a1"} {
		a := r.want(http.StatusOK, "GET", path, nil, nil)
		require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
		require.Contains(t, a.header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
	}
	r.want(http.StatusNotFound, "GET", "/v1/nothing", nil, nil)
	r.want(http.StatusForbidden, "GET", "/", nil, nil, "Sec-Fetch-Site: cross-site")
}
