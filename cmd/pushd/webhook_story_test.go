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
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

const storySettings = `
policy: {backoff_base: 100ms, backoff_max: 10s, breaker_threshold: 10}
limits: {max_queued_per_machine: 1}
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
      payload: {prompt: "{{ .body.issue.title }}"}
  - id: deploy
    source: settled
    when: {action.type: build, action.state: done, action.result.text: built}
    actions:
    - {machine_id: "{{ .action.machine_id }}", session_id: "{{ .action.session_id }}", type: deploy, payload: {built: {$from: action.result.text}}}
`

const storyAgent = `
machine_id: agent-1
handlers:
  build: {kind: cli-agent, adapter: claude, command: [./claude], dir: .}
  deploy: {kind: exec, command: [tee, shipped], dir: .}
`

// storyCLI is a CLI agent whose service is missing twice. Its third run says that it
// is in work and does not end; the next one does.
const storyCLI = `#!/bin/sh
case "$*" in *--version*) echo 1.0; exit;; esac
cat > prompt
n=$(cat runs 2>/dev/null || echo 0); n=$((n+1)); echo $n > runs
say() { echo '{"type":"result","subtype":"success","is_error":'$1',"result":"'"$2"'","session_id":"s-1"}'; }
if [ $n -le 2 ]; then say true 'API Error: 429 Too Many Requests, Retry-After: 1'; exit 1; fi
if [ $n = 3 ]; then echo begun > held; exec sleep 3600; fi
say false built
`

// story is a server, and beside it what works for it.
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

// hear waits for what a program of the agent writes into a pipe.
func (s *story) hear(name string) string {
	s.t.Helper()
	text := make(chan string, 1) // nobody may be left to take it
	go func() {
		raw, _ := os.ReadFile(filepath.Join(s.dir, name)) // what is missing, the test misses
		text <- string(raw)
	}()
	select {
	case said := <-text:
		return said
	case <-time.After(patience):
		require.FailNow(s.t, "nothing is written", "%s: %s", name, s.d.log.String())
		return ""
	}
}

// settled waits until an action is.
func (s *story) settled(id string) api.Record {
	s.t.Helper()
	r, err := s.d.client().Action(s.t.Context(), id, patience)
	require.NoError(s.t, err)
	require.Equal(s.t, "done", r.State, "%+v\n%s", r.Timeline, s.d.log.String())
	return r
}

// told is an action's timeline, a word for each step.
func told(r api.Record) (words []string) {
	for _, e := range r.Timeline {
		words = append(words, e.Event)
	}
	return words
}

// An issue in Gitea becomes work for the agent beside the server. Its service is
// missing twice, then all of it is killed in the midst of the work and started
// again; when the work is done there is no room for the next stage, and all of it is
// killed between the two; once there is room, the next stage begins.
func TestAnIssueBecomesWorkStageByStage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"pushd.yaml": storySettings, "agent.yaml": storyAgent, "secret": "pushd-test-secret\n", "claude": storyCLI} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	if err := exec.Command("mkfifo", filepath.Join(dir, "held"), filepath.Join(dir, "shipped")).Run(); err != nil {
		t.Skip("no mkfifo")
	}
	line := []string{"--listen", "127.0.0.1:" + steadyPort(t), "--agent", "agent.yaml"}
	s := &story{t, dir, startIn(t, dir, line...)}
	first := s.gitea()
	require.False(t, first.Deduplicated)
	s.hear("held") // the third run is in work
	_, err := s.d.client().Push(t.Context(), api.Push{ActionID: "in-the-way", MachineID: "agent-1", Type: "deploy", DelayS: api.S(time.Hour)})
	require.NoError(t, err)
	s.d.kill()
	s.d = startIn(t, dir, line...)
	again := s.gitea()
	require.True(t, again.Deduplicated)
	require.Equal(t, first.Actions, again.Actions)

	build := s.settled(first.Actions[0])
	require.Equal(t, 3, build.TransientAttempts)
	require.Equal(t, []string{
		"pushed", "dispatched", "received", "failed", "dispatched", "received", "failed", // 429, twice
		"dispatched", "received", "failed", // the crash, which the agent's journal tells
		"dispatched", "received", "done",
	}, told(build), "%+v", build.Timeline)
	for _, i := range []int{3, 6} {
		wait := build.Timeline[i+1].At.Sub(build.Timeline[i].At.Time)
		require.GreaterOrEqual(t, wait, time.Second, "as Retry-After asked")
	}
	prompt, err := os.ReadFile(filepath.Join(dir, "prompt"))
	require.NoError(t, err)
	require.Equal(t, `say "hi", {{ .route.id }} & <b>é`, string(prompt))

	require.Empty(t, s.links())
	s.d.kill()
	s.d = startIn(t, dir, line...)
	require.Empty(t, s.links())
	_, err = s.d.client().Cancel(t.Context(), "in-the-way")
	require.NoError(t, err)

	require.JSONEq(t, `{"built":"built"}`, s.hear("shipped"))
	links := s.links()
	require.Len(t, links, 1)
	require.Len(t, links[0].Actions, 1)
	deploy := s.settled(links[0].Actions[0])
	require.Equal(t, "deploy", deploy.Type)
	require.Equal(t, "bob-demo-1", deploy.SessionID)
	require.JSONEq(t, `{"built":"built"}`, string(deploy.Result))
	require.Equal(t, build.ActionID, deploy.Labels["pushd.chain_of"])
	require.Equal(t, "untrusted:webhook/gitea", deploy.Labels["pushd.origin"])
	require.Equal(t, []string{"pushed", "dispatched", "received", "done"}, told(deploy), "%+v", deploy.Timeline)
	page, err := s.d.client().Actions(t.Context(), api.ActionFilter{Type: "deploy"})
	require.NoError(t, err)
	require.Len(t, page.Items, 2, "the one, and what was in the way")
}

// links are what the chain rule has made so far.
func (s *story) links() []api.Delivery {
	s.t.Helper()
	page, err := s.d.client().Deliveries(s.t.Context(), "deploy", 10, "")
	require.NoError(s.t, err)
	return page.Items
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
