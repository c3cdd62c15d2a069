package setup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/setup"
	"pushd/agentexec/work"
)

const good = `
server: http://127.0.0.1:8080
machine_id: win-1
token_file: token
data_dir: state
drain_timeout: 10s
handlers:
  click: {kind: exec, command: [python3, click.py], windows: {inactivity: 30s}}
  script: {kind: powershell, script: run.ps1, payload: file}
  desk: {kind: http, url: "http://127.0.0.1:9000/run"}
  fix: {kind: cli-agent, adapter: claude, args: [--permission-mode, plan], dir: repo}
  lines: {kind: cli-agent, adapter: plain, command: [cat]}
  ask: {kind: cli-agent, adapter: openai, url: "http://127.0.0.1:1/v1/chat/completions", model: m}
`

func TestAFileIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(good), 0o600))
	f, err := setup.Load(path)
	require.NoError(t, err)
	f.Defaults()
	require.NoError(t, f.Validate())
	dir := filepath.Dir(path)
	require.Equal(t, filepath.Join(dir, "token"), f.TokenFile)
	require.Equal(t, filepath.Join(dir, "repo"), f.Handlers["fix"].Dir)
	require.Equal(t, 1, f.MaxConcurrency)
}

func TestWhatAFileCannotMean(t *testing.T) {
	for from, c := range map[string]struct{ to, says string }{
		"server: http://127.0.0.1:8080":  {"server: ftp://x", "no http"},
		"machine_id: win-1":              {"machine_id: 'a b'", "no id"},
		"data_dir: state":                {"", "data_dir"},
		"drain_timeout: 10s":             {"drain_timeout: 10", "unit"},
		"token_file: token":              {"tokenfile: token", "tokenfile"},
		"kind: exec, command":            {"kind: exce, command", "exce"},
		"kind: http,":                    {"kind: http, dir: x,", "dir means nothing"},
		"adapter: claude,":               {"adapter: claud,", "claud"},
		"windows: {inactivity: 30s}":     {"windows: {inactive: 30s}", "inactive"},
		"payload: file":                  {"payload: argv", "payload"},
		"adapter: plain, command: [cat]": {"adapter: plain", "needs a command"},
		", model: m}":                    {"}", "model"},
		"handlers:\n":                    {"handlers:\n  'a b': {kind: exec, command: [x]}\n", "no action type"},
	} {
		t.Run(c.to, func(t *testing.T) {
			require.Contains(t, good, from)
			f, err := setup.Parse([]byte(strings.Replace(good, from, c.to, 1)))
			if err == nil {
				f.Defaults()
				err = f.Validate()
			}
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := setup.Parse([]byte(good + "\n---\nserver: x\n"))
	require.Error(t, err)
}

func TestBuiltinAdaptersAreValid(t *testing.T) {
	all, err := work.Builtin()
	require.NoError(t, err)
	require.Len(t, all, 5)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Fuzz(func(_ *testing.T, raw []byte) {
		file, err := setup.Parse(raw)
		if err == nil {
			file.Defaults()
			_ = file.Validate()
		}
	})
}
