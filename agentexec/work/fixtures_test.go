package work_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/proc"
	"pushd/agentexec/task"
	"pushd/agentexec/work"
	"pushd/policy"
)

// fixture is one entry of agent_runs.json.
type fixture struct {
	Name           string   `json:"name"`
	Adapter        string   `json:"adapter"`
	Exit           *int     `json:"exit"`
	Stdout         []string `json:"stdout"`
	StdoutB64      string   `json:"stdout_b64"`
	Stderr         string   `json:"stderr"`
	SignalSent     string   `json:"signal_sent"`
	NoFinalNewline bool     `json:"no_final_newline"`
	HTTP           *struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	} `json:"http"`
	Expect struct {
		Class     string  `json:"class"`
		Reason    string  `json:"reason"`
		RetryS    float64 `json:"retry_after_s"`
		SessionID string  `json:"session_id"`
		FinalText string  `json:"final_text"`
	} `json:"expect"`
}

func fixtures(t *testing.T) (list []fixture) {
	raw, err := os.ReadFile("../../policy/testdata/agent_runs.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &list))
	require.Len(t, list, 81)
	return list
}

// replay is the fake CLI: it does as a fixture says, and ends the process.
func replay(path string) {
	raw, err := os.ReadFile(path)
	var f fixture
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(99)
	}
	out := bufio.NewWriter(os.Stdout)
	if f.StdoutB64 != "" {
		bytes, _ := base64.StdEncoding.DecodeString(f.StdoutB64)
		_, _ = out.Write(bytes)
	}
	for i, line := range f.Stdout {
		var act struct {
			Gap    int `json:"_gap_s"`
			Repeat *struct {
				Prefix, Unit, Suffix string
				Count                int
			} `json:"_repeat"`
		}
		_ = json.Unmarshal([]byte(strings.TrimSpace(line)), &act)
		end := "\n"
		if f.NoFinalNewline && i == len(f.Stdout)-1 {
			end = ""
		}
		switch {
		case act.Gap > 0:
			_ = out.Flush()
			time.Sleep(time.Duration(act.Gap) * time.Millisecond)
		case act.Repeat != nil:
			_, _ = out.WriteString(act.Repeat.Prefix)
			for range act.Repeat.Count {
				_, _ = out.WriteString(act.Repeat.Unit)
			}
			_, _ = out.WriteString(act.Repeat.Suffix + end)
		default:
			_, _ = out.WriteString(line + end)
		}
	}
	_ = out.Flush()
	_, _ = io.WriteString(os.Stderr, f.Stderr)
	switch {
	case f.SignalSent != "" || f.Exit == nil:
		fmt.Println("waits")
		time.Sleep(time.Hour)
	case *f.Exit < 0:
		if me, err := os.FindProcess(os.Getpid()); err == nil {
			_ = me.Signal(syscall.Signal(-*f.Exit))
		}
		time.Sleep(time.Hour)
	}
	os.Exit(*f.Exit)
}

// The classes of the fixtures in the words of error.kind.
var kinds = map[string]policy.Kind{
	"permanent.auth": policy.Config, "permanent.billing": policy.Config, "permanent.not_found": policy.Config,
	"permanent.not_executable": policy.Config, "permanent.context": policy.Permanent, "permanent.max_turns": policy.Permanent,
	"permanent.bad_request": policy.Permanent, "permanent.session_not_found": policy.Permanent,
	"permanent.exit": policy.Error, "permanent.crash": policy.Error, "timeout.inactivity": policy.Error, "quota.usage_limit": policy.Quota,
}

func (f fixture) want() policy.Outcome {
	switch f.Expect.Class {
	case "ok":
		return policy.Outcome{Status: policy.Done}
	case "canceled":
		return policy.Outcome{Status: policy.Cancelled, Code: f.Expect.Reason}
	case "transient":
		return policy.Outcome{Status: policy.Failed, Kind: policy.Transient, Code: f.Expect.Reason}
	}
	return policy.Outcome{Status: policy.Failed, Kind: kinds[f.Expect.Class+"."+f.Expect.Reason], Code: f.Expect.Reason}
}

// handler is what a profile for the fixture's adapter makes.
func (f fixture) handler(t *testing.T) handler {
	all, err := work.Builtin()
	require.NoError(t, err)
	runner := newRunner(t)
	if f.HTTP != nil {
		srv := httptest.NewServer(http.HandlerFunc(f.serve))
		t.Cleanup(srv.Close)
		return &work.Endpoint{Client: srv.Client(), Adapter: all["openai"], URL: srv.URL, Runner: runner}
	}
	path := filepath.Join(t.TempDir(), "fixture.json")
	raw, err := json.Marshal(f)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	name := f.Adapter
	if name == "shell" {
		name = "plain"
	}
	a := all[name]
	a.Argv, a.Prompt = []string{self(t)}, "" // the fake stands in for the program, all else is the adapter's
	start := runner.Start
	runner.Start = func(s proc.Spec) proc.Process {
		p := start(s)
		if f.Exit != nil && *f.Exit > 255 && runtime.GOOS != "windows" {
			return windowsExit{p, *f.Exit} // no other system knows such a code
		}
		return p
	}
	windows := work.Windows{StopGrace: time.Second}
	if f.Exit == nil && f.SignalSent == "" {
		windows.FirstOutput, windows.Inactivity = 650*time.Millisecond, 650*time.Millisecond
	}
	return &work.CLI{Runner: runner, Name: name, Adapter: a, SetEnv: map[string]string{"AGENTEXEC_REPLAY": path}, Windows: windows}
}

func (f fixture) serve(w http.ResponseWriter, _ *http.Request) {
	for name, value := range f.HTTP.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.HTTP.Status)
	var text string
	var frames []string
	if json.Unmarshal(f.HTTP.Body, &text) == nil {
		_, _ = io.WriteString(w, text)
	} else if json.Unmarshal(f.HTTP.Body, &frames) == nil {
		_, _ = io.WriteString(w, strings.Join(frames, "\n")+"\n")
	}
}

type windowsExit struct {
	proc.Process
	code int
}

func (w windowsExit) Wait() proc.Exit {
	exit := w.Process.Wait()
	exit.Code = w.code
	return exit
}

// Nobody asked for that Ctrl-C, so it is no cancellation; and what never says a
// word is cut by the window for the first one.
var differs = map[string]string{"shell_win_ctrl_c": "stopped", "opencode_hang_quota": "first_output"}

// Every fixture, by real processes and real requests.
func TestFixturesReplayed(t *testing.T) {
	t.Parallel()
	for _, f := range fixtures(t) {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			if f.Exit != nil && *f.Exit < 0 && runtime.GOOS == "windows" {
				t.Skip("no signal ends a program there")
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			h := f.handler(t)
			if c, ok := h.(*work.CLI); ok && f.SignalSent != "" {
				spoke := whenItSpeaks(c.Runner)
				go func() {
					<-spoke
					cancel(task.ErrCancelled)
				}()
			}
			v := h.Run(ctx, job(`"do it"`), &task.Pulse{})
			cancel(nil)
			if code := differs[f.Name]; code != "" {
				require.Equal(t, policy.Failed, v.Status)
				require.Equal(t, code, v.Code)
				return
			}
			want := f.want()
			require.Equal(t, want.Status, v.Status, "%+v", v)
			require.Equal(t, want.Kind, v.Kind, "%s", v.Message)
			require.Equal(t, want.Code, v.Code)
			if f.Expect.RetryS > 0 {
				require.InDelta(t, f.Expect.RetryS, v.RetryAfter.Seconds(), 1)
			}
			var result work.Result
			require.NoError(t, json.Unmarshal(v.Result, &result))
			if f.Expect.SessionID != "" {
				require.Equal(t, f.Expect.SessionID, result.SessionID)
			}
			if f.Expect.FinalText != "" {
				require.Equal(t, f.Expect.FinalText, result.Text)
			}
			if want.Status == policy.Failed && f.Name != "garbage_binary" {
				require.NotEmpty(t, v.Message+result.OutputTail+want.Code)
			}
		})
	}
}
