package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// replayCLI replays the fixture that its prompt names.
const replayCLI = `#!/usr/bin/env python3
import sys, os, json, time, base64, signal
if '--version' in sys.argv: print('1.0'); sys.exit(0)
run = {r['name']: r for r in json.load(open(%q))}[sys.stdin.read().strip()]
out = sys.stdout.buffer
if run.get('stdout_b64'): out.write(base64.b64decode(run['stdout_b64']))
lines = run['stdout']
for i, line in enumerate(lines):
    try: act = json.loads(line)
    except ValueError: act = None
    if isinstance(act, dict) and '_gap_s' in act: out.flush(); time.sleep(act['_gap_s'] / 1000); continue
    if isinstance(act, dict) and '_repeat' in act:
        r = act['_repeat']; line = r['prefix'] + r['unit'] * r['count'] + r['suffix']
    out.write(line.encode() + (b'' if run.get('no_final_newline') and i == len(lines) - 1 else b'\n'))
out.flush()
sys.stderr.write(run['stderr']); sys.stderr.flush()
code = run['exit']
if code is None or run.get('signal_sent'): time.sleep(3600)
if code < 0: os.kill(os.getpid(), -code)
os._exit(code)
`

// agentRun is one entry of agent_runs.json.
type agentRun struct {
	Name, Adapter string
	Exit          *int
	SignalSent    string `json:"signal_sent"`
	HTTP          *struct {
		Status  int
		Headers map[string]string
		Body    json.RawMessage
	}
	Expect struct {
		Class, Reason string
		SessionID     string `json:"session_id"`
	}
}

// wireKinds are the fixtures' classes in the words of error.kind.
var wireKinds = map[string]string{
	"permanent.auth": "config", "permanent.billing": "config", "permanent.not_found": "config", "permanent.not_executable": "config",
	"permanent.exit": "error", "permanent.crash": "error", "timeout.inactivity": "error", "quota.usage_limit": "quota",
}

// texts are the final texts of the runs that end well, as a reader of the fixtures
// finds them, without the adapters' rules.
var texts = map[string]string{
	"claude_ok":                       "Done.",
	"claude_ok_mentions_429":          "All 1429 files checked; see handler.go line 429: it returns HTTP 429 Too Many Requests when the rate limit is hit.",
	"claude_ok_tool_output_429":       "The service throttles us.",
	"claude_ok_after_retry":           "Done.",
	"claude_long_silent_tool":         "Done.",
	"claude_rate_limit_event_allowed": "Hello.",
	"claude_stdin_warning":            "Done.",
	"codex_ok_with_warning_item":      "Done.",
	"codex_ok_mentions_429":           "1429 files, 0 errors",
	"codex_long_silent_tool":          "Done.",
	"codex_reconnect_then_ok":         "Done.",
	"opencode_ok":                     "Done. See line 429.",
	"http_sse_ok":                     "line 429",
	"http_sse_comment_keepalive":      "ok",
	"shell_ok":                        "ok\n",
	"shell_ok_noise":                  "Scanned 1429 files\nwarning: a.go:429:5: rate limiter unused\nPASS (quota_test.go, overloaded_test.go)\n",
	"claude_utf16_wrapped":            "été",
	"claude_bom_crlf":                 "ok",
	"claude_noise_lines":              "ok",
	"claude_huge_line":                "ok",
	"claude_no_newline_at_end":        "ok",
}

// A whole session with fake CLIs: each run of the fixtures, from a push to what
// its record says.
func TestTheFixturesThroughAServer(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	path, err := filepath.Abs(filepath.Join(root, "policy", "testdata", "agent_runs.json"))
	require.NoError(t, err)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var runs []agentRun
	require.NoError(t, json.Unmarshal(raw, &runs))
	byName := map[string]agentRun{}
	for _, r := range runs {
		byName[r.Name] = r
	}
	endpoint := httptest.NewServer(model(byName))
	defer endpoint.Close()
	w := site(t, func(dir string) string {
		fake := filepath.Join(dir, "fake")
		require.NoError(t, os.WriteFile(fake, fmt.Appendf(nil, replayCLI, path), 0o700))
		var text strings.Builder
		text.WriteString("handlers:\n")
		for name, window := range map[string]string{"claude": "60s", "codex": "60s", "opencode": "8s", "plain": "60s"} {
			fmt.Fprintf(&text, "  %[1]s: {kind: cli-agent, adapter: %[1]s, command: [%[2]s], windows: {first_output: %[3]s, inactivity: %[3]s, stop_grace: 1s}}\n", name, fake, window)
		}
		fmt.Fprintf(&text, "  openai_http: {kind: cli-agent, adapter: openai, url: %q, model: m}\n", endpoint.URL)
		return text.String()
	})
	w.work()
	replayed, wrong := 0, []string{}
	for _, f := range runs {
		if f.portable() {
			f.push(w)
		}
	}
	for _, f := range runs {
		if !f.portable() {
			continue
		}
		replayed++
		if what := f.play(w); what != "" {
			t.Logf("%s: %s", f.Name, what)
			wrong = append(wrong, f.Name)
		}
	}
	t.Logf("%d of %d right, %d have exit codes of Windows", replayed-len(wrong), replayed, len(runs)-replayed)
	// What never says a word is cut by the window for the first one, and says so.
	require.Equal(t, []string{"opencode_hang_quota"}, wrong)
}

// portable tells whether Linux knows such an exit code.
func (f agentRun) portable() bool { return f.Exit == nil || *f.Exit <= 255 }

func (f agentRun) push(w *worksite) {
	kind := f.Adapter
	if kind == "shell" {
		kind = "plain"
	}
	prompt, _ := json.Marshal(f.Name)
	_, err := w.client().Push(w.t.Context(), api.Push{
		ActionID: f.Name, MachineID: "m1", Type: kind, Payload: prompt, Target: f.Name, Guarantee: "at_most_once",
	})
	require.NoError(w.t, err)
}

// play sees one fixture to its end and tells what is wrong with its record.
func (f agentRun) play(w *worksite) string {
	if f.SignalSent != "" {
		require.Eventually(w.t, func() bool {
			r, err := w.client().Action(w.t.Context(), f.Name, 0)
			return err == nil && !r.ReceivedAt.IsZero()
		}, patience, 20*time.Millisecond)
		_, err := w.client().Cancel(w.t.Context(), f.Name)
		require.NoError(w.t, err)
	}
	r := w.settled(f.Name)
	var result struct {
		Session string `json:"session_id"`
		Text    string `json:"text"`
	}
	if len(r.Result) > 0 {
		require.NoError(w.t, json.Unmarshal(r.Result, &result))
	}
	state, errorKind, code := f.want()
	switch got := r.Error; {
	case r.State != state:
		return fmt.Sprintf("%s, not %s: %+v", r.State, state, r.Error)
	case state == "failed" && (got.Kind != errorKind || got.Code != code):
		return fmt.Sprintf("%s %s, not %s %s: %s", got.Kind, got.Code, errorKind, code, got.Message)
	case state != "cancelled" && f.Expect.SessionID != result.Session:
		return "session " + result.Session + ", not " + f.Expect.SessionID
	case state == "done" && result.Text != texts[f.Name]:
		return fmt.Sprintf("text %q, not %q", result.Text, texts[f.Name])
	}
	return ""
}

func (f agentRun) want() (state, kind, code string) {
	switch f.Expect.Class {
	case "ok":
		return "done", "", ""
	case "canceled":
		return "cancelled", "", ""
	}
	kind = wireKinds[f.Expect.Class+"."+f.Expect.Reason]
	if kind == "" {
		kind = f.Expect.Class
	}
	return "failed", kind, f.Expect.Reason
}

// model is an endpoint that answers as the fixture which the prompt names says.
func model(runs map[string]agentRun) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Messages []struct{ Content string }
		}
		_ = json.NewDecoder(r.Body).Decode(&ask)
		if len(ask.Messages) != 1 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		answer := runs[ask.Messages[0].Content].HTTP
		for name, value := range answer.Headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(answer.Status)
		var text string
		var frames []string
		if json.Unmarshal(answer.Body, &text) == nil {
			_, _ = io.WriteString(w, text)
		} else if json.Unmarshal(answer.Body, &frames) == nil {
			_, _ = io.WriteString(w, strings.Join(frames, "\n")+"\n")
		}
	})
}
