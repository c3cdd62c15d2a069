package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

var refusals = []struct {
	status                     int
	method, path, body, header string
}{
	{404, "GET", "/nothing", "", ""},
	{404, "GET", "/v1/actions/none", "", ""},
	{404, "GET", "/v1/actions/a%20b", "", ""},
	{404, "GET", "/v1/machines/none", "", ""},
	{404, "GET", "/v1/sessions/none", "", ""},
	{404, "POST", "/v1/actions/none/cancel", "{}", ""},
	{404, "DELETE", "/v1/tokens/none", "", ""},
	{404, "POST", "/webhooks/none", "{}", ""},
	{405, "PUT", "/v1/actions", "{}", ""},
	{405, "GET", "/acks", "", ""},
	{406, "GET", "/events?machine_id=m1", "", "Accept: application/json"},
	{406, "GET", "/events?machine_id=m1", "", "Accept: text/event-stream;q=0, text/html"},
	{406, "GET", "/v1/feed", "", "Accept: text/html"},
	{409, "POST", "/v1/actions/a1/redrive", "{}", ""},
	{409, "DELETE", "/v1/machines/m1", "", ""},
	{415, "POST", "/v1/actions", "{}", "Content-Type: text/plain"},
	{415, "POST", "/acks", "{}", "Content-Type: "},
	{415, "POST", "/acks", "{}", "Content-Type: application/json; charset=latin1"},
	{400, "GET", "/v1/actions?limit=0", "", ""},
	{400, "GET", "/v1/actions?limit=1&limit=2", "", ""},
	{400, "GET", "/v1/actions?label=team", "", ""},
	{400, "GET", "/v1/actions?cursor=!!", "", ""},
	{400, "GET", "/v1/machines?cursor=!!", "", ""},
	{400, "GET", "/v1/actions?%zz=1", "", ""},
	{400, "GET", "/events", "", ""},
	{400, "GET", "/events?machine_id=pool:a", "", ""},
	{400, "GET", "/events?machine_id=m1&orphan_timeout_s=0", "", ""},
	{400, "GET", "/next?machine_id=m1&wait_s=0x1", "", ""},
	{400, "POST", "/next?machine_id=m1", `{"x":1}`, ""},
	{400, "PATCH", "/v1/machines/m1", `{}`, ""},
	{400, "PATCH", "/v1/machines/pool:a", `{"max_in_flight":1}`, ""},
	{400, "POST", "/v1/cancel", `{"dry_run":true}`, ""},
	{400, "POST", "/v1/cancel", `{"state":"lost"}`, ""},
	{400, "POST", "/v1/breakers/close", `{"target":"claude"}`, ""},
	{400, "POST", "/v1/machines/m1/pause", `{"until":"2020-01-01T00:00:00Z"}`, ""},
	{400, "POST", "/v1/machines/m1/pause", `{"machine_id":"m2"}`, ""},
	{400, "POST", "/v1/tokens", `{"name":"x","scopes":["agent"]}`, ""},
	{400, "POST", "/v1/tokens", `{"name":"x","scopes":["push:["]}`, ""},
	{400, "POST", "/v1/tokens", `{"name":"x","scopes":["read"],"expires_at":"2020-01-01T00:00:00Z"}`, ""},
	{400, "POST", "/v1/actions/a1/resolve", `{"as":"lost"}`, ""},
	{400, "POST", "/v1/actions/a1/cancel", `{"note":"x"}`, ""},
}

func TestEveryRefusalIsAWholeProblem(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil)
	for _, c := range refusals {
		var body any
		if c.body != "" {
			body = c.body
		}
		headers := []string{}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		r.want(c.status, c.method, c.path, body, nil, headers...)
	}
}

func TestHEADAndOPTIONSOpenNothing(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	live := r.subscribe("m1", "")
	live.await("hello")
	for _, path := range []string{"/events?machine_id=m1", "/next?machine_id=m1", "/v1/actions", "/v1/feed"} {
		a := r.call("HEAD", path, nil)
		require.Equal(t, 405, a.status)
		require.Empty(t, a.body)
		a = r.call("OPTIONS", path, nil)
		require.Less(t, a.status, 500)
		require.NotEmpty(t, a.header.Get("Allow"))
		for name := range a.header {
			require.False(t, strings.HasPrefix(name, "Access-Control-"))
		}
	}
	require.Equal(t, 200, r.call("HEAD", "/readyz", nil).status)
	r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil)
	live.await("action")
}

func TestTheClientSpeaksEachCall(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	c, ctx := r.client(""), t.Context()
	pushed, err := c.Push(ctx, api.Push{
		ActionID: "a1", MachineID: "m1", Type: "job", SessionID: "s1", ReplayID: "r1", Payload: []byte(`{"x":"<b>"}`),
		DelayS: api.S(90 * time.Millisecond), MaxAttempts: new(1), Labels: map[string]string{"k": "v"}, Target: "claude/team-a",
	})
	require.NoError(t, err)
	require.Equal(t, api.Pushed{ActionID: "a1", State: "scheduled", Seq: pushed.Seq, Machine: "unknown"}, pushed)
	all, err := c.PushAll(ctx, []api.Push{{MachineID: "m1", Type: "job"}, {MachineID: "m2", Type: "job", AvailableAt: api.At(time.Now().Add(time.Hour))}})
	require.NoError(t, err)
	require.Len(t, all, 2)

	list, err := c.Actions(ctx, api.ActionFilter{States: []string{"scheduled", "queued"}, Labels: map[string]string{"k": "v"}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "a1", list.Items[0].ActionID)
	require.Nil(t, list.Items[0].Payload)
	page, err := c.Machines(ctx, 1, "")
	require.NoError(t, err)
	require.Equal(t, "m1", page.Items[0].MachineID)
	page, err = c.Machines(ctx, 1, page.NextCursor)
	require.NoError(t, err)
	require.Equal(t, "m2", page.Items[0].MachineID)
	require.Empty(t, page.NextCursor)

	require.NoError(t, c.Pause(ctx, api.Sessions, "s1", api.PauseRequest{Note: "why", MachineID: "m1"}))
	label, err := c.Label(ctx, api.Sessions, "s1")
	require.NoError(t, err)
	require.Equal(t, "why", label.Paused[0].Note)
	require.NoError(t, c.Resume(ctx, api.Sessions, "s1"))
	labels, err := c.Labels(ctx, api.Replays, 0, "")
	require.NoError(t, err)
	require.Equal(t, "r1", labels.Items[0].ReplayID)
}

func TestTheClientOperates(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	c, ctx := r.client(""), t.Context()
	_, err := c.PushAll(ctx, []api.Push{
		{ActionID: "a1", MachineID: "m1", Type: "job", ReplayID: "r1", Payload: []byte(`{"x":"<b>"}`)}, {MachineID: "m2", Type: "job"},
	})
	require.NoError(t, err)
	machine, err := c.SetCredit(ctx, "m1", new(5), "test")
	require.NoError(t, err)
	require.Equal(t, "m1", machine.MachineID)
	_, err = c.SetCredit(ctx, "m1", nil, "")
	require.NoError(t, err)
	require.NoError(t, c.CloseBreaker(ctx, "m1", "claude/team-a"))
	require.NoError(t, c.CloseBreaker(ctx, "", "shared/claude"))

	count, err := c.CancelAll(ctx, api.Selection{MachineID: "m2", OlderThanS: api.S(0), DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 1, count)
	record, err := c.Cancel(ctx, "a1")
	require.NoError(t, err)
	require.Equal(t, "cancelled", record.State)
	require.JSONEq(t, `{"x":"<b>"}`, string(record.Payload))
	record, err = c.Redrive(ctx, "a1")
	require.NoError(t, err)
	require.False(t, record.State == "cancelled" || record.WaitingFor == nil)
	_, err = c.Resolve(ctx, "a1", api.Resolution{As: "done"})
	require.True(t, api.IsStatus(err, http.StatusConflict))
	_, err = c.CancelLabel(ctx, api.Replays, "r1")
	require.NoError(t, err)
	_, err = c.Push(ctx, api.Push{MachineID: "m1", Type: "job", ReplayID: "r1"})
	require.True(t, api.IsStatus(err, http.StatusConflict))
	q, err := c.Queue(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, q.Counts["cancelled"])
	_, err = c.Watchdog(ctx)
	require.NoError(t, err)
	require.NoError(t, c.Ready(ctx))
	err = c.Beat(ctx, "m1", "nobody")
	var refused *api.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "gone", refused.Reason)
	resp, err := c.Next(ctx, api.Subscription{MachineID: "m3", InstanceID: "i"}, 0)
	require.NoError(t, err)
	require.Equal(t, 204, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

func TestAReadThatWaitsEndsWithItsAction(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	r.inFlight("a1", "m1")
	got := make(chan api.Record, 1)
	go func() {
		record, err := r.client("").Action(t.Context(), "a1", 20*time.Second)
		if err == nil {
			got <- record
		}
	}()
	// Whether the reader waits already or not, the end must reach it.
	_, err := r.client("").Ack(t.Context(), api.Ack{ActionID: "a1", Status: "received"})
	require.NoError(t, err)
	began := time.Now()
	_, err = r.client("").Ack(t.Context(), api.Ack{ActionID: "a1", Status: "done", Result: []byte(`{"n":1e2}`)})
	require.NoError(t, err)
	record := <-got
	require.Less(t, time.Since(began), 10*time.Second)
	require.Equal(t, "done", record.State)
	require.Equal(t, `{"n":1e2}`, string(record.Result))
}
