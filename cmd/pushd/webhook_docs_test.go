package main_test

import (
	"bytes"
	"net/http"
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
	line := []string{"serve", "--config", "pushd.yaml", "--listen", "127.0.0.1:0", "--data-dir", "data", "--set", "log.format=json"}
	cmd := exec.Command(filepath.Join(bin, "pushd"), append(line, more...)...)
	cmd.Dir, cmd.Env = dir, clean(os.Environ())
	return serveBy(t, cmd)
}

// That a route can make nothing of a body is an exit status, when it is tried and
// when it is replayed.
func TestWhatARouteCannotMakeIsAnExitStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pushd.yaml"), []byte("webhooks: {routes: [{id: r, source: none, actions: [{machine_id: m1, type: job, payload: '{{ .body.title }}'}]}]}\n"), 0o600))
	d := startIn(t, dir)
	resp, err := http.Post(d.base+"/webhooks/r", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 400, resp.StatusCode)
	page, err := d.client().Deliveries(t.Context(), "r", 1, "")
	require.NoError(t, err)
	body := filepath.Join(dir, "body.json")
	for text, want := range map[string]int{"{}": 1, `{"title":"x"}`: 0} {
		require.NoError(t, os.WriteFile(body, []byte(text), 0o600))
		_, talk, code := run(t, "pushctl", "-s", d.base, "webhook", "test", "r", body)
		require.Equal(t, want, code, talk)
	}
	out, talk, code := run(t, "pushctl", "-s", d.base, "webhook", "replay", "r", page.Items[0].ID)
	require.Equal(t, 1, code)
	require.Contains(t, out, "replay of")
	require.Contains(t, talk, "no action could be made of it")
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
		for line := range strings.SplitSeq(out, "\n") {
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
