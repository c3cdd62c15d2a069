package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	bashBlock = regexp.MustCompile("(?s)```bash\n(.*?)```")
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// startIn is start in a folder, with the settings file pushd.yaml that stands there.
func startIn(t testing.TB, dir string, more ...string) *daemon {
	t.Helper()
	d := &daemon{exited: make(chan struct{})}
	line := []string{"serve", "--config", "pushd.yaml", "--listen", "127.0.0.1:0", "--data-dir", "data", "--set", "log.format=json"}
	d.cmd = exec.Command(filepath.Join(bin, "pushd"), append(line, more...)...)
	d.log.address = make(chan string, 1)
	d.cmd.Dir, d.cmd.Env = dir, clean(os.Environ())
	d.cmd.Stderr, d.cmd.Stdout = &d.log, &d.log
	require.NoError(t, d.cmd.Start())
	go func() {
		defer close(d.exited)
		_ = d.cmd.Wait() // its state is asked for where it matters
	}()
	t.Cleanup(func() { require.NoError(t, d.stop()) })
	require.NoError(t, d.ready())
	return d
}

// The recipes of docs/webhooks.md work, against the settings that stand there.
func TestRecipesOfTheWebhooksWork(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"curl", "openssl", "bash", "base64", "od"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("no " + tool)
		}
	}
	doc := read(t, "docs/webhooks.md")
	dir := workbench(t)
	settings := yamlBlock.FindAllStringSubmatch(doc, -1)
	require.Len(t, settings, 2)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pushd.yaml"), []byte(settings[0][1]), 0o600))
	blocks := bashBlock.FindAllStringSubmatch(doc, -1)
	base := ""
	bash := func(text string) string {
		text = strings.ReplaceAll(text, "http://127.0.0.1:8080", base)
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", text)
		cmd.Dir = dir
		cmd.Env = append(clean(os.Environ()), "PUSHD_URL="+base, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		require.NoError(t, cmd.Run(), "%s\n%s", text, out.String())
		return out.String()
	}
	for _, b := range blocks { // the secrets come first
		if strings.Contains(b[1], "mkdir -p secrets") {
			bash(b[1])
		}
	}
	d := startIn(t, dir)
	base = d.base
	for _, b := range blocks {
		if strings.Contains(b[1], "mkdir -p secrets") {
			continue
		}
		out := bash(b[1])
		for _, line := range strings.Split(out, "\n") {
			if strings.HasPrefix(line, `{"actions"`) {
				require.Contains(t, line, `"deduplicated":false`, "%s", b[1])
			}
		}
	}
	page, err := d.client().Webhooks(t.Context())
	require.NoError(t, err)
	for _, r := range page.Items {
		if r.Source != "settled" && r.Source != "slack" {
			require.Positive(t, r.Counts["queued"], "no recipe for %s", r.Source)
		}
		require.Zero(t, r.Counts["refused"], r.Route)
	}
}
