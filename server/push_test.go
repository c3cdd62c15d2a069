package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/server"
	"pushd/server/api"
)

func TestARepeatIsAnsweredThoughItsInstantsHavePassed(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	r := start(t, options{now: clock.now})
	a := push("a1", "m1")
	a["expires_at"] = time.Now().Add(time.Hour).UTC().Format(api.TimeLayout)
	r.want(201, "POST", "/v1/actions", a, nil)
	clock.set(2 * time.Hour)
	var record api.Record
	r.want(200, "GET", "/v1/actions/a1?wait_s=20", nil, &record)
	require.Equal(t, "expired", record.State)
	var again api.Pushed
	r.want(200, "POST", "/v1/actions", a, &again)
	require.True(t, again.Deduplicated)
	// What is new is refused, alone and in an array with a repeat.
	fresh := push("a2", "m1")
	fresh["expires_at"] = a["expires_at"]
	r.want(400, "POST", "/v1/actions", fresh, nil)
	r.want(400, "POST", "/v1/actions", []any{a, fresh}, nil)
	delete(fresh, "action_id")
	r.want(400, "POST", "/v1/actions", fresh, nil)
	r.want(200, "POST", "/v1/actions", []any{a, a}, nil)
}

func TestAPayloadIsHandedOnAsItCame(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	for i, payload := range []string{
		`12345678901234567890`, `{"b":1,"a":2,"b":3}`, `"\ud800 lone"`, `"<&>` + "\u2028" + `"`, `{"n":-0,"m":1.0,"k":1E+2,"j":1e400}`, `"\u0000"`,
	} {
		id := fmt.Sprintf("p%d", i)
		r.want(201, "POST", "/v1/actions", fmt.Sprintf(`{"action_id":%q,"machine_id":"m1","type":"job","payload":%s}`, id, payload), nil)
		var record struct{ Payload json.RawMessage }
		r.want(200, "GET", "/v1/actions/"+id, nil, &record)
		require.Equal(t, payload, string(record.Payload))
	}
	// Ill-formed UTF-8 would come back as something else.
	for _, path := range []string{"/v1/actions", "/acks"} {
		r.want(400, "POST", path, "{\"action_id\":\"x\",\"machine_id\":\"m1\",\"type\":\"job\",\"status\":\"done\",\"payload\":\"\xef\xf0\xe8\"}", nil)
	}
}

func TestSkipTypesAreAtMostOnce(t *testing.T) {
	t.Parallel()
	r := start(t, options{config: func(c *server.Config) { c.Defaults.SkipTypes = []string{"job"} }})
	r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil)
	record, err := r.client("").Action(t.Context(), "a1", 0)
	require.NoError(t, err)
	require.Equal(t, "at_most_once", record.Guarantee)
}

func TestAPushOverALimitSaysWhichItem(t *testing.T) {
	t.Parallel()
	narrow := func() ackstore.Rules { r := rules(); r.MaxQueued, r.MaxMachines = 2, 2; return r }
	r := start(t, options{rules: narrow, config: func(c *server.Config) { c.Limits.MaxPayloadBytes, c.Limits.MaxBodyBytes = 100, 2000 }})
	big := push("big", "m1")
	big["payload"] = strings.Repeat("x", 99)
	for _, c := range []struct {
		status int
		body   any
		field  string
	}{
		{429, []any{push("a1", "m1"), push("a2", "m1"), push("a3", "m1")}, "[2].machine_id"},
		{429, []any{push("a1", "m1"), push("a2", "m2"), push("a3", "m3")}, "[2].machine_id"},
		{413, []any{push("a1", "m1"), big}, "[1].payload"},
		{413, big, "payload"},
		{409, []any{push("a1", "m1"), push("a1", "m2")}, "[1].action_id"},
		{400, []any{push("a1", "m1"), 7}, "[1]"},
		{400, map[string]any{"machine_id": "m1", "type": "job", "prioritty": 1}, "prioritty"},
	} {
		p := r.problem(r.want(c.status, "POST", "/v1/actions", c.body, nil))
		require.Equal(t, c.field, p.Errors[0].Field, "%+v", p)
		require.NotEmpty(t, p.Errors[0].Message)
	}
	p := r.problem(r.want(413, "POST", "/v1/actions", strings.Repeat(" ", 2001), nil))
	require.Contains(t, p.Detail, "2000")
	r.want(404, "GET", "/v1/actions/a1", nil, nil)
}

func TestTheStoresTroubleIsA503(t *testing.T) {
	t.Parallel()
	r := start(t, options{store: func(s server.Store) server.Store { return failing{s} }})
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/actions", `{"machine_id":"m1","type":"job"}`}, {"POST", "/acks", `{"action_id":"a1","status":"done"}`}, {"GET", "/healthz", ""},
	} {
		p := r.problem(r.want(503, c.method, c.path, c.body, nil))
		require.NotContains(t, p.Detail, "no space left")
	}
	a := r.want(200, "POST", "/v1/actions", `{"machine_id":"m1","type":"job"}`+"\n", nil, "Content-Type: application/x-ndjson")
	require.Contains(t, string(a.body), `"status":503`)
	require.Contains(t, r.log.String(), "no space left")
	// A mistake of ours is a 500, and the server lives on.
	r.problem(r.want(500, "GET", "/v1/actions/boom", nil, nil))
	require.Contains(t, r.log.String(), "a handler panicked")
	r.want(200, "GET", "/readyz", nil, nil)
}

// failing is a store on a full disk, with a mistake in it.
type failing struct{ server.Store }

var errFull = fmt.Errorf("no space left: %w", ackstore.ErrUnavailable)

func (failing) Push(context.Context, ackstore.Rules, [][]ackstore.NewAction) ([]ackstore.Pushed, error) {
	return nil, errFull
}

func (failing) Settle(context.Context, ackstore.Rules, []ackstore.Ack) ([]ackstore.AckResult, error) {
	return nil, errFull
}

func (failing) Writable(context.Context) error { return errFull }

func (failing) Get(context.Context, ackstore.Rules, string) (ackstore.Record, error) { panic("boom") }

// A sender whose first answer was lost may come again when the expiry it sent is
// past, and even the record.
func TestARepeatIsAnsweredAfterItsExpiryAndItsRecord(t *testing.T) {
	t.Parallel()
	short := rules()
	short.KeepSettled = time.Millisecond
	clock := &clock{}
	r := start(t, options{rules: func() ackstore.Rules { return short }, now: clock.now})
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)
	late := map[string]any{"action_id": "a1", "machine_id": "m1", "type": "job", "expires_at": soon}
	r.want(201, "POST", "/v1/actions", late, nil)
	r.want(200, "POST", "/v1/actions/a1/cancel", none, nil)
	require.Eventually(t, func() bool { return r.call("GET", "/v1/actions/a1", nil).status == 404 }, patience, 20*time.Millisecond)
	clock.set(2 * time.Hour)
	r.want(400, "POST", "/v1/actions", map[string]any{"machine_id": "m1", "type": "job", "expires_at": soon}, nil)
	var pushed api.Pushed
	r.want(200, "POST", "/v1/actions", late, &pushed)
	require.Equal(t, "cancelled", pushed.State)
	require.True(t, pushed.Deduplicated)
	late["action_id"] = "a2"
	a := r.want(400, "POST", "/v1/actions", late, nil)
	require.Equal(t, "expires_at", r.problem(a).Errors[0].Field)
	a = r.want(400, "POST", "/v1/actions", []any{push("a3", "m1"), late}, nil)
	require.Equal(t, "[1].expires_at", r.problem(a).Errors[0].Field)
	late["action_id"] = "a1"
	got := lines(t, r.want(200, "POST", "/v1/actions", late, nil, ndjson).body)
	require.True(t, got[0].Deduplicated)
}
