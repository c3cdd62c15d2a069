package policy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/policy"
)

// benign are lines of programs that failed for a reason of their own.
var benign = []string{
	"processed 429 tokens",
	"All 1429 files checked; see handler.go line 429: it returns HTTP 429 Too Many Requests when the rate limit is hit.",
	"    at handler (/srv/app/server.mjs:429:15)",
	"a.go:429:17: undefined: rateLimit",
	"    client_test.go:57: got status 429 Too Many Requests, want 200",
	"    client.spec.ts:57 status: 429",
	"--- FAIL: TestRetry/status_429 (0.00s)",
	"    --- FAIL: TestRetry/rate_limit_error (0.00s)",
	"not ok 12 - answers 429 Too Many Requests",
	"FAILED tests/test_api.py::test_429 - status code 429",
	"AssertionError: expected status 200, got status 429",
	"E       assert 429 == 200",
	"  1) should return 429 Too Many Requests",
	"  ✗ HTTP 503 is retried",
	"FAIL 429 of 1429 tests",
	"error on line 429",
	"error 429: undeclared identifier",
	"error: 429 tests failed",
	"exit code 429",
	"exit status: 429",
	"code: E429",
	"// on HTTP 429 we wait for Retry-After: 30",
	"# HTTP 429 means: wait",
	"   * HTTP 429: wait",
	"+   return HTTP 429",
	"-   status: 429",
	"the docs say: on 429 rate limit, wait and retry",
	"The service answers HTTP 429 with rate_limit_error when the quota is exceeded.",
	"It was overloaded_error before, and insufficient_quota is not retried.",
	"rate limit exceeded is the message we show",
	"quota exceeded, overloaded, rate limit: all handled",
	"port 4290 in use; request id req_529abc",
	"request req_011CT429kLmN failed: assertion error",
	"pid=429 elapsedMs=1429",
	"12.429 seconds",
	"wrote 529 bytes",
	"commit 4290aef touches rate_limit.go; 2 tests failed",
	"HTTP 404 Not Found",
	"curl: (22) The requested URL returned error: 404",
	"usage: limit reached|now",
	"It says: You've hit your session limit",
}

// serviceFailures are lines that give the reason as a service's.
var serviceFailures = []struct {
	line, code string
	wait       time.Duration
}{
	{"curl: (22) The requested URL returned error: 429", "rate_limit", 0},
	{"HTTP/1.1 429 Too Many Requests", "rate_limit", 0},
	{"< HTTP/2 429", "rate_limit", 0},
	{"Error: 429 Too Many Requests", "rate_limit", 0},
	{"npm ERR! 429 Too Many Requests - GET https://registry.example.com/x", "rate_limit", 0},
	{"requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://example.com/", "rate_limit", 0},
	{"openai.RateLimitError: Error code: 429 - {'error': {'message': 'Rate limit reached'}}", "rate_limit", 0},
	{"AxiosError: Request failed with status code 429", "rate_limit", 0},
	{"  status: 429,", "rate_limit", 0},
	{`{"statusCode":429,"message":"slow down","retry_after":12}`, "rate_limit", 12 * time.Second},
	{"Error: rate_limit_exceeded: please try again in 1m30s", "rate_limit", 90 * time.Second},
	{`{"type":"error","error":{"type":"overloaded_error"}}`, "overloaded", 0},
	{"unexpected status 503 Service Unavailable: Overloaded", "overloaded", 0},
	{"fatal: unable to access 'https://example.com/r.git/': The requested URL returned error: 502", "server", 0},
	{"received unexpected HTTP status: 500 Internal Server Error", "server", 0},
	{"curl: (7) Failed to connect to 127.0.0.1 port 9: Connection refused", "network", 0},
	{"* connect to 127.0.0.1 port 9 failed: Connection refused", "network", 0},
	{"dial tcp 127.0.0.1:443: connect: connection refused", "network", 0},
	{"Error: read ECONNRESET", "network", 0},
	{"net/http: TLS handshake timeout", "network", 0},
	{"read tcp 127.0.0.1:1->127.0.0.1:2: i/o timeout", "network", 0},
	{"dial tcp: lookup example.invalid: no such host", "dns", 0},
	{"curl: (6) Could not resolve host: example.invalid", "dns", 0},
}

func TestClassifyIsNotTakenInByMentions(t *testing.T) {
	t.Parallel()
	for _, line := range append([]string{strings.Join(benign, "\n")}, benign...) {
		for name, r := range map[string]policy.Run{
			"on standard error":  {Stderr: line + "\n", Exit: 1},
			"on standard output": {Stdout: line, Exit: 1},
		} {
			require.Equal(t, policy.Outcome{Status: policy.Failed, Kind: policy.Error, Code: "exit"}, policy.Classify(r), "%s %s", line, name)
		}
		require.Equal(t, policy.Done, policy.Classify(policy.Run{Stdout: line, Stderr: line}).Status, "exit 0 is done, whatever stands there")
	}
}

func TestClassifyIsNotTakenInByEvents(t *testing.T) {
	t.Parallel()
	said := benign
	for _, f := range serviceFailures {
		said = append(said, f.line)
	}
	for _, line := range said {
		quoted, err := json.Marshal(line)
		require.NoError(t, err)
		for _, tc := range []struct {
			format policy.Format
			events []string
		}{
			{policy.Claude, []string{
				`{"type":"assistant","message":{"content":[{"type":"text","text":` + string(quoted) + `}]}}`,
				`{"type":"user","message":{"content":[{"type":"tool_result","content":` + string(quoted) + `}]}}`,
				`{"type":"result","subtype":"success","is_error":false,"result":` + string(quoted) + `}`,
			}},
			{policy.Codex, []string{
				`{"type":"item.completed","item":{"type":"error","message":` + string(quoted) + `}}`,
				`{"type":"error","message":` + string(quoted) + `}`,
				`{"type":"item.completed","item":{"type":"agent_message","text":` + string(quoted) + `}}`,
				`{"type":"turn.completed"}`,
			}},
			{policy.Opencode, []string{
				`{"type":"text","part":{"type":"text","text":` + string(quoted) + `}}`,
				`{"type":"step_finish","part":{"reason":"stop"}}`,
			}},
			{policy.HTTP, []string{
				`data: {"choices":[{"delta":{"content":` + string(quoted) + `},"finish_reason":"stop"}]}`,
				`data: [DONE]`,
			}},
		} {
			r := policy.Run{Stderr: line, Terminal: policy.Terminal{Format: tc.format}}
			for _, event := range tc.events {
				r.Terminal.Line([]byte(event))
			}
			require.Equal(t, policy.Outcome{Status: policy.Done}, policy.Classify(r), line)
			r.Exit = 1
			require.Equal(t, policy.Outcome{Status: policy.Failed, Kind: policy.Error, Code: "exit"}, policy.Classify(r), line)
		}
	}
}

func TestClassifyPlainText(t *testing.T) {
	t.Parallel()
	for _, tc := range serviceFailures {
		t.Run(tc.line, func(t *testing.T) {
			t.Parallel()
			want := policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: tc.code, RetryAfter: tc.wait}
			around := "starting\n" + tc.line + "\r\ngiving up\n"
			require.Equal(t, want, policy.Classify(policy.Run{Stderr: around, Stdout: "error: 3 failed", Exit: 1}))
			require.Equal(t, want, policy.Classify(policy.Run{Stderr: "exit", Stdout: around, Exit: 1}))
		})
	}
}

func TestClassifyOrder(t *testing.T) {
	t.Parallel()
	const refused = "Error: 429 Too Many Requests\nRetry-After: 7\n"
	ok := policy.Terminal{Format: policy.Claude, Seen: true, OK: true}
	limited := policy.Terminal{Format: policy.Claude, Seen: true, Status: 429}
	fail := func(kind policy.Kind, code string) policy.Outcome {
		return policy.Outcome{Status: policy.Failed, Kind: kind, Code: code}
	}
	for _, tc := range []struct {
		name string
		r    policy.Run
		want policy.Outcome
	}{
		{"a success that we had to end is done", policy.Run{Terminal: ok, Exit: -9, Stopped: policy.StopLinger}, policy.Outcome{Status: policy.Done}},
		{"a success before the cancel came is done", policy.Run{Terminal: ok, Exit: 143, Stopped: policy.StopAsked}, policy.Outcome{Status: policy.Done}},
		{"a success that exits with a failure is none", policy.Run{Terminal: ok, Exit: 1}, fail(policy.Error, "exit")},
		{"a cancel is a cancel, though it failed", policy.Run{Terminal: limited, Exit: 143, Stopped: policy.StopAsked}, policy.Outcome{Status: policy.Cancelled, Code: "stopped"}},
		{"a plain program may end well when it is asked to stop", policy.Run{Exit: 0, Stopped: policy.StopAsked}, policy.Outcome{Status: policy.Cancelled, Code: "stopped"}},
		{"a failure that it told us goes before the silence after it", policy.Run{Terminal: limited, Exit: -9, Stopped: policy.StopInactivity}, fail(policy.Transient, "rate_limit")},
		{"silence is its own failure", policy.Run{Stderr: refused, Exit: -9, Stopped: policy.StopInactivity}, fail(policy.Error, "inactivity")},
		{"no first output is its own failure", policy.Run{Exit: -9, Stopped: policy.StopFirstOutput}, fail(policy.Error, "first_output")},
		{"the ceiling is its own failure", policy.Run{Exit: -9, Stopped: policy.StopCeiling}, fail(policy.Error, "ceiling")},
		{"no program is the machine's failure", policy.Run{NotStarted: "not_found"}, fail(policy.Config, "not_found")},
		{"a program that may not be run is the machine's failure", policy.Run{NotStarted: "not_executable"}, fail(policy.Config, "not_executable")},
		{"any other start that failed is an error", policy.Run{NotStarted: "start"}, fail(policy.Error, "start")},
		{"a failure event goes before exit 0", policy.Run{Terminal: limited}, fail(policy.Transient, "rate_limit")},
		{"a kill goes before the text", policy.Run{Stderr: refused, Exit: -11}, fail(policy.Error, "crash")},
		{"a panic goes before the text", policy.Run{Stderr: "panic: no\n\ngoroutine 1 [running]:\n" + refused, Exit: 2}, fail(policy.Error, "crash")},
		{"a traceback that has lost its header to the tail is known by its frames' head", policy.Run{Stderr: "goroutine 12 [select]:\n" + refused, Exit: 2}, fail(policy.Error, "crash")},
		{
			"standard error goes before standard output",
			policy.Run{Stderr: refused, Stdout: "connect ECONNREFUSED 127.0.0.1:443", Exit: 1},
			policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "rate_limit", RetryAfter: 7 * time.Second},
		},
		{
			"a program that asks for another try may say when",
			policy.Run{Stdout: "Retry-After: 90\n", Exit: 75},
			policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: "tempfail", RetryAfter: 90 * time.Second},
		},
		{"text more than 64 lines before the end is not read", policy.Run{Stderr: refused + strings.Repeat("working\n", 64), Exit: 1}, fail(policy.Error, "exit")},
		{"no text of a program with events is read", policy.Run{Terminal: policy.Terminal{Format: policy.Codex}, Stderr: refused, Exit: 1}, fail(policy.Error, "exit")},
		{"no money goes before the 429 it comes with", policy.Run{Stderr: `Error code: 429 - {'error': {'code': 'insufficient_quota'}}`, Exit: 1}, fail(policy.Config, "billing")},
		{"an access violation is a crash, however it is written", policy.Run{Exit: -1073741819}, fail(policy.Error, "crash")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, policy.Classify(tc.r))
		})
	}
}

func TestClassifyStopsBelievingInTheService(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		r     policy.Run
		tries int
	}{
		{"a stream without its end", policy.Run{Terminal: policy.Terminal{Format: policy.Claude}}, 1},
		{"a kill by somebody else", policy.Run{Exit: -9}, 1},
		{"an interrupt by somebody else", policy.Run{Exit: 130}, 1},
		{"a host that is not found", policy.Run{Exit: 1, Stderr: "lookup x: no such host"}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for n := range 4 {
				tc.r.Transients = n
				want := policy.Transient
				if n >= tc.tries {
					want = policy.Error
				}
				require.Equal(t, want, policy.Classify(tc.r).Kind, "after %d", n)
			}
		})
	}
}
