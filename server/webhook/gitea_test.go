package webhook_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a real Gitea sent is verified and read, as JSON and as a form: there the
// signature is over the JSON, not over the form.
func TestARealGiteasRequests(t *testing.T) {
	files, err := filepath.Glob("testdata/gitea/*.http")
	require.NoError(t, err)
	require.Len(t, files, 6)
	r, err := load(t, "gitea", []string{"pushd-test-secret"}, `actions:
- {machine_id: m1, type: t, session_id: "{{ .body.repository.full_name }}", payload: {event: "{{ .delivery.event }}", all: {$from: body}}}`)
	require.NoError(t, err)
	keys := map[string]bool{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
			require.NoError(t, err)
			body, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			o, err := r.Open(req.Header, body, time.Now())
			require.NoError(t, err)
			keys[o.Key] = true
			event, _, _ := strings.Cut(o.Event, ".")
			require.True(t, strings.HasPrefix(filepath.Base(file), event+"_"), o.Event)
			all, err := r.Render(o.Message)
			require.NoError(t, err)
			require.Contains(t, string(all[0]), `"session_id":"bob-demo"`)
			if event == "issues" {
				require.Contains(t, string(o.JSON), `say \"hi\", {{ .route.id }} \u0026 \u003cb\u003eé`)
			}
			body[len(body)-2] ^= 1
			_, err = r.Open(req.Header, body, time.Now())
			require.Error(t, err)
		})
	}
	require.Len(t, keys, 6, "Gitea names each delivery of each hook anew")
}
