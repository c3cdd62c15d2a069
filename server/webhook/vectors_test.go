package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/webhook"
)

// vector is one signature case; testdata holds them as data, for others too.
type vector struct {
	Name, Origin, Source, Secret, Body, Why string
	Secrets                                 []string
	ContentType                             string `json:"content_type"`
	Headers                                 map[string]string
	Now                                     int64
	OK                                      bool
}

func vectors(t testing.TB, files ...string) []vector {
	t.Helper()
	var all []vector
	for _, file := range files {
		raw, err := os.ReadFile("testdata/" + file)
		require.NoError(t, err)
		var some []vector
		require.NoError(t, json.Unmarshal(raw, &some))
		all = append(all, some...)
	}
	return all
}

// env gives secrets by number: env:0, env:1.
func env(secrets ...string) webhook.Env {
	return webhook.Env{
		Getenv: func(name string) string {
			for i, s := range secrets {
				if name == fmt.Sprint("S", i) {
					return s
				}
			}
			return ""
		},
		ReadFile: os.ReadFile,
	}
}

// load makes the one route of a test; lines are its further YAML.
func load(t testing.TB, source string, secrets []string, lines ...string) (*webhook.Route, error) {
	t.Helper()
	var refs []string
	for i := range secrets {
		refs = append(refs, fmt.Sprint("env:S", i))
	}
	file := "webhooks:\n  routes:\n  - id: r\n    source: " + source + "\n"
	if len(refs) > 0 {
		file += "    secrets: [" + strings.Join(refs, ", ") + "]\n"
	}
	text := strings.Join(lines, "\n")
	if !strings.Contains(text, "actions:") {
		text += "\nactions: [{machine_id: m1, type: job}]"
	}
	file += "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
	set, err := webhook.Load([]byte(file), env(secrets...))
	if err != nil {
		return nil, err
	}
	return set.Routes[0], nil
}

func TestEachSenderIsVerifiedAsItSigns(t *testing.T) {
	all := vectors(t, "vectors.json", "more.json")
	require.Len(t, vectors(t, "vectors.json"), 25)
	seen := map[string]bool{}
	for _, v := range all {
		seen[v.Source] = true
		t.Run(v.Name, func(t *testing.T) { v.check(t) })
	}
	for _, source := range webhook.Sources() {
		require.True(t, seen[source] || source == webhook.Settled, "no vector of source %s", source)
	}
}

func (v vector) check(t *testing.T) {
	secrets := v.Secrets
	if v.Secret != "" || v.Why == "config" {
		secrets = []string{v.Secret}
	}
	lines := []string{"short_secrets: true"}
	if v.Source == "hmac" {
		lines = append(lines, "hmac: {header: X-Signature}")
	}
	r, err := load(t, v.Source, secrets, lines...)
	if v.Why == "config" {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	h := http.Header{"Content-Type": {"application/json"}}
	if v.ContentType != "" {
		h.Set("Content-Type", v.ContentType)
	}
	for name, value := range v.Headers {
		h.Set(name, value)
	}
	_, err = r.Open(h, []byte(v.Body), time.Unix(v.Now, 0))
	var unread *webhook.BadBodyError // a published vector need not be JSON
	if v.OK {
		require.True(t, err == nil || errors.As(err, &unread), "%v", err)
		require.NoError(t, r.Knock(h))
		return
	}
	want := map[string]error{"missing": webhook.ErrMissing, "mismatch": webhook.ErrMismatch, "timestamp": webhook.ErrTimestamp}[v.Why]
	require.ErrorIs(t, err, want)
}

func TestTheSecretThatMatchedIsTold(t *testing.T) {
	r, err := load(t, "github", []string{"pushd-first-secret", "pushd-second-secret"})
	require.NoError(t, err)
	second, err := load(t, "github", []string{"pushd-second-secret"})
	require.NoError(t, err)
	s := second.Sign([]byte(`{}`), "push", "d1", false, time.Now())
	o, err := r.Open(s.Header, s.Body, time.Now())
	require.NoError(t, err)
	require.Equal(t, 1, o.Secret)
	require.Equal(t, "d1", o.Key)
	require.Equal(t, "push", o.Event)
}

// What we sign, we verify: for every sender, as JSON and as a form.
func TestSignIsTheInverseOfOpen(t *testing.T) {
	for _, source := range webhook.Sources() {
		if source == webhook.Settled {
			continue
		}
		var lines, secrets []string
		switch source {
		case "hmac":
			lines = append(lines, `hmac: {header: X-Sig, prefix: "sha256=", ts_header: X-Ts, template: "{ts}.{body}", encoding: base64}`)
			secrets = []string{"pushd-test-secret"}
		case "standard":
			secrets = []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
		case "none":
		default:
			secrets = []string{"pushd-test-secret"}
		}
		for _, form := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s form=%v", source, form), func(t *testing.T) {
				r, err := load(t, source, secrets, lines...)
				require.NoError(t, err)
				now := time.Unix(1700000000, 0)
				s := r.Sign([]byte(`{"id":"evt_1","n":1.0}`), "push", "d1", form, now)
				o, err := r.Open(s.Header, s.Body, now)
				require.NoError(t, err)
				require.JSONEq(t, `{"id":"evt_1","n":1.0}`, string(o.JSON))
				if source == "none" {
					return
				}
				s.Body = append(s.Body, ' ')
				if source != "token" && source != "gitlab" && !(form && (source == "gitea" || source == "forgejo")) {
					_, err = r.Open(s.Header, s.Body, now)
					require.ErrorIs(t, err, webhook.ErrMismatch)
				}
			})
		}
	}
}

func TestTimeIsLookedAtOnlyBehindAGoodSignature(t *testing.T) {
	r, err := load(t, "stripe", []string{"whsec_test_only_0123456789"})
	require.NoError(t, err)
	h := http.Header{"Content-Type": {"application/json"}, "Stripe-Signature": {"t=1,v1=" + strings.Repeat("0", 64)}}
	_, err = r.Open(h, []byte(`{}`), time.Now())
	require.ErrorIs(t, err, webhook.ErrMismatch)
}

func TestGreetings(t *testing.T) {
	slack, err := load(t, "slack", []string{"pushd-test-secret"})
	require.NoError(t, err)
	now := time.Now()
	s := slack.Sign([]byte(`{"type":"url_verification","challenge":"c<1>"}`), "", "", false, now)
	o, err := slack.Open(s.Header, s.Body, now)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"challenge": "c<1>"}, o.Greeting.Body)

	github, err := load(t, "github", []string{"pushd-test-secret"})
	require.NoError(t, err)
	s = github.Sign([]byte(`{"zen":"x"}`), "ping", "", false, now)
	o, err = github.Open(s.Header, s.Body, now)
	require.NoError(t, err)
	require.NotNil(t, o.Greeting)

	bitbucket, err := load(t, "bitbucket", []string{"pushd-test-secret"})
	require.NoError(t, err)
	h := http.Header{"Content-Type": {"application/json"}, "X-Event-Key": {"diagnostics:ping"}}
	o, err = bitbucket.Open(h, []byte(`{"test":true}`), now)
	require.NoError(t, err)
	require.NotNil(t, o.Greeting)
	h.Set("X-Event-Key", "repo:push")
	_, err = bitbucket.Open(h, []byte(`{"test":true}`), now)
	require.ErrorIs(t, err, webhook.ErrMissing)
}

// A retry of Plane has a new id; what it says is the same.
func TestPlaneIsKnownByItsContent(t *testing.T) {
	r, err := load(t, "plane", []string{"plane_wh_0123456789abcdef0123456789abcdef"})
	require.NoError(t, err)
	key := func(body, id string) string {
		s := r.Sign([]byte(body), "issue", id, false, time.Now())
		s.Header.Set("X-Plane-Delivery", id)
		o, err := r.Open(s.Header, s.Body, time.Now())
		require.NoError(t, err)
		return o.Key
	}
	body := `{"event": "issue", "action": "update", "data": {"id": "1", "updated_at": "2026-01-01"}, "activity": null}`
	require.Equal(t, key(body, "first"), key(body, "second"))
	require.NotEqual(t, key(body, "first"), key(strings.ReplaceAll(body, "2026-01-01", "2026-01-02"), "first"))
}
