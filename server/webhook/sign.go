package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Sample is what a sender of a route would send: for `pushctl webhook sign` and
// for tests.
type Sample struct {
	Header http.Header
	Body   []byte
}

// Sign makes the request in which a sender of r would deliver body, signed with
// its first secret.
func (r *Route) Sign(body []byte, event, id string, form bool, now time.Time) Sample {
	s := Sample{Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
	if form {
		s.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		s.Body = []byte("payload=" + url.QueryEscape(string(body)))
	}
	if id == "" {
		id = uuid.NewString()
	}
	r.sender.label(s.Header, event, id)
	if len(r.secrets) > 0 {
		r.sign(&s, body, id, now)
	}
	return s
}

// label names event and delivery as the sender does, in headers.
func (s *sender) label(h http.Header, event, id string) {
	if header, ok := strings.CutPrefix(first(s.id), "header."); ok {
		h.Set(header, id)
	}
	if header, ok := strings.CutPrefix(first(s.event), "header."); ok && event != "" {
		h.Set(header, event)
	}
}

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// sign adds the signature. text is the JSON, which a form carries in a field.
func (r *Route) sign(s *Sample, text []byte, id string, now time.Time) {
	key, stamp := r.secrets[0].key, strconv.FormatInt(now.Unix(), 10)
	sum := func(parts ...[]byte) []byte { return macOf("sha256", key, parts) }
	set := s.Header.Set
	switch r.Source {
	case "github":
		set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum(s.Body)))
	case "gitea":
		set("X-Gitea-Signature", hex.EncodeToString(sum(text)))
	case "forgejo":
		set("X-Forgejo-Signature", hex.EncodeToString(sum(text)))
	case "gitlab":
		set("X-Gitlab-Token", string(r.secrets[0].text))
	case "plane":
		set("X-Plane-Signature", hex.EncodeToString(sum(s.Body)))
	case "standard":
		set("webhook-timestamp", stamp)
		set("webhook-signature", StandardSignature(key, id, stamp, s.Body))
	case "stripe":
		set("Stripe-Signature", "t="+stamp+",v1="+hex.EncodeToString(sum([]byte(stamp), dot, s.Body)))
	case "slack":
		set("X-Slack-Request-Timestamp", stamp)
		set("X-Slack-Signature", "v0="+hex.EncodeToString(sum([]byte("v0:"+stamp+":"), s.Body)))
	case "sentry":
		set("Sentry-Hook-Signature", hex.EncodeToString(sum(s.Body)))
	case "jira", "bitbucket":
		set("X-Hub-Signature", "sha256="+hex.EncodeToString(sum(s.Body)))
	case "token":
		set(r.token.Header, r.token.Prefix+string(r.secrets[0].text))
	case "hmac":
		r.signHMAC(s, key, stamp)
	}
}

func (r *Route) signHMAC(s *Sample, key []byte, stamp string) {
	h := r.hmac
	if h.TimeHeader != "" {
		s.Header.Set(h.TimeHeader, stamp)
	}
	mac := macOf(h.Algo, key, h.parts(stamp, s.Body))
	text := hex.EncodeToString(mac)
	if h.Encoding == "base64" {
		text = base64.StdEncoding.EncodeToString(mac)
	}
	s.Header.Set(h.Header, h.Prefix+text)
}

func macOf(algo string, key []byte, parts [][]byte) []byte {
	mac := hmac.New(hashes[algo], key)
	for _, p := range parts {
		_, _ = mac.Write(p) // a hash takes everything
	}
	return mac.Sum(nil)
}

// StandardSignature is the header webhook-signature of Standard Webhooks.
func StandardSignature(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	for _, p := range [][]byte{[]byte(id), dot, []byte(stamp), dot, body} {
		_, _ = mac.Write(p) // a hash takes everything
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
