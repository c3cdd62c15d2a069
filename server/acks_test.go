package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// inFlight pushes an action and takes it.
func (r *rig) inFlight(id, machine string) {
	r.t.Helper()
	r.want(201, "POST", "/v1/actions", push(id, machine), nil)
	r.subscribe(machine, "").await("action")
}

func TestAnOptionThatDoesNotGoWithItsStatusIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	r.inFlight("a1", "m1")
	for field, body := range map[string]string{
		"result":         `{"action_id":"a1","status":"received","result":1}`,
		"progress":       `{"action_id":"a1","status":"done","progress":{}}`,
		"error":          `{"action_id":"a1","status":"done","error":{}}`,
		"delay_s":        `{"action_id":"a1","status":"failed","delay_s":1}`,
		"retry_at":       `{"action_id":"a1","status":"failed","retry_at":"2031-01-01T00:00:00Z","retry_after_s":1}`,
		"retry_after_s":  `{"action_id":"a1","status":"failed","retry_after_s":"1"}`,
		"error.kind":     `{"action_id":"a1","status":"failed","error":{"kind":"stalled"}}`,
		"error.why":      `{"action_id":"a1","status":"failed","error":{"why":1}}`,
		"progress.note":  `{"action_id":"a1","status":"working","progress":{"note":"` + strings.Repeat("x", 1025) + `"}}`,
		"delivery":       `{"action_id":"a1","status":"done","delivery":0}`,
		"activity_token": `{"action_id":"a1","status":"working","activity_token":18446744073709551616}`,
		"[1].status":     `[{"action_id":"a1","status":"done"},{"action_id":"a1","status":"finished"}]`,
		"status":         `{"action_id":"a1","status":"done","status":"failed"}`,
	} {
		p := r.problem(r.want(400, "POST", "/acks", body, nil))
		var fields []string
		for _, e := range p.Errors {
			fields = append(fields, e.Field)
		}
		require.Contains(t, fields, field, "%+v", p)
	}
	record, err := r.client("").Action(t.Context(), "a1", 0)
	require.NoError(t, err)
	require.Equal(t, "in_flight", record.State)
}

func TestALongMessageIsCutBetweenRunes(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	r.inFlight("a1", "m1")
	_, err := r.client("").Ack(t.Context(), api.Ack{ActionID: "a1", Status: "failed", Error: &api.Failure{Kind: "permanent", Message: strings.Repeat("é", 8000), Code: "E1"}})
	require.NoError(t, err)
	record, err := r.client("").Action(t.Context(), "a1", 0)
	require.NoError(t, err)
	require.LessOrEqual(t, len(record.Error.Message), 8<<10)
	require.Equal(t, strings.Repeat("é", strings.Count(record.Error.Message, "é"))+"…", record.Error.Message)
}

func TestASingleAckTellsWhyItWasNotTaken(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	r.want(201, "POST", "/v1/actions", push("l1", "lin-1"), nil, r.as("admin"))
	for outcome, body := range map[string]string{
		"unknown":   `{"action_id":"never","status":"done"}`,
		"forbidden": `{"action_id":"l1","status":"done"}`,
	} {
		status := map[string]int{"unknown": 404, "forbidden": 403}[outcome]
		p := r.problem(r.want(status, "POST", "/acks", body, nil, r.as("agent")))
		require.Equal(t, outcome, p.Outcome)
	}
	p := r.problem(r.want(409, "POST", "/acks", `{"action_id":"l1","status":"done"}`, nil, r.as("admin")))
	require.Equal(t, "conflict", p.Outcome)
	var got []api.Acked
	r.want(200, "POST", "/acks", `[{"action_id":"l1","status":"done"},{"action_id":"never","status":"done"}]`, &got, r.as("agent"))
	require.Equal(t, []string{"forbidden", "unknown"}, []string{got[0].Outcome, got[1].Outcome})
}
