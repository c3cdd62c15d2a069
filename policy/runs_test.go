package policy_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"pushd/policy"
)

// agentRun is one entry of testdata/agent_runs.json.
type agentRun struct {
	Name       string
	Adapter    string
	Exit       *int
	Stdout     []string
	StdoutB64  string `json:"stdout_b64"`
	Stderr     string
	SignalSent string `json:"signal_sent"`
	HTTP       *struct {
		Status  int
		Headers map[string]string
		Body    json.RawMessage
	}
	Expect struct {
		Class, Reason string
		RetryAfterS   float64 `json:"retry_after_s"`
		ResetAt       int64   `json:"reset_at"`
		ResetLocal    string  `json:"reset_local"`
	}
}

// inactivity is watchdog.inactivity_timeout by default.
const inactivity = 600

// ended is when all runs end that do not say when their limit does.
var ended = time.Date(2026, 4, 15, 12, 0, 0, 0, time.UTC)

// resets are the clock times of the fixtures, seen from ended.
var resets = map[string]time.Time{
	"10:30 America/Sao_Paulo": time.Date(2026, 4, 15, 13, 30, 0, 0, time.UTC), // UTC-3
	"5:10 PM":                 time.Date(2026, 4, 15, 17, 10, 0, 0, time.UTC),
	"Apr 16th, 2026 12:04 AM": time.Date(2026, 4, 16, 0, 4, 0, 0, time.UTC),
}

// kinds translates the classes of the fixtures, which are those of the
// research, to error.kind: permanent is there what no wait helps.
var kinds = map[string]policy.Kind{
	"permanent.auth":              policy.Config,
	"permanent.billing":           policy.Config,
	"permanent.not_found":         policy.Config,
	"permanent.not_executable":    policy.Config,
	"permanent.context":           policy.Permanent,
	"permanent.max_turns":         policy.Permanent,
	"permanent.bad_request":       policy.Permanent,
	"permanent.session_not_found": policy.Permanent,
	"permanent.exit":              policy.Error,
	"permanent.crash":             policy.Error,
	"timeout.inactivity":          policy.Error,
	"quota.usage_limit":           policy.Quota,
}

func agentRuns(t testing.TB) []agentRun {
	raw, err := os.ReadFile("testdata/agent_runs.json")
	require.NoError(t, err)
	var runs []agentRun
	require.NoError(t, json.Unmarshal(raw, &runs))
	return runs
}

func formatOf(adapter string) policy.Format {
	return map[string]policy.Format{
		"claude": policy.Claude, "codex": policy.Codex, "opencode": policy.Opencode, "openai_http": policy.HTTP,
	}[adapter]
}

// run is what the agent would hand to Classify.
func (f agentRun) run(t testing.TB) policy.Run {
	r := policy.Run{Stderr: f.Stderr, Ended: ended}
	if f.Expect.ResetAt != 0 {
		r.Ended = time.Unix(f.Expect.ResetAt, 0).Add(-time.Hour)
	}
	r.Terminal.Format = formatOf(f.Adapter)
	if f.SignalSent != "" {
		r.Stopped = policy.StopAsked
	}
	lines, silent := f.output(t)
	if f.Exit != nil {
		r.Exit = *f.Exit
	} else if silent >= inactivity {
		r.Stopped = policy.StopInactivity
	}
	r.Stdout = strings.Join(lines, "\n")
	for _, line := range lines {
		r.Terminal.Line([]byte(line))
	}
	if f.HTTP != nil {
		f.answer(&r.Terminal)
	}
	return r
}

func (f agentRun) answer(into *policy.Terminal) {
	var text string
	var frames []string
	switch {
	case json.Unmarshal(f.HTTP.Body, &text) == nil:
		into.Answer(f.HTTP.Status, f.HTTP.Headers, []byte(text))
	case json.Unmarshal(f.HTTP.Body, &frames) == nil:
		for _, frame := range frames {
			into.Line([]byte(frame))
		}
	}
}

// output is the program's standard output by lines, and how long it was silent last.
func (f agentRun) output(t testing.TB) (lines []string, silent int) {
	if f.StdoutB64 != "" {
		raw, err := base64.StdEncoding.DecodeString(f.StdoutB64)
		require.NoError(t, err)
		return strings.Split(utf8Of(raw), "\n"), 0
	}
	for _, line := range f.Stdout {
		var act struct {
			Gap    int `json:"_gap_s"`
			Repeat *struct {
				Prefix, Unit, Suffix string
				Count                int
			} `json:"_repeat"`
		}
		_ = json.Unmarshal([]byte(strings.TrimSpace(line)), &act) // most lines are output
		switch {
		case act.Gap > 0:
			silent = act.Gap
		case act.Repeat != nil:
			lines = append(lines, act.Repeat.Prefix+strings.Repeat(act.Repeat.Unit, act.Repeat.Count)+act.Repeat.Suffix)
		default:
			lines, silent = append(lines, line), 0
		}
	}
	return lines, silent
}

// utf8Of reads UTF-16LE by its mark, as the agent does before it looks for lines.
func utf8Of(raw []byte) string {
	if len(raw) < 2 || raw[0] != 0xff || raw[1] != 0xfe {
		return string(raw)
	}
	var units []uint16
	for i := 2; i+1 < len(raw); i += 2 {
		units = append(units, uint16(raw[i])|uint16(raw[i+1])<<8)
	}
	return string(utf16.Decode(units))
}

// want is the outcome that the fixture expects.
func (f agentRun) want() policy.Outcome {
	want := policy.Outcome{Status: policy.Failed, Kind: policy.Kind(f.Expect.Class), Code: f.Expect.Reason}
	switch f.Expect.Class {
	case "ok":
		return policy.Outcome{Status: policy.Done}
	case "canceled":
		return policy.Outcome{Status: policy.Cancelled, Code: f.Expect.Reason}
	case "transient":
	default:
		want.Kind = kinds[f.Expect.Class+"."+f.Expect.Reason]
	}
	switch {
	case f.Expect.ResetAt != 0:
		want.RetryAfter = time.Hour
	case f.Expect.ResetLocal != "":
		want.RetryAfter = resets[f.Expect.ResetLocal].Sub(ended)
	default:
		want.RetryAfter = time.Duration(f.Expect.RetryAfterS * float64(time.Second))
	}
	return want
}

// The one we differ on: nobody asked for the Ctrl-C, so it is no cancellation.
// To the server a "cancelled" that nobody asked for is final (protocol section
// 9), and a machine that shuts down would bury what it was working on.
var differ = []string{"shell_win_ctrl_c"}

func TestClassifyAgentRuns(t *testing.T) {
	t.Parallel()
	runs := agentRuns(t)
	require.Len(t, runs, 81)
	var missed []string
	for _, f := range runs {
		got, want := policy.Classify(f.run(t)), f.want()
		if want.RetryAfter == 0 {
			got.RetryAfter = 0 // a hint that the fixture says nothing of
		}
		if got != want {
			t.Logf("%s: %+v, expected %+v", f.Name, got, want)
			missed = append(missed, f.Name)
		}
	}
	require.Equal(t, differ, missed)
}

func TestClassifyReportedCases(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/ex05_classifier.tsv")
	require.NoError(t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		require.Len(t, cells, 3)
		exit, err := strconv.Atoi(cells[1])
		require.NoError(t, err)
		for name, r := range map[string]policy.Run{
			"on standard error":  {Stderr: cells[0] + "\n", Exit: exit, Ended: ended},
			"on standard output": {Stdout: cells[0], Exit: exit, Ended: ended},
		} {
			t.Run(cells[0]+" "+name, func(t *testing.T) {
				got := policy.Classify(r)
				class, after, _ := strings.Cut(cells[2], ":")
				switch class {
				case "success":
					require.Equal(t, policy.Outcome{Status: policy.Done}, got)
				case "transient":
					seconds, _ := strconv.Atoi(after)
					require.Equal(t, policy.Transient, got.Kind)
					require.Equal(t, time.Duration(seconds)*time.Second, got.RetryAfter)
				default: // no wait helps
					require.Equal(t, policy.Failed, got.Status)
					require.Equal(t, policy.Error, got.Kind)
				}
			})
		}
	}
}
