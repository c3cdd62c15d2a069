package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
	"pushd/server"
	"pushd/server/api"
	"pushd/server/webhook"
)

const hookSecret = "pushd-test-secret"

// routes is a settings file's webhooks; SECRET is hookSecret.
const hookRoutes = `
webhooks:
  keep_body: 4KiB
  routes:
  - id: test
    source: github
    secrets: [env:SECRET]
    machines: ["hook*"]
    when:
      body.skip: {exists: false}
    actions:
    - machine_id: {$from: body.machine_id}
      type: job
      payload: {$from: body.payload, $default: {}}
      labels: {kind: "{{ .body.kind }}"}
      session_id: "{{ .body.session }}"
  - id: again
    source: gitea
    secrets: [env:SECRET]
    dedupe: {on_duplicate: requeue_failed}
    actions:
    - {machine_id: m1, type: build, payload: {n: "{{ .body.n }}"}}
    - {machine_id: m2, type: build}
  - id: open
    source: none
    actions: [{machine_id: m1, type: job}]
  - id: slack
    source: slack
    secrets: [env:SECRET]
    when: {body.skip: {exists: false}}
    actions: [{machine_id: m1, type: job}]
  - {id: token, source: token, secrets: [env:SECRET], actions: [{machine_id: m1, type: job}]}
  - {id: gitlab, source: gitlab, secrets: [env:SECRET], actions: [{machine_id: m1, type: job}]}
`

// hooked is a rig with webhook routes.
type hooked struct {
	*rig
	set *webhook.Set
}

func startHooked(t *testing.T, routes string, o options) *hooked {
	t.Helper()
	set, err := webhook.Load([]byte(routes), webhook.Env{
		Getenv: func(string) string { return hookSecret }, ReadFile: os.ReadFile,
	})
	require.NoError(t, err)
	var bell *server.Bell
	o.deps = func(d *server.Deps, s *boltstore.Store) {
		bell = server.NewBell()
		require.NoError(t, s.Follow(t.Context(), server.FollowingOf(set)))
		d.Webhooks = server.Webhooks{Set: set, Inbox: s, Bell: bell}
		if o.inbox != nil {
			d.Webhooks.Inbox = o.inbox(s)
		}
	}
	return &hooked{start(t, o), set}
}

// deliver sends a body as the route's sender would.
func (h *hooked) deliver(route, body, id string, headers ...string) answer {
	h.t.Helper()
	s := h.set.Find(route).Sign([]byte(body), "push", id, false, time.Now())
	var lines []string
	for name := range s.Header {
		lines = append(lines, name+": "+s.Header.Get(name))
	}
	return h.call("POST", "/webhooks/"+route, string(s.Body), append(lines, headers...)...)
}

func (h *hooked) taken(a answer) api.Taken {
	h.t.Helper()
	require.Equal(h.t, 202, a.status, "%s", a.body)
	var out api.Taken
	decodeInto(h.t, a.body, &out)
	require.NotEmpty(h.t, out.Actions)
	return out
}

func decodeInto(t *testing.T, raw []byte, out any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, out), "%s", raw)
}

func good(extra string) string {
	return `{"machine_id":"hookbox","kind":"k","session":"","payload":{"n":1.0}` + extra + `}`
}

func TestADeliveryBecomesAnAction(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{})
	got := h.taken(h.deliver("test", good(""), "d1"))
	require.False(t, got.Deduplicated)
	var record api.Record
	h.want(200, "GET", "/v1/actions/"+got.Actions[0], nil, &record)
	require.Equal(t, "hookbox", record.MachineID)
	require.JSONEq(t, `{"n":1.0}`, string(record.Payload))
	require.Equal(t, map[string]string{"kind": "k", "pushd.origin": "untrusted:webhook/test", "pushd.delivery": "d1"}, record.Labels)
	var page api.List[api.Delivery]
	h.want(200, "GET", "/v1/webhooks/test/deliveries", nil, &page)
	require.Len(t, page.Items, 1)
	d := page.Items[0]
	require.Equal(t, "queued", d.Verdict)
	require.Equal(t, "push", d.Event)
	require.Equal(t, 0, *d.Secret)
	require.Equal(t, got.Actions, d.Actions)
	require.NotContains(t, fmt.Sprint(d.Headers), "sha256=")
	h.want(200, "GET", "/v1/webhooks/test/deliveries/"+d.ID, nil, &d)
	require.JSONEq(t, good(""), string(d.Body))
}

// WH-01: the same delivery thrice, then twenty at once, is one action.
func TestTheSameDeliveryTwiceIsOneAction(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{})
	first := h.taken(h.deliver("test", good(""), "d1"))
	again := h.taken(h.deliver("test", good(`,"x":1`), "d1"))
	require.True(t, again.Deduplicated)
	require.Equal(t, first.Actions, again.Actions)
	h.taken(h.deliver("test", good(`,"skip":1`), "d1")) // whatever the route makes of it now
	h.taken(h.deliver("test", `{"machine_id":"hookbox"}`, "d1"))
	var all sync.WaitGroup
	ids := make([]string, 20)
	for i := range ids {
		all.Go(func() { ids[i] = h.taken(h.deliver("test", good(""), "d2")).Actions[0] })
	}
	all.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	var list api.List[api.Record]
	h.want(200, "GET", "/v1/actions?machine_id=hookbox", nil, &list)
	require.Len(t, list.Items, 2)
}

// WH-03: the signature is over the bytes as they came.
func TestTheSignatureIsOverTheBytes(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{})
	body := `{"machine_id":"hookbox",  "payload":{"num": 1.0, "big": 12345678901234567890, "h":"<&>"}, "kind":"", "session":""}` + "\n"
	s := h.set.Find("test").Sign([]byte(body), "push", "d1", false, time.Now())
	sig := "X-Hub-Signature-256: " + s.Header.Get("X-Hub-Signature-256")
	require.Equal(t, 202, h.call("POST", "/webhooks/test", body, sig).status)
	a := h.want(401, "POST", "/webhooks/test", strings.ReplaceAll(body, " ", ""), nil, sig)
	require.NotContains(t, string(a.body), s.Header.Get("X-Hub-Signature-256")[len("sha256="):])
	require.NotContains(t, h.log.String(), hookSecret)
	var routes api.List[api.Webhook]
	h.want(200, "GET", "/v1/webhooks", nil, &routes)
	require.Equal(t, 1, routes.Items[0].Counts["refused"])
	require.Equal(t, "the signature is not right", routes.Items[0].LastRefusal.Why)
	require.False(t, routes.Items[0].Secrets[0].LastUsedAt.IsZero())
}

func TestWhatIsAnsweredToWhom(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{rules: func() ackstore.Rules {
		r := rules()
		r.MaxQueued = 1
		return r
	}})
	h.want(404, "POST", "/webhooks/none", "{}", nil)
	h.want(401, "POST", "/webhooks/test", "{}", nil)
	plain := h.want(415, "POST", "/webhooks/test", "{}", nil, "Content-Type: text/plain")
	require.Contains(t, string(plain.body), `its Content-Type is \"text/plain\", its Content-Encoding none`)
	h.want(415, "POST", "/webhooks/test", "{}", nil, "Content-Encoding: gzip")
	h.want(405, "GET", "/webhooks/test", nil, nil)
	require.Equal(t, 400, h.deliver("test", `{"machine_id":"hookbox"}`, "").status)
	require.Equal(t, 400, h.deliver("test", `{"a":1,"a":2}`, "").status)
	require.Equal(t, 400, h.deliver("test", `{"machine_id":"win-1","kind":"","session":""}`, "").status)
	a := h.deliver("test", `{"skip":true}`, "")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"actions":[]}`, string(a.body))
	a = h.deliver("test", `{"zen":"x"}`, "", "X-GitHub-Event: ping")
	require.Equal(t, 200, a.status)
	a = h.deliver("slack", `{"type":"url_verification","challenge":"abc"}`, "")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"challenge":"abc"}`, string(a.body))
	require.Equal(t, 202, h.deliver("test", good(""), "").status)
	require.Equal(t, 429, h.deliver("test", good(""), "").status)
	// What another site makes a browser send is refused only where nothing is signed.
	require.Equal(t, 202, h.call("POST", "/webhooks/open", "{}").status)
	h.want(403, "POST", "/webhooks/open", "{}", nil, "Sec-Fetch-Site: cross-site")
	var page api.List[api.Delivery]
	h.want(200, "GET", "/v1/webhooks/test/deliveries?limit=2", nil, &page)
	require.Equal(t, "queued", page.Items[0].Verdict)
	require.Equal(t, "filtered", page.Items[1].Verdict)
	h.want(200, "GET", "/v1/webhooks/test/deliveries?cursor="+page.NextCursor, nil, &page)
	require.Equal(t, "failed", page.Items[0].Verdict)
	require.Contains(t, page.Items[0].Detail, "not among the route's machines")
}

// What Slack's users type and click is answered as Slack wants: 200 and no word.
func TestSlackIsAnsweredWithoutAWord(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{})
	silent := func(body string, verdict string) {
		a := h.slack(body)
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Empty(t, a.body)
		var page api.List[api.Webhook]
		h.want(200, "GET", "/v1/webhooks", nil, &page)
		for _, w := range page.Items {
			if w.Route == "slack" {
				require.Equal(t, 1, w.Counts[verdict], "%s: %v", body, w.Counts)
			}
		}
	}
	silent("command=%2Fdeploy&text=now&trigger_id=1.2", "queued")
	silent("command=%2Fdeploy&text=now&trigger_id=1.2", "duplicate")
	silent("ssl_check=1&token=x", "greeted")
	silent("payload="+url.QueryEscape(`{"type":"block_actions","trigger_id":"1.3","skip":1}`), "filtered")
	require.Equal(t, 400, h.slack("payload=x").status, "who typed shall see that it did not work")
	a := h.deliver("slack", `{"type":"event_callback","event_id":"Ev1"}`, "")
	require.Equal(t, 202, a.status, "an event is no form")
}

// slack delivers a form, signed.
func (h *hooked) slack(form string) answer {
	h.t.Helper()
	s := h.set.Find("slack").Sign([]byte(form), "", "", false, time.Now())
	lines := []string{"Content-Type: application/x-www-form-urlencoded"}
	for name := range s.Header {
		if name != "Content-Type" {
			lines = append(lines, name+": "+s.Header.Get(name))
		}
	}
	return h.call("POST", "/webhooks/slack", form, lines...)
}

// A flood of bad signatures leaves nothing on disk or in the log, holds up nobody,
// and what it announces costs nothing.
func TestAFloodOfBadSignatures(t *testing.T) {
	h := startHooked(t, hookRoutes, options{tokens: map[string][]string{"boss": {"admin"}}, config: func(c *server.Config) { c.MaxTries = 3 }})
	boss := h.as("boss")
	commits := sum(h.scrape(boss), "pushd_store_commits_total")
	wrong := "X-Hub-Signature-256: sha256=00"
	for range 300 {
		h.want(401, "POST", "/webhooks/test", good(""), nil, wrong)
	}
	h.want(401, "POST", "/webhooks/test", strings.Repeat("x", 1<<20), nil, wrong)
	require.Equal(t, 202, h.deliver("test", good(""), "d1").status)
	h.want(401, "GET", "/v1/actions", nil, nil, "Authorization: Bearer none") // not 429
	var page api.List[api.Delivery]
	h.want(200, "GET", "/v1/webhooks/test/deliveries", nil, &page, boss)
	require.Len(t, page.Items, 1)
	require.Equal(t, commits+1, sum(h.scrape(boss), "pushd_store_commits_total"))
	for line := range strings.Lines(h.log.String()) {
		require.Contains(t, line, `"level":"debug"`)
	}

	// Without a signature, or with a token that is none, the body is not even read.
	for route, headers := range map[string]string{"test": "", "token": "Authorization: Bearer pushd-test-secreT\r\n", "gitlab": "X-Gitlab-Token: pushd-test-secreT\r\n"} {
		require.Equal(t, "HTTP/1.1 401 Unauthorized\r\n", h.announce(route, headers), route)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 200 { // each waits for a mebibyte that does not come
		require.Equal(t, "HTTP/1.1 100 Continue\r\n", h.announce("test", wrong+"\r\n"))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(64<<20))
}

// announce says that a mebibyte will come, and returns the first line of the answer:
// the server asks for the body when it begins to read it.
func (h *hooked) announce(route, headers string) string {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /webhooks/%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n%s\r\n", route, h.addr, 1<<20, headers)
	require.NoError(h.t, err)
	require.NoError(h.t, conn.SetReadDeadline(time.Now().Add(patience)))
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(h.t, err)
	return line
}

// fullDisk is an inbox that cannot write.
type fullDisk struct{ server.Inbox }

func (fullDisk) Receive(context.Context, ackstore.Rules, time.Duration, []ackstore.Receipt) ([]ackstore.Received, error) {
	return nil, ackstore.ErrUnavailable
}

func TestAStoreThatCannotWriteIsNo2xx(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{inbox: func(i server.Inbox) server.Inbox { return fullDisk{i} }})
	for _, body := range []string{good(""), `{"skip":1}`, `{"a":1,"a":2}`} {
		a := h.deliver("test", body, "")
		require.Equal(t, 503, a.status, "%s", a.body)
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
}

func TestAServerThatStopsTakesNothing(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{})
	h.stop()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		s := h.set.Find("open").Sign([]byte("{}"), "", "", false, time.Now())
		resp, err := http.Post("http://"+h.addr+"/webhooks/open", "application/json", bytes.NewReader(s.Body))
		if err != nil {
			return // it has ended: no answer is no 2xx
		}
		require.NoError(t, resp.Body.Close())
		if resp.StatusCode == 503 {
			require.NotEmpty(t, resp.Header.Get("Retry-After"))
			return
		}
	}
}

func TestAnOperatorsCancelIsNoFaultOfTheSender(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{})
	body := strings.Replace(good(""), `"session":""`, `"session":"s1"`, 1)
	h.taken(h.deliver("test", body, ""))
	h.want(200, "POST", "/v1/sessions/s1/cancel", map[string]any{}, nil)
	a := h.deliver("test", body, "")
	require.Equal(t, 200, a.status, "%s", a.body)
	var page api.List[api.Delivery]
	h.want(200, "GET", "/v1/webhooks/test/deliveries?limit=1", nil, &page)
	require.Equal(t, "closed", page.Items[0].Verdict)
}

func TestADeliveryCanBeReplayedAndTried(t *testing.T) {
	t.Parallel()
	h := startHooked(t, hookRoutes, options{tokens: map[string][]string{"boss": {"admin"}, "part": {"read:m*", "operate:m*"}}})
	boss, part := h.as("boss"), h.as("part")
	first := h.taken(h.deliver("again", `{"n":1}`, "d1"))
	var page api.List[api.Delivery]
	h.want(200, "GET", "/v1/webhooks/again/deliveries", nil, &page, boss)
	at := "/v1/webhooks/again/deliveries/" + page.Items[0].ID
	var replayed api.Delivery
	h.want(200, "POST", at+"/replay", map[string]any{}, &replayed, boss)
	require.Len(t, replayed.Actions, 2)
	require.NotEqual(t, first.Actions, replayed.Actions)
	require.Equal(t, page.Items[0].ID, replayed.ReplayOf)
	require.Equal(t, first.Actions, h.taken(h.deliver("again", `{"n":1}`, "d1")).Actions, "a replay takes nobody's place")

	var trial api.Trial
	h.want(200, "POST", "/v1/webhooks/again/test", map[string]any{"body": map[string]any{"n": 5}}, &trial, boss)
	require.True(t, trial.Matched)
	require.JSONEq(t, `{"machine_id":"m1","type":"build","payload":{"n":"5"}}`, string(trial.Actions[0]))
	h.want(200, "POST", "/v1/webhooks/again/test", map[string]any{"body": 1}, &trial, boss)
	require.NotEmpty(t, trial.Error)
	h.want(400, "POST", "/v1/webhooks/again/test", map[string]any{}, nil, boss)
	var list api.List[api.Record]
	h.want(200, "GET", "/v1/actions", nil, &list, boss)
	require.Len(t, list.Items, 4, "a trial enqueues nothing")

	h.want(404, "GET", "/v1/webhooks/test/deliveries/"+page.Items[0].ID, nil, nil, boss)
	h.want(404, "GET", "/v1/webhooks/again/deliveries/x", nil, nil, boss)
	h.taken(h.deliver("again", `{"n":1,"long":"`+strings.Repeat("x", 5<<10)+`"}`, "d2"))
	h.want(200, "GET", "/v1/webhooks/again/deliveries?limit=1", nil, &page, boss)
	require.True(t, page.Items[0].BodyCut)
	h.want(409, "POST", "/v1/webhooks/again/deliveries/"+page.Items[0].ID+"/replay", map[string]any{}, nil, boss)
	h.want(403, "GET", "/v1/webhooks", nil, nil, part)
	h.want(403, "POST", at+"/replay", map[string]any{}, nil, part)
}

// Malicious input is answered clearly, and memory stays flat.
func TestMaliciousDeliveries(t *testing.T) {
	h := startHooked(t, hookRoutes, options{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	req, err := http.NewRequest("POST", "http://"+h.addr+"/webhooks/open", &endless{left: 100 << 20})
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil { // the server may have hung up before it was all sent
		require.Equal(t, 413, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	h.want(413, "POST", "/webhooks/open", strings.Repeat("x", 2<<20), nil)
	h.want(400, "POST", "/webhooks/open", strings.Repeat("[", 10000)+strings.Repeat("]", 10000), nil)
	h.want(400, "POST", "/webhooks/open", `{"a":1,"a":2}`, nil)
	h.want(415, "POST", "/webhooks/open", "{}", nil, "Content-Type: application/json; charset=utf-16")
	h.want(415, "POST", "/webhooks/open", "\x1f\x8b\x08", nil, "Content-Encoding: gzip")
	require.Contains(t, []int{431, 202}, h.call("POST", "/webhooks/open", "{}", "X-Big: "+strings.Repeat("x", 64<<10)).status)
	runtime.GC()
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(32<<20))
}

// endless is a body of spaces.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	n := min(len(p), e.left)
	for i := range n {
		p[i] = ' '
	}
	if e.left -= n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
