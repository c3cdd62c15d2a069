package web_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/webhook"
)

const hookSecret = "the secret of the page's tests"

const hookRoutes = `
webhooks:
  routes:
  - id: ci
    source: github
    secrets: [env:PUSHD_TEST_HOOK, env:PUSHD_TEST_HOOK_OLD]
    when: {body.skip: {exists: false}}
    actions:
    - {machine_id: build-1, type: build, payload: {ref: {$from: body.ref}}, labels: {by: "{{ .body.who }}"}}
  - id: shop
    source: gitea
    secrets: [env:PUSHD_TEST_HOOK]
    actions: [{machine_id: till-1, type: receipt}]
`

// hooks are routes of a server, and what their senders know.
type hooks struct {
	*server
	set *webhook.Set
}

func serveHooks(t *testing.T, set ...string) *hooks {
	t.Helper()
	t.Setenv("PUSHD_TEST_HOOK", hookSecret)
	t.Setenv("PUSHD_TEST_HOOK_OLD", "what it was before, long ago")
	file := filepath.Join(t.TempDir(), "pushd.yaml")
	require.NoError(t, os.WriteFile(file, []byte(hookRoutes), 0o600))
	routes, err := webhook.Load([]byte(hookRoutes), webhook.Env{Getenv: os.Getenv, ReadFile: os.ReadFile})
	require.NoError(t, err)
	return &hooks{serveFile(t, file, set...), routes}
}

// deliver sends a body as a route's sender would, and requires an answer.
func (h *hooks) deliver(t *testing.T, status int, route, id, body string, change func(*http.Request)) {
	t.Helper()
	signed := h.set.Find(route).Sign([]byte(body), "push", id, false, time.Now())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base+"/webhooks/"+route, bytes.NewReader(signed.Body))
	require.NoError(t, err)
	req.Header = signed.Header.Clone()
	if change != nil {
		change(req)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, "%s", raw)
}

// all are deliveries of every fate: taken, taken twice, filtered, badly signed, and
// one of which no action can be made.
func (h *hooks) all(t *testing.T) {
	t.Helper()
	good := `{"ref":"refs/heads/main","who":"ada","big":12345678901234567890}`
	h.deliver(t, http.StatusAccepted, "ci", "accepted-1", good, nil)
	h.deliver(t, http.StatusAccepted, "ci", "accepted-1", good, nil)
	h.deliver(t, http.StatusOK, "ci", "filtered-1", `{"skip":true,"ref":"x"}`, nil)
	h.deliver(t, http.StatusBadRequest, "ci", "failed-1", `{"who":"\u05e9\u05dc\u05d5\u05dd"}`, nil)
	h.deliver(t, http.StatusUnauthorized, "ci", "forged-1", good, func(r *http.Request) {
		r.Header.Set("X-Hub-Signature-256", "sha256=00")
	})
}

func TestDeliveriesOfEveryFateAreToldReplayedAndTried(t *testing.T) {
	h := serveHooks(t)
	b := visitor(t, h.server)
	b.open("/ui/webhooks")
	b.live()
	b.see("never used")
	b.see("Nothing has come since the server’s start.")
	b.click("ci")
	b.see("No delivery is kept.")
	same := b.stays()
	h.all(t)
	fate := func(id, word string) {
		t.Helper()
		b.wait(`[...document.querySelectorAll('.hook .rows li')].some(l => l.innerText.includes('` + id + `') && l.innerText.includes('` + word + `'))`)
	}
	fate("accepted-1", "repeated ×1")
	fate("accepted-1", "accepted")
	fate("filtered-1", "filtered out")
	fate("failed-1", "body.ref") // what is missing is named
	b.see("Last refused")
	b.see("1 refused")
	require.False(t, js[bool](b, `document.body.innerText.includes('forged-1')`), "a stranger leaves nothing behind")
	b.click("accepted-1")
	b.see("12345678901234567890") // no digit is lost
	b.see("X-Github-Event")

	replay := `[...document.querySelectorAll('.hook .rows li')].find(l => l.innerText.includes('accepted-1')).querySelector('button')`
	js[bool](b, replay+`.click() ?? true`)
	b.see("what was done may be done twice")
	b.click("Replay the delivery")
	b.see("Made 1 action(s).")
	b.see("replay of 1")
	q, err := h.client().Queue(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, q.Counts["queued"])

	try := func(body, said string) {
		t.Helper()
		js[bool](b, `(() => { const i = document.querySelector('dialog textarea[name=body]'); i.value = '`+body+`'; i.dispatchEvent(new Event('input', {bubbles: true})); return true })()`)
		b.click("Try it")
		b.see(said)
	}
	b.click("Try a delivery…")
	try(`{"ref":"refs/heads/next","who":"ada"}`, "refs/heads/next")
	b.see("It makes 1 action(s)")
	try(`{"skip":1}`, "it is filtered out")
	try(`{}`, "body.ref")
	b.click("Leave it")
	q, err = h.client().Queue(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, q.Counts["queued"], "a trial queues nothing")
	same()
	b.clean()
}
