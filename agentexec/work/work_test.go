//go:build unix

package work_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/task"
	"pushd/agentexec/work"
	"pushd/policy"
)

func sh(t *testing.T, script string) *work.Program {
	return &work.Program{Runner: newRunner(t), Command: []string{"sh", "-c", script}}
}

func TestAProgramsResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, payload, want string
		file                  bool
	}{
		"its JSON":            {script: `cat`, payload: `{"a":[1, 2]}`, want: `{"a":[1, 2]}`},
		"from a file":         {script: `cat "$PUSHD_PAYLOAD_FILE"`, payload: `"x"`, want: `"x"`, file: true},
		"no payload":          {script: `cat`, payload: ``, want: `null`},
		"noise beside it":     {script: `echo loud >&2; echo '{"ok":true}'`, want: `{"ok":true}`},
		"what it is told":     {script: `printf '"%s %s"' "$PUSHD_ACTION_ID" "$PUSHD_SESSION_ID"`, want: `"a1 s"`},
		"nothing in its argv": {script: `tr '\0' ' ' </proc/$$/cmdline | grep -c needle; true`, payload: `"needle"`, want: `1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sh(t, c.script)
			p.ByFile = c.file
			v, _ := run(t, p, c.payload)
			require.Equal(t, policy.Done, v.Status, "%+v", v)
			require.Equal(t, c.want, string(v.Result))
		})
	}
	v, r := run(t, sh(t, "echo one; echo two; echo three >&2"), "")
	require.Equal(t, policy.Done, v.Status)
	require.Equal(t, "one\ntwo\n", r.Text)
	require.Contains(t, r.OutputTail, "three")
	require.Equal(t, 0, *r.Exit)
}

func TestAProgramsFailure(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]policy.Outcome{
		"echo no >&2; exit 3":                   {Status: policy.Failed, Kind: policy.Error, Code: "exit"},
		"exit 75":                               {Status: policy.Failed, Kind: policy.Transient, Code: "tempfail"},
		"no-such-thing":                         {Status: policy.Failed, Kind: policy.Config, Code: "not_found"},
		"echo 'HTTP/1.1 429 x' >&2; exit 1":     {Status: policy.Failed, Kind: policy.Transient, Code: "rate_limit"},
		"kill -SEGV $$":                         {Status: policy.Failed, Kind: policy.Error, Code: "crash"},
		"printf 'acc\\350s refus\\351'; exit 1": {Status: policy.Failed, Kind: policy.Error, Code: "exit"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			v, r := run(t, sh(t, script), "")
			require.Equal(t, want, v.Outcome, v.Message)
			if strings.Contains(script, "350") {
				require.Equal(t, "accès refusé", r.OutputTail)
				require.Equal(t, "windows-1252?", r.Encoding)
				require.Equal(t, "accès refusé", v.Message)
			}
		})
	}
	p := sh(t, "")
	p.Command = []string{"no-such-program"}
	v, _ := run(t, p, "")
	require.Equal(t, policy.Config, v.Kind)
	require.ErrorContains(t, p.Ready(t.Context()), "not found")
	p = sh(t, "true")
	p.Dir = "/no/such/dir"
	v, _ = run(t, p, "")
	require.Contains(t, v.Message, "working directory")
}

// Quotes are twice as long in JSON, and ill-formed text is none at all.
func TestAResultFits(t *testing.T) {
	t.Parallel()
	v, r := run(t, sh(t, `head -c 900000 /dev/zero | tr '\0' '"'`), "")
	require.Equal(t, policy.Done, v.Status)
	require.True(t, r.TextCut)
	require.NotEmpty(t, r.Text)
	require.LessOrEqual(t, len(v.Result), 1<<20-8<<10)
	v, r = run(t, sh(t, `printf '"caf\351"'`), "")
	require.Equal(t, "\"café\"", r.Text, "%s", v.Result)
}

// SE-07: the agent's own secrets are in no child's environment, and in no log.
func TestSecretsStayHome(t *testing.T) {
	t.Parallel()
	p := sh(t, "env; echo "+secret)
	p.PassEnv = []string{"*TOKEN*", "OTHER"}
	v, r := run(t, p, "")
	require.NotContains(t, string(v.Result), secret)
	require.Contains(t, r.Text, "[masked]")
	require.NotContains(t, r.Text, "PUSHD_TOKEN")
	require.NotContains(t, r.Text, "MY_TOKEN")
	require.NotContains(t, r.Text, "ANTHROPIC")
	require.Contains(t, r.Text, "OTHER=o")
	logs, err := filepath.Glob(filepath.Join(p.Runner.Dir, "*", "stdout.log.000"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	raw, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	require.NotContains(t, string(raw), secret)
}

// EX-01 with a window of 3 s: all that show life live, the silent one is cut.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"steady":  `for i in 1 2 3 4; do echo '{"type":"tick"}'; sleep 1; done; echo ok`,
		"stderr":  `for i in 1 2 3 4; do echo working >&2; sleep 1; done; echo ok`,
		"partial": `for i in 1 2 3 4; do printf .; sleep 1; done; echo ok`,
		"file":    `for i in 1 2 3 4; do echo $i >>"$ACTIVITY_FILE"; sleep 1; done; echo ok`,
		"silent":  `sleep 600`,
		"hung":    `echo begun; sleep 600`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sh(t, script)
			p.SetEnv = map[string]string{"ACTIVITY_FILE": "{activity_file}"}
			p.Windows = work.Windows{FirstOutput: 3 * time.Second, Inactivity: 3 * time.Second, StopGrace: time.Second}
			v, _ := run(t, p, "")
			switch name {
			case "silent":
				require.Equal(t, "first_output", v.Code)
				require.Contains(t, v.Message, "window first_output")
			case "hung":
				require.Equal(t, "inactivity", v.Code)
				require.Contains(t, v.Message, "window inactivity")
			default:
				require.Equal(t, policy.Done, v.Status, "%+v", v)
			}
		})
	}
}

func TestAResultWithoutAnExitCounts(t *testing.T) {
	t.Parallel()
	all, err := work.Builtin()
	require.NoError(t, err)
	a := all["claude"]
	a.Argv = []string{"sh", "-c", `echo '{"type":"result","subtype":"success","is_error":false,"result":"yes","session_id":"s1"}'; sleep 600`}
	c := &work.CLI{Runner: newRunner(t), Name: "claude", Adapter: a, Windows: work.Windows{Linger: 300 * time.Millisecond, StopGrace: 300 * time.Millisecond}}
	v, r := run(t, c, `"hi"`)
	require.Equal(t, policy.Done, v.Status)
	require.Equal(t, "yes", r.Text)
	require.Equal(t, "s1", r.SessionID)
}

// AW-07: however long a prompt is, no argument is.
func TestAPromptOfAnyLength(t *testing.T) {
	t.Parallel()
	prompt, err := json.Marshal(map[string]string{"prompt": strings.Repeat("p", 200_000)})
	require.NoError(t, err)
	a := work.Adapter{Format: "plain", Argv: []string{"sh", "-c", "wc -c"}}
	v, r := run(t, &work.CLI{Runner: newRunner(t), Adapter: a}, string(prompt))
	require.Equal(t, policy.Done, v.Status)
	require.Equal(t, "200000", strings.TrimSpace(r.Text))
	a = work.Adapter{Format: "plain", Argv: []string{"sh", "-c", `wc -c <"$0"`, "{prompt_file}"}, Prompt: "file"}
	_, r = run(t, &work.CLI{Runner: newRunner(t), Adapter: a}, string(prompt))
	require.Equal(t, "200000", strings.TrimSpace(r.Text))
	a = work.Adapter{Format: "plain", Argv: []string{"echo", "{prompt}"}, Prompt: "arg"}
	v, _ = run(t, &work.CLI{Runner: newRunner(t), Adapter: a}, string(prompt))
	require.Equal(t, policy.Permanent, v.Kind)
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"exit 0": "", "exit 3": "version", "sleep 60": "no answer within",
	} {
		path := filepath.Join(t.TempDir(), "cli")
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
		p := sh(t, "")
		p.Command = []string{path}
		p.Preflight = work.Preflight{Version: []string{"--version"}, For: time.Minute}
		if strings.HasPrefix(want, "no answer") {
			p.Preflight.For = 300 * time.Millisecond
		}
		err := p.Ready(t.Context())
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	p := sh(t, "")
	p.Preflight = work.Preflight{Connect: "127.0.0.1:1"}
	require.ErrorContains(t, p.Ready(t.Context()), "refused")
}

func TestACancelIsAnswered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	p := sh(t, `trap "" TERM; echo begun; while :; do echo on; sleep 0.05; done`)
	p.Windows.StopGrace = 200 * time.Millisecond
	pulse := &task.Pulse{}
	spoke := whenItSpeaks(p.Runner)
	go func() {
		<-spoke
		cancel(task.ErrCancelled)
	}()
	v := p.Run(ctx, job(""), pulse)
	require.Equal(t, policy.Cancelled, v.Status)
	require.NotEmpty(t, pulse.Read().Note)
}

// fakePowerShell stands where PowerShell would: it takes a command line as that
// does, and runs the script with sh.
const fakePowerShell = `#!/bin/sh
[ "$1 $2 $3" = "-NoProfile -NonInteractive -File" ] && [ $# = 4 ] && [ -f "$4" ] || { echo "called with: $*" >&2; exit 64; }
FAKE=$(basename "$0") exec sh "$4"
`

func TestPowerShell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fakes  []string
		script string
		file   bool
		status policy.Status
		want   string
	}{
		"stdin":            {[]string{"pwsh"}, `cat`, false, policy.Done, `{"s":"caf\u00e9 \ud83d\ude00"}`},
		"file":             {[]string{"pwsh"}, `read x && exit 9; cat "$PUSHD_PAYLOAD_FILE"`, true, policy.Done, `{"s":"caf\u00e9 \ud83d\ude00"}`},
		"the newer of two": {[]string{"powershell", "pwsh"}, `echo "\"$FAKE\""`, false, policy.Done, `"pwsh"`},
		"the older alone":  {[]string{"powershell"}, `echo "\"$FAKE\""`, false, policy.Done, `"powershell"`},
		"its exit code":    {[]string{"pwsh"}, `echo no >&2; exit 75`, false, policy.Failed, "tempfail"},
		"with a BOM":       {[]string{"pwsh"}, `printf '\357\273\277{"a":1}\r\n'`, false, policy.Done, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, fake := range c.fakes {
				require.NoError(t, os.WriteFile(filepath.Join(dir, fake), []byte(fakePowerShell), 0o700))
			}
			script := filepath.Join(dir, "a script.ps1")
			r := newRunner(t)
			r.Environ = append([]string{"PATH=" + dir + ":/usr/bin:/bin"}, r.Environ...)
			p := work.PowerShell(r, script, work.Program{ByFile: c.file})
			require.ErrorContains(t, p.Ready(t.Context()), "a script.ps1")
			require.NoError(t, os.WriteFile(script, []byte(c.script), 0o600))
			require.NoError(t, p.Ready(t.Context()))
			v, _ := run(t, p, `{"s":"café 😀"}`)
			require.Equal(t, c.status, v.Status, "%+v", v)
			if c.status == policy.Done {
				require.Equal(t, c.want, string(v.Result))
			} else {
				require.Equal(t, c.want, v.Code, "%s", v.Message)
			}
		})
	}
	none := newRunner(t)
	none.Environ = []string{"PATH=" + t.TempDir()}
	script := filepath.Join(t.TempDir(), "x.ps1")
	require.NoError(t, os.WriteFile(script, nil, 0o600))
	require.ErrorContains(t, work.PowerShell(none, script, work.Program{}).Ready(t.Context()), "pwsh: not found")
}
