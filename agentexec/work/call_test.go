package work_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/task"
	"pushd/agentexec/work"
	"pushd/policy"
)

func TestACall(t *testing.T) {
	t.Parallel()
	var seen http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		_, _ = io.Copy(io.Discard, r.Body) // else nobody sees the client go
		switch r.URL.Path {
		case "/ok":
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"clicked":true}`))
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/bad":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("no such window"))
		case "/hang":
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	call := func(path string) (task.Verdict, work.Result) {
		c := &work.Call{Client: srv.Client(), URL: srv.URL + path, Runner: newRunner(t)}
		if path == "/hang" {
			c.Windows.FirstOutput = 300 * time.Millisecond // the others may take their time
		}
		return run(t, c, `{"x":1}`)
	}
	v, _ := call("/ok")
	require.Equal(t, policy.Done, v.Status)
	require.JSONEq(t, `{"clicked":true}`, string(v.Result))
	require.Equal(t, "a1", seen.Get("Idempotency-Key"))
	v, _ = call("/busy")
	require.Equal(t, policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "overloaded", RetryAfter: 7 * time.Second}, v.Outcome)
	v, _ = call("/bad")
	require.Equal(t, policy.Permanent, v.Kind)
	require.Contains(t, v.Message, "no such window")
	v, _ = call("/hang")
	require.Equal(t, "first_output", v.Code, "%+v", v)
	srv.Close()
	v, _ = call("/ok")
	require.Equal(t, policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "network"}, v.Outcome)
}
