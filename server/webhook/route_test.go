package webhook_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/webhook"
)

func open(t testing.TB, r *webhook.Route, header map[string]string, body string) *webhook.Opened {
	t.Helper()
	h := http.Header{"Content-Type": {"application/json"}}
	for name, value := range header {
		h.Set(name, value)
	}
	o, err := r.Open(h, []byte(body), time.Now())
	require.NoError(t, err)
	return o
}

const issue = `{"action":"created","a.b":{"c":1},"n":12345678901234567890,"f":1.0,"nil":null,
	"repository":{"full_name":"acme/demo"},"issue":{"number":7,"title":"say \"hi\", {{ .route.id }}\n"},
	"labels":[{"name":"run"},{"name":"now"}],"sender":{"type":"User"},"comment":{"body":"/run all"}}`

func TestWhen(t *testing.T) {
	for when, want := range map[string]bool{
		`{body.action: created}`:                                    true,
		`{body.action: [opened, created]}`:                          true,
		`{body.action: opened}`:                                     false,
		`{body.action: null}`:                                       false,
		`{body.nil: null, body.none: null}`:                         true,
		`{body.comment.body: {prefix: "/run "}}`:                    true,
		`{body.comment.body: {prefix: "/run ", suffix: one}}`:       false,
		`{body.comment.body: {contains: all, glob: "/r?n *"}}`:      true,
		`{body.comment.body: {regex: "^/(run|walk)"}}`:              true,
		`{body.comment.body: [{prefix: x}, {suffix: all}]}`:         true,
		`{body.issue.number: 7, body.f: 1.0}`:                       true,
		`{body.n: 12345678901234567890}`:                            true,
		`{body.a.b.c: 1}`:                                           true,
		`{body.labels.1.name: now}`:                                 true,
		`{body.labels.2.name: {exists: false}}`:                     true,
		`{body.labels: {exists: true}, body.labels.name: {is: x}}`:  false,
		`{not: {body.sender.type: Bot}}`:                            true,
		`{not: {body.sender.type: User, body.action: created}}`:     false,
		`{any: [{body.action: x}, {header.x-event: push}]}`:         true,
		`{all: [{body.action: created}, {header.X-EVENT: issues}]}`: false,
		`{header.Authorization: {exists: true}}`:                    false,
		`{route.id: r, route.team: a}`:                              true,
	} {
		t.Run(when, func(t *testing.T) {
			r, err := load(t, "none", nil, "set: {team: a}", "when: "+when)
			require.NoError(t, err)
			o := open(t, r, map[string]string{"X-Event": "push", "Authorization": "Bearer x"}, issue)
			require.Equal(t, want, r.Matches(o.Message))
		})
	}
}

func render(t testing.TB, body string, lines ...string) (map[string]any, error) {
	t.Helper()
	r, err := load(t, "none", nil, lines...)
	require.NoError(t, err)
	all, err := r.Render(open(t, r, nil, body).Message)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	d := json.NewDecoder(strings.NewReader(string(all[0])))
	d.UseNumber()
	require.NoError(t, d.Decode(&out), "%s", all[0])
	return out, nil
}

func TestTemplatesFillLeaves(t *testing.T) {
	for leaf, want := range map[string]any{
		`"Issue {{ .body.issue.title }}"`:                    "Issue say \"hi\", {{ .route.id }}\n",
		`"{{ .body.issue.title | trunc 3 }}"`:                "say",
		`"{{ .body.n }} {{ .body.f }} {{ .body.nil }}"`:      "12345678901234567890 1.0 ",
		`"{{ join \",\" .body.labels \"name\" }}"`:           "run,now",
		`"{{ if has \"issue.number\" .body }}yes{{ end }}"`:  "yes",
		`"{{ .body.nil | default \"none\" | upper }}"`:       "NONE",
		`"{{ json .body.labels }}"`:                          `[{"name":"run"},{"name":"now"}]`,
		`"{{ id .body.repository.full_name }}"`:              "acme-demo",
		`"{{ base .body.repository.full_name }}"`:            "demo",
		`"{{ index .body \"a.b\" \"c\" }}"`:                  "1",
		`"{{ .header.Get \"x-event\" }}"`:                    "",
		`{a: [1, true, null, x], b: {c: "{{ .route.id }}"}}`: map[string]any{"a": []any{json.Number("1"), true, nil, "x"}, "b": map[string]any{"c": "r"}},
		`{$from: body.n}`:                                    json.Number("12345678901234567890"),
		`{$from: body.labels.0}`:                             map[string]any{"name": "run"},
		`{$from: body.none, $default: [1]}`:                  []any{json.Number("1")},
		`{$from: body.nil}`:                                  nil,
	} {
		t.Run(leaf, func(t *testing.T) {
			out, err := render(t, issue, "actions: [{machine_id: m1, type: job, payload: "+leaf+"}]")
			require.NoError(t, err)
			require.Equal(t, want, out["payload"])
		})
	}
}

func TestOptionsAreFitted(t *testing.T) {
	out, err := render(t, issue, `machines: [m*]`, `actions:
- machine_id: "m{{ .body.issue.number }}"
  session_id: "gh-{{ .body.repository.full_name }}-{{ .body.issue.number }}"
  replay_id: "{{ .body.nil }}"
  type: job
  priority: "{{ .body.issue.number }}"
  labels: {repo: "{{ .body.repository.full_name }}"}`)
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"machine_id": "m7", "session_id": "gh-acme-demo-7", "type": "job", "priority": json.Number("7"),
		"labels": map[string]any{"repo": "acme/demo"},
	}, out)
}

// What is no number stays one string, whatever stands in it.
func TestANumberCannotInject(t *testing.T) {
	for text, want := range map[string]any{
		`5`: json.Number("5"), `1.5`: json.Number("1.5"), `1,"machine_id":"evil"`: `1,"machine_id":"evil"`, `1e9`: "1e9", `05`: "05",
	} {
		body, err := json.Marshal(map[string]string{"p": text})
		require.NoError(t, err)
		out, err := render(t, string(body), `actions: [{machine_id: m1, type: job, priority: "{{ .body.p }}"}]`)
		require.NoError(t, err)
		require.Equal(t, map[string]any{"machine_id": "m1", "type": "job", "priority": want}, out)
	}
}

func TestWhatCannotBeFilledIsSaid(t *testing.T) {
	for leaf, why := range map[string]string{
		`"{{ .body.none }}"`:                        `map has no entry for key "none"`,
		`"{{ .body.issue.none.deeper }}"`:           `map has no entry for key "none"`,
		`{$from: body.none}`:                        "there is nothing at body.none",
		`"{{ replace \"a\" \"b\" }}"`:               "",
		`"{{ index .body.labels 9 }}"`:              "",
		`"{{ join \"x\" .body.action }}"`:           "join",
		`"{{ .body.big }}{{ .body.big }}"`:          "longer than",
		`"{{ .body.issue.title.x }}"`:               "can't evaluate field x",
		`"{{ replace \"x\" .body.big .body.big }}"`: "too much",
	} {
		t.Run(leaf, func(t *testing.T) {
			body := strings.Replace(issue, `"a.b"`, `"big":"`+strings.Repeat("x", 200<<10)+`","a.b"`, 1)
			_, err := render(t, body, "actions: [{machine_id: m1, type: job, payload: {x: ["+leaf+"]}}]")
			var bad *webhook.RenderError
			require.True(t, errors.As(err, &bad), "%v", err)
			require.Equal(t, "actions[0].payload.x[0]", bad.Leaf)
			require.Contains(t, bad.Why, why)
			require.Less(t, len(bad.Why), 300)
		})
	}
}

// A machine that a stranger's body names must be one the route lets it name.
func TestMachinesComeFromTheAllowList(t *testing.T) {
	_, err := load(t, "none", nil, `actions: [{machine_id: "{{ .body.m }}", type: job}]`)
	require.ErrorContains(t, err, "machines must list")
	lines := []string{"machines: [hook*, win-1]", `actions: [{machine_id: {$from: body.m}, type: job}]`}
	for id, ok := range map[string]bool{"hookbox": true, "win-1": true, "win-2": false, "": false, "x hookbox": false} {
		_, err := render(t, `{"m":"`+id+`"}`, lines...)
		require.Equal(t, ok, err == nil, "%q: %v", id, err)
	}
}

func TestRoutesAreRead(t *testing.T) {
	good := "source: none\nactions: [{machine_id: m, type: t}]"
	for lines, want := range map[string]string{
		"source: githib\nactions: [{machine_id: m, type: t}]":                                        "is none of",
		"source: github\nactions: [{machine_id: m, type: t}]":                                        "needs secrets",
		"source: github\nsecrets: [env:NONE]\nactions: [{machine_id: m, type: t}]":                   "NONE is empty",
		"source: github\nsecrets: [env:SHORT]\nactions: [{machine_id: m, type: t}]":                  "shorter than 16",
		"source: github\nsecrets: [file:/no]\nactions: [{machine_id: m, type: t}]":                   "secrets[0]: open /no",
		"source: github\nsecrets: [pushd-plain]\nactions: [{machine_id: m, type: t}]":                "env:NAME or file:PATH",
		"source: standard\nsecrets: [env:SHORT]\nactions: [{machine_id: m, type: t}]":                "base64",
		"source: none\nsecrets: [env:SHORT]\nactions: [{machine_id: m, type: t}]":                    "has no secrets",
		"source: hmac\nsecrets: [env:LONG]\nactions: [{machine_id: m, type: t}]":                     "hmac.header is required",
		good + "\nhmac: {header: X}":                                                                 "for source hmac only",
		good + "\nwen: {}":                                                                           "field wen not found",
		good + "\nwhen: {bdy.x: 1}":                                                                  "is no path",
		good + "\nwhen: {body.x: {rex: 1}}":                                                          "is no test",
		good + "\nwhen: {body.x: {regex: (}}":                                                        "RE2",
		good + "\nmax_body: 26MiB":                                                                   "25MiB",
		good + "\nmax_body: lots":                                                                    "is no size",
		good + "\ndedupe: {ttl: 5}":                                                                  "is no duration",
		good + "\ndedupe: {key: id}":                                                                 "dedupe.key",
		good + "\ndedupe: {on_duplicate: x}":                                                         "on_duplicate",
		"source: none":                                                                               "actions must be a list",
		"source: none\nactions: [{type: t}]":                                                         "machine_id is required",
		"source: none\nactions: [{machine_id: m, type: t, action_id: x}]":                            "is no field",
		"source: none\nactions: [{machine_id: m, type: t, payload: \"{{ range .body }}{{ end }}\"}]": "range is not",
		"source: none\nactions: [{machine_id: m, type: t, payload: \"{{ printf .body.x }}\"}]":       "printf is not",
		"source: none\nactions: [{machine_id: m, type: t, payload: \"{{ env }}\"}]":                  "not defined",
		"source: none\nactions: [{machine_id: m, type: t, payload: {$from: x}}]":                     "is no path",
		"source: none\nactions: [{machine_id: m, type: t, payload: {$from: body, x: 1}}]":            "stands beside",
		"source: settled\nwhen: {action.state: queued}\nactions: [{machine_id: m, type: t}]":         "is no end",
	} {
		file := "webhooks:\n  routes:\n  - id: r\n    " + strings.ReplaceAll(lines, "\n", "\n    ")
		_, err := webhook.Load([]byte(file), webhook.Env{
			Getenv: func(name string) string {
				return map[string]string{"SHORT": "s3cret", "LONG": "0123456789abcdef"}[name]
			},
			ReadFile: os.ReadFile,
		})
		require.ErrorContains(t, err, want, lines)
		require.NotContains(t, err.Error(), "s3cret")
		require.NotContains(t, err.Error(), "pushd-plain")
		require.NotContains(t, err.Error(), "\n")
	}
	for _, file := range []string{"", "listen: x\n", "webhooks:\n", "webhooks: {routes: []}\nalerts: {x: [1]}\n"} {
		set, err := webhook.Load([]byte(file), webhook.Env{})
		require.NoError(t, err, file)
		require.Empty(t, set.Routes)
		require.Equal(t, 72*time.Hour, set.Keep)
	}
}

// CF-03: a secret file made by hand ends in a newline.
func TestASecretFilesNewlineIsNoPartOfIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("pushd-test-secret\n"), 0o600))
	doc := "webhooks:\n  routes:\n  - {id: r, source: github, secrets: ['file:" + file + "'], actions: [{machine_id: m, type: t}]}\n"
	set, err := webhook.Load([]byte(doc), webhook.Env{Getenv: os.Getenv, ReadFile: os.ReadFile})
	require.NoError(t, err)
	v := vectors(t, "vectors.json")[5]
	require.Equal(t, "github_json", v.Name)
	h := http.Header{"Content-Type": {"application/json"}}
	h.Set("X-Hub-Signature-256", v.Headers["X-Hub-Signature-256"])
	_, err = set.Routes[0].Open(h, []byte(v.Body), time.Now())
	require.NoError(t, err)
}

func TestBodiesThatNobodyMeans(t *testing.T) {
	r, err := load(t, "none", nil)
	require.NoError(t, err)
	for body, why := range map[string]string{
		strings.Repeat("[", 10000) + strings.Repeat("]", 10000): "deeper",
		`{"a":1,"a":2}`:          "twice",
		`{"a":1}{`:               "behind",
		`{"a":"` + "\xff" + `"}`: "UTF-8",
		``:                       "not JSON",
		`{"a"`:                   "not JSON",
	} {
		_, err := r.Open(http.Header{"Content-Type": {"application/json"}}, []byte(body), time.Now())
		var bad *webhook.BadBodyError
		require.True(t, errors.As(err, &bad), "%.20s: %v", body, err)
		require.Contains(t, bad.Why, why)
	}
	for _, kind := range []string{"", "text/plain", "multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/xml"} {
		_, err := r.Open(http.Header{"Content-Type": {kind}}, []byte("{}"), time.Now())
		require.ErrorIs(t, err, webhook.ErrMedia, kind)
	}
	_, err = r.Open(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, []byte("{}"), time.Now())
	require.ErrorIs(t, err, webhook.ErrMedia)
}

// The legacy header counts only where a route says so, and never beside a wrong new one.
func TestSHA1IsTakenOnlyWhereARouteSaysSo(t *testing.T) {
	v := vectors(t, "vectors.json")[5]
	h := http.Header{"Content-Type": {"application/json"}, "X-Hub-Signature": {v.Headers["X-Hub-Signature"]}}
	r, err := load(t, "github", []string{v.Secret}, "allow_sha1: true")
	require.NoError(t, err)
	_, err = r.Open(h, []byte(v.Body), time.Now())
	require.NoError(t, err)
	h.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
	_, err = r.Open(h, []byte(v.Body), time.Now())
	require.ErrorIs(t, err, webhook.ErrMismatch)
	_, err = load(t, "jira", []string{v.Secret}, "allow_sha1: true")
	require.Error(t, err)
}

// The largest body that is taken costs no more than a moment, whatever is in it.
func TestRenderingIsBounded(t *testing.T) {
	item := `{"name":"` + strings.Repeat("x", 80) + `"},`
	body := `{"list":[` + strings.Repeat(item, 10_000) + `{"name":"y"}],"deep":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100) + `}`
	r, err := load(t, "none", nil, `when:
  body.list: {exists: true}
  not: {body.list.9999.name: {regex: "(x+)+y$"}}
actions:
- machine_id: m1
  type: job
  payload:
    a: "{{ join \",\" .body.list \"name\" | trunc 100 }}"
    b: {$from: body.list.9999}`)
	require.NoError(t, err)
	o := open(t, r, nil, body)
	began := time.Now()
	require.True(t, r.Matches(o.Message))
	_, err = r.Render(o.Message)
	var tooLong *webhook.RenderError
	require.True(t, errors.As(err, &tooLong), "%v", err)
	require.Less(t, time.Since(began), 2*time.Second)
}

func TestHeadersThatHoldSecretsAreNotKept(t *testing.T) {
	r, err := load(t, "token", []string{"pushd-test-secret"}, "token: {header: X-Door}")
	require.NoError(t, err)
	o := open(t, r, map[string]string{"X-Door": "pushd-test-secret", "Cookie": "a", "X-Api-Key": "b", "X-Gitlab-Token": "c", "X-Event": "push"}, "{}")
	require.Equal(t, webhook.Headers{"Content-Type": "application/json", "X-Event": "push"}, o.Headers)
}
