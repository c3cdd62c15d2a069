package webhook_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// No header makes a wrong signature right, and none makes the check fall over.
func FuzzSignature(f *testing.F) {
	for _, v := range vectors(f, "vectors.json", "more.json") {
		for name, value := range v.Headers {
			f.Add(v.Source, name, value, v.Body)
		}
	}
	f.Fuzz(func(t *testing.T, source, name, value, body string) {
		var lines []string
		secret := "a secret that no seed is signed with"
		switch source {
		case "hmac":
			lines = append(lines, "hmac: {header: X-Signature}")
		case "standard":
			secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		case "github", "gitea", "forgejo", "gitlab", "plane", "stripe", "slack", "sentry", "jira", "bitbucket", "token":
		default:
			return
		}
		r, err := load(t, source, []string{secret}, lines...)
		require.NoError(t, err)
		h := http.Header{"Content-Type": {"application/json"}}
		h.Set(name, value)
		o, err := r.Open(h, []byte(body), time.Unix(1700000000, 0))
		if err == nil && o.Greeting == nil {
			t.Fatalf("%s took %s: %q", source, name, value)
		}
		if early := r.Knock(h); early != nil {
			require.Equal(t, err, early, "what is refused at the door would be refused inside")
		}
	})
}

// Whatever a form holds, it is read or refused, and what is read is JSON.
func FuzzForm(f *testing.F) {
	f.Add("payload=%7B%22a%22%3A1%7D")
	f.Add("a=1&b=2&a=3")
	f.Add("payload=%zz")
	f.Add("payload=[1,%22\xff%22]")
	f.Fuzz(func(t *testing.T, body string) {
		r, err := load(t, "none", nil)
		require.NoError(t, err)
		o, err := r.Open(http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(body), time.Now())
		if err == nil {
			require.True(t, json.Valid(o.JSON))
		}
	})
}

// Whatever stands in a body, a leaf makes one string: the structure is the route's.
func FuzzLeaf(f *testing.F) {
	f.Add(`say "hi"`, "a.b")
	f.Add(`"},"machine_id":"evil`, "x")
	f.Add("{{ .route }}", "")
	f.Add("\u2028<&>\x00", "..")
	r, err := load(f, "none", nil, `actions:
- machine_id: m1
  type: job
  session_id: "s-{{ .body.text }}"
  payload: {t: "{{ .body.text }}", j: "{{ json .body.text }}", h: "{{ has .body.path .body }}"}`)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text, path string) {
		if !utf8.ValidString(text) {
			return // encoding/json replaces what is not, each byte for itself
		}
		body, err := json.Marshal(map[string]string{"text": text, "path": path})
		require.NoError(t, err)
		o, err := r.Open(http.Header{"Content-Type": {"application/json"}}, body, time.Now())
		require.NoError(t, err)
		o.Lookup("body." + path)
		all, err := r.Render(o.Message)
		if err != nil {
			return
		}
		var out map[string]any
		require.NoError(t, json.Unmarshal(all[0], &out))
		require.Equal(t, "m1", out["machine_id"])
		require.Len(t, out, 4)
		payload := out["payload"].(map[string]any)
		require.Len(t, payload, 3)
		require.Equal(t, text, payload["t"])
	})
}
