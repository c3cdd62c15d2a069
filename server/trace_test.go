package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestATraceIsKeptWithItsActionAndHandedToItsAgent(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil, "traceparent: "+parent)
	got := lines(t, r.want(200, "POST", "/v1/actions", push("a2", "m2"), nil, ndjson, "traceparent: "+parent).body)
	require.Equal(t, "a2", got[0].ActionID)
	require.Contains(t, r.subscribe("m1", "").await("action"), `"traceparent":"`+parent+`"`)
	require.Contains(t, string(r.want(200, "POST", "/next?machine_id=m2", none, nil).body), `"traceparent":"`+parent+`"`)
	var record struct{ Traceparent string }
	r.want(200, "GET", "/v1/actions/a1", nil, &record)
	require.Equal(t, parent, record.Traceparent)
	// It is no part of the content: a repeat comes in a trace of its own.
	r.want(200, "POST", "/v1/actions", push("a1", "m1"), nil, "traceparent: 00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00")
	r.want(200, "GET", "/v1/actions/a1", nil, &record)
	require.Equal(t, parent, record.Traceparent)
}

func TestAMalformedTraceIsIgnored(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	for i, bad := range []string{
		"nonsense", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", parent + "-x",
	} {
		id := ids(10)[i]
		r.want(201, "POST", "/v1/actions", push(id, "m1"), nil, "traceparent: "+bad)
		var record map[string]any
		require.NoError(t, json.Unmarshal(r.want(200, "GET", "/v1/actions/"+id, nil, nil).body, &record))
		require.NotContains(t, record, "traceparent", bad)
	}
	require.NotContains(t, r.subscribe("m1", "").await("action"), "traceparent")
}
