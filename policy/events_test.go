package policy_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"pushd/policy"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	fail := func(kind policy.Kind, code string, wait time.Duration) policy.Outcome {
		return policy.Outcome{Status: policy.Failed, Kind: kind, Code: code, RetryAfter: wait}
	}
	done := policy.Outcome{Status: policy.Done}
	const (
		retried  = `{"type":"system","subtype":"api_retry","retry_delay_ms":4000,"error_status":529,"error":"overloaded"}`
		unknown  = `{"type":"result","subtype":"success","is_error":true,"result":"Something went wrong"}`
		progress = `{"type":"assistant","message":{}}`
		rejected = `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1776261600}}` // ended and 2 h
	)
	for _, tc := range []struct {
		name   string
		format policy.Format
		events []string
		want   policy.Outcome
	}{
		{"a failure of unknown reason is judged by the request that was tried again", policy.Claude, []string{retried, unknown}, fail(policy.Transient, "overloaded", 4*time.Second)},
		{"but not where the program got on after it", policy.Claude, []string{retried, progress, unknown}, fail(policy.Error, "failed", 0)},
		{"a usage limit ends when it says", policy.Claude, []string{rejected, unknown}, fail(policy.Quota, "usage_limit", 2*time.Hour)},
		{"a usage limit that let the program go on is none", policy.Claude, []string{rejected, progress, unknown}, fail(policy.Error, "failed", 0)},
		{"a usage limit that was lifted is none", policy.Claude, []string{rejected, `{"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}`, unknown}, fail(policy.Error, "failed", 0)},
		{"the last result counts", policy.Claude, []string{unknown, `{"type":"result","subtype":"success","is_error":false}`}, done},
		{"a result of a subtype nobody knows is an error by its name", policy.Claude, []string{`{"type":"result","subtype":"error_during_execution"}`}, fail(policy.Error, "during_execution", 0)},
		{"a result that says little is a success", policy.Claude, []string{`{"type":"result","ok":true}`}, done},
		{"fields of another type are left out", policy.Claude, []string{`{"type":"result","subtype":"success","is_error":true,"api_error_status":"429","result":{"a":[1]},"terminal_reason":7}`}, fail(policy.Transient, "rate_limit", 0)},
		{"an API limit with its date is a quota", policy.Claude, []string{`{"type":"result","subtype":"success","is_error":true,"api_error_status":400,"result":"API Error: 400 You have reached your specified API usage limits. You will regain access on 2026-04-16 at 00:00 UTC."}`}, fail(policy.Quota, "usage_limit", 12*time.Hour)},
		{"a turn that began and did not end has no verdict", policy.Codex, []string{`{"type":"turn.completed"}`, `{"type":"turn.started"}`}, fail(policy.Transient, "protocol", 0)},
		{"errors on the way are no verdict", policy.Codex, []string{`{"type":"error","message":"last status: 429 Too Many Requests"}`}, fail(policy.Transient, "protocol", 0)},
		{"a usage limit by its code", policy.Codex, []string{`{"type":"turn.failed","error":{"message":"{\"error\":{\"type\":\"usage_limit_reached\",\"message\":\"No more\",\"resets_at\":1776261600}}"}}`}, fail(policy.Quota, "usage_limit", 2*time.Hour)},
		{"lines of another shape are nothing", policy.Codex, []string{`{"type":5}`, `{"type":"turn.failed"`}, fail(policy.Transient, "protocol", 0)},
		{"an error is the last word", policy.Opencode, []string{
			`{"type":"error","error":{"name":"APIError","data":{"statusCode":503,"responseHeaders":{"retry-after":"9"}}}}`,
			`{"type":"step_finish","part":{"reason":"stop"}}`,
		}, fail(policy.Transient, "overloaded", 9*time.Second)},
		{"a step that goes on is no verdict", policy.Opencode, []string{`{"type":"step_finish","part":{"reason":"tool-calls"}}`}, fail(policy.Transient, "protocol", 0)},
		{"what the program would try again is transient", policy.Opencode, []string{`{"type":"error","error":{"name":"APIError","data":{"message":"odd","isRetryable":true}}}`}, fail(policy.Transient, "retryable", 0)},
		{"what it would not is an error by its name", policy.Opencode, []string{`{"type":"error","error":{"name":"UnknownError","data":{"message":"odd"}}}`}, fail(policy.Error, "UnknownError", 0)},
		{"the service's own body says more than its status", policy.Opencode, []string{
			`{"type":"error","error":{"name":"APIError","data":{"statusCode":429,"responseBody":"{\"error\":{\"code\":\"insufficient_quota\"}}"}}}`,
		}, fail(policy.Config, "billing", 0)},
		{"an error frame after [DONE] counts", policy.HTTP, []string{`data: [DONE]`, `data:{"error":{"type":"server_error"}}`}, fail(policy.Transient, "server", 0)},
		{"[DONE] after an error frame does not", policy.HTTP, []string{`data:{"error":{"type":"server_error"}}`, `data: [DONE]`}, fail(policy.Transient, "server", 0)},
		{"lines that are no events are nothing", policy.Claude, []string{"", "[]", `"x"`, "{", `{"type":`, "null", `{"type":"result"`}, fail(policy.Transient, "protocol", 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := policy.Run{Ended: ended, Terminal: policy.Terminal{Format: tc.format}}
			for _, event := range tc.events {
				r.Terminal.Line([]byte(event))
			}
			require.Equal(t, tc.want, policy.Classify(r))
		})
	}
}

func TestTerminalAnswer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		status  int
		headers map[string]string
		body    string
		want    policy.Outcome
	}{
		{"a whole answer", 200, nil, `{"choices":[{"finish_reason":"stop"}]}`, policy.Outcome{Status: policy.Done}},
		{"an answer that breaks off", 200, nil, `{"choices":[{"fini`, policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "network"}},
		{"an answer that says it failed", 200, nil, `{"error":{"code":"context_length_exceeded"}}`, policy.Outcome{Status: policy.Failed, Kind: policy.Permanent, Code: "context"}},
		{"a gateway's page", 502, map[string]string{"Retry-After": "3"}, "<html>Bad Gateway</html>", policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "server", RetryAfter: 3 * time.Second}},
		{"an answer whose body says when", 429, nil, `{"error":{"message":"slow down","details":[{"retryDelay":"34s"}]}}`, policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "rate_limit", RetryAfter: 34 * time.Second}},
		{"a timeout of the service", 408, nil, "", policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "network"}},
		{"a request for money", 402, nil, "", policy.Outcome{Status: policy.Failed, Kind: policy.Config, Code: "billing"}},
		{"a request it does not take", 422, map[string]string{"Retry-After": "3"}, "{}", policy.Outcome{Status: policy.Failed, Kind: policy.Permanent, Code: "bad_request"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := policy.Run{Ended: ended, Terminal: policy.Terminal{Format: policy.HTTP}}
			r.Terminal.Answer(tc.status, tc.headers, []byte(tc.body))
			require.Equal(t, tc.want, policy.Classify(r))
		})
	}
}

func TestTerminalKeepsAMessageWithinItsBound(t *testing.T) {
	t.Parallel()
	terminal := policy.Terminal{Format: policy.Claude}
	terminal.Line([]byte(`{"type":"result","is_error":true,"result":"` + strings.Repeat("€", 1<<20) + `"}`))
	require.Len(t, terminal.Message, 8<<10-2)
	require.True(t, utf8.ValidString(terminal.Message))
}

func FuzzClassify(f *testing.F) {
	for _, run := range agentRuns(f) {
		lines, _ := run.output(f)
		if len(run.Stdout) > 0 && len(strings.Join(lines, "")) < 1<<16 {
			f.Add(uint8(formatOf(run.Adapter)), 1, strings.Join(lines, "\n"), run.Stderr, uint8(0), 0)
		}
		if run.HTTP != nil {
			f.Add(uint8(policy.HTTP), 0, string(run.HTTP.Body), "", uint8(0), run.HTTP.Status)
		}
	}
	for _, tc := range serviceFailures {
		f.Add(uint8(policy.Plain), 1, tc.line, "", uint8(0), 0)
	}
	f.Add(uint8(policy.Plain), 75, strings.Join(benign, "\n"), "", uint8(policy.StopAsked), 0)
	f.Fuzz(func(t *testing.T, format uint8, exit int, stdout, stderr string, stopped uint8, status int) {
		r := policy.Run{
			Terminal: policy.Terminal{Format: policy.Format(format % 5)},
			Exit:     exit, Stdout: stdout, Stderr: stderr, Stopped: policy.Stop(stopped % 6), Ended: ended,
		}
		for line := range strings.SplitSeq(stdout, "\n") {
			r.Terminal.Line([]byte(line))
		}
		if r.Terminal.Format == policy.HTTP && status != 0 {
			r.Terminal.Answer(status, map[string]string{"Retry-After": stderr}, []byte(stdout))
		}
		holds(t, r, policy.Classify(r))
	})
}

// holds is what is true of every outcome.
func holds(t *testing.T, r policy.Run, out policy.Outcome) {
	require.Equal(t, out, policy.Classify(r))
	if out.Status == policy.Failed {
		require.Contains(t, []policy.Kind{policy.Error, policy.Permanent, policy.Transient, policy.Quota, policy.Config}, out.Kind, "an agent may say it")
	} else {
		require.Empty(t, out.Kind)
		require.Zero(t, out.RetryAfter)
	}
	if out.RetryAfter != 0 {
		require.GreaterOrEqual(t, out.RetryAfter, policy.MinRetryAfter)
		require.LessOrEqual(t, out.RetryAfter, policy.MaxQuotaRetryAfter)
	}
	if r.Terminal.Format == policy.Plain && r.Exit == 0 && r.Stopped == policy.NotStopped {
		require.Equal(t, policy.Done, out.Status, "no text makes a failure of exit 0")
	}
	if out.Status == policy.Cancelled {
		require.Equal(t, policy.StopAsked, r.Stopped)
	}
}
