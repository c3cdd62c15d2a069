package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

const storySettings = `
policy: {backoff_base: 100ms, backoff_max: 10s}
stream: {reconnect_grace: 1s}
webhooks:
  routes:
  - id: gitea
    source: gitea
    secrets: ["file:secret"]
    when: {header.X-Gitea-Event: issues, body.action: opened}
    actions:
    - machine_id: agent-1
      session_id: "{{ .body.repository.full_name }}-{{ .body.issue.number }}"
      type: build
      payload: {title: "{{ .body.issue.title }}"}
  - id: deploy
    source: settled
    when: {action.type: build, action.state: done, action.result.ok: true}
    actions:
    - {machine_id: "{{ .action.machine_id }}", session_id: "{{ .action.session_id }}", type: deploy, payload: {built: {$from: action.result}}}
`

// storyCLI is an agent's program whose service is missing twice.
const storyCLI = `#!/bin/sh
n=$(cat runs 2>/dev/null || echo 0); n=$((n+1)); echo $n > runs
if [ $n -le 2 ]; then echo "API error: HTTP/1.1 429 Too Many Requests, Retry-After: 1" >&2; exit 75; fi
echo '{"ok":true,"run":'$n'}'
`

// story is a server, an agent beside it, and what the agent runs.
type story struct {
	t   *testing.T
	dir string
	d   *daemon
}

func (s *story) post(path, body string, out any) {
	s.t.Helper()
	resp, err := http.Post(s.d.base+path, "application/json", strings.NewReader(body))
	require.NoError(s.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, 200, resp.StatusCode, "%s: %s", path, raw)
	require.NoError(s.t, json.Unmarshal(raw, out), "%s", raw)
}

// gitea delivers what a real Gitea sent, byte for byte.
func (s *story) gitea() api.Taken {
	s.t.Helper()
	raw := read(s.t, "server/webhook/testdata/gitea/issues_json.http")
	recorded, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	require.NoError(s.t, err)
	body, err := io.ReadAll(recorded.Body)
	require.NoError(s.t, err)
	req, err := http.NewRequest("POST", s.d.base+"/webhooks/gitea", bytes.NewReader(body))
	require.NoError(s.t, err)
	req.Header = recorded.Header
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.Equal(s.t, 202, resp.StatusCode)
	var out api.Taken
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&out))
	return out
}

// work takes the agent's next action, runs its program and answers for it.
func (s *story) work() (got api.Record, outcome string) {
	s.t.Helper()
	s.post("/next?machine_id=agent-1&wait_s=20", "{}", &got)
	cli := exec.Command("./cli")
	cli.Dir = s.dir
	var out, talk bytes.Buffer
	cli.Stdout, cli.Stderr = &out, &talk
	err := cli.Run()
	ack := fmt.Sprintf(`{"action_id":%q,"delivery":%d,"status":"done","result":%s}`, got.ActionID, got.Delivery, out.String())
	if err != nil {
		require.Contains(s.t, talk.String(), "429 Too Many Requests")
		ack = fmt.Sprintf(`{"action_id":%q,"delivery":%d,"status":"failed","retry_after_s":1,"error":{"kind":"transient","code":"429"}}`, got.ActionID, got.Delivery)
	}
	var acked api.Acked
	s.post("/acks", ack, &acked)
	return got, acked.Outcome
}

// crash ends the server as a power cut would, and starts it again on what is left.
func (s *story) crash() {
	s.t.Helper()
	s.d.kill()
	s.d = startIn(s.t, s.dir)
}

// An issue in Gitea becomes work, whose service is missing twice; when it is done
// the next stage begins; the server is killed on the way, twice.
func TestAnIssueBecomesWorkStageByStage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"pushd.yaml": storySettings, "secret": "pushd-test-secret\n", "cli": storyCLI} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	s := &story{t, dir, startIn(t, dir)}
	first := s.gitea()
	require.False(t, first.Deduplicated)
	id := first.Actions[0]
	for range 2 {
		got, outcome := s.work()
		require.Equal(t, id, got.ActionID)
		require.Equal(t, "retry", outcome)
		require.JSONEq(t, `{"title":"say \"hi\", {{ .route.id }} & <b>é"}`, string(got.Payload))
	}
	s.crash()
	again := s.gitea()
	require.True(t, again.Deduplicated)
	require.Equal(t, first.Actions, again.Actions)
	got, outcome := s.work()
	require.Equal(t, id, got.ActionID)
	require.Equal(t, "settled", outcome)
	s.crash() // the second stage may not have begun: its note is on disk
	got, outcome = s.work()
	require.Equal(t, "settled", outcome)
	require.Equal(t, "deploy", got.Type)
	require.Equal(t, "bob-demo-1", got.SessionID)
	require.JSONEq(t, `{"built":{"ok":true,"run":3}}`, string(got.Payload))

	record, err := s.d.client().Action(t.Context(), id, 0)
	require.NoError(t, err)
	require.Equal(t, 2, record.TransientAttempts)
	var told []string
	for _, e := range record.Timeline {
		told = append(told, e.Event)
	}
	require.Equal(t, []string{"pushed", "dispatched", "failed", "dispatched", "failed", "dispatched", "done"}, told)
	second, err := s.d.client().Action(t.Context(), got.ActionID, 0)
	require.NoError(t, err)
	require.Equal(t, id, second.Labels["pushd.chain_of"])
	require.Equal(t, "untrusted:webhook/gitea", second.Labels["pushd.origin"])
	links, err := s.d.client().Deliveries(t.Context(), "deploy", 10, "")
	require.NoError(t, err)
	require.Len(t, links.Items, 1)
	require.Equal(t, []string{got.ActionID}, links.Items[0].Actions)
}

const alertSettings = `
webhooks:
  routes:
  - {id: open, source: none, actions: [{machine_id: m1, type: job, max_attempts: 1}]}
alerts:
  gather: 50ms
  every: 50ms
  receivers:
  - {id: local, kind: command, command: [sh, -c, 'cat > told']}
  - {id: dead, kind: slack, url: 'http://127.0.0.1:1/'}
`

// What fails is told, by a receiver that works, beside one that is dead.
func TestAFailureIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pushd.yaml"), []byte(alertSettings), 0o600))
	pipe := exec.Command("mkfifo", filepath.Join(dir, "told"))
	if err := pipe.Run(); err != nil {
		t.Skip("no mkfifo")
	}
	s := &story{t, dir, startIn(t, dir)}
	resp, err := http.Post(s.d.base+"/webhooks/open", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 202, resp.StatusCode)
	var got api.Record
	s.post("/next?machine_id=m1&wait_s=20", "{}", &got)
	var acked api.Acked
	s.post("/acks", fmt.Sprintf(`{"action_id":%q,"status":"failed","error":{"kind":"permanent"}}`, got.ActionID), &acked)
	raw, err := os.ReadFile(filepath.Join(dir, "told")) // it waits until the command writes
	require.NoError(t, err)
	require.Contains(t, string(raw), "pushd: 1 failed")
	require.Contains(t, string(raw), got.ActionID)
}
