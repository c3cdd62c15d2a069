package webhook

import (
	"crypto/sha1"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// sender is what one kind of sender does; the table below is all that differs.
type sender struct {
	claim  func(*signed) (*claim, error) // nil: see check
	check  func(*Route, *signed, time.Time) (int, error)
	id     []string // where it names a delivery; the first that is there
	event  []string // what names an event; those that are there, joined by a dot
	greets func(*Message) *Greeting
	secret bool // it cannot be without one
	bears  bool // it sends its secret, over nothing of the body
	mute   bool // it shows somebody what it is answered to a form
}

// Greeting is an answer that is owed before any route is looked at: JSON.
type Greeting struct{ Body map[string]any }

var senders = map[string]*sender{
	"github": {
		check: checkGitHub, secret: true, greets: pingOf("X-GitHub-Event", "ping"),
		id: []string{"header.X-GitHub-Delivery"}, event: []string{"header.X-GitHub-Event", "body.action"},
	},
	"gitea": {
		claim: overJSON("X-Gitea-Signature"), secret: true,
		id: []string{"header.X-Gitea-Delivery"}, event: []string{"header.X-Gitea-Event", "body.action"},
	},
	"forgejo": {
		claim: overJSON("X-Forgejo-Signature", "X-Gitea-Signature"), secret: true,
		id:    []string{"header.X-Forgejo-Delivery", "header.X-Gitea-Delivery"},
		event: []string{"header.X-Forgejo-Event", "body.action"},
	},
	"gitlab": {
		check: checkGitLab, secret: true,
		id:    []string{"header.Idempotency-Key", "header.webhook-id", "header.X-Gitlab-Event-UUID"},
		event: []string{"header.X-Gitlab-Event"},
	},
	"plane": { // a retry has a new delivery id: see contentKey
		claim: overBody("X-Plane-Signature", ""), secret: true,
		event: []string{"header.X-Plane-Event", "body.action"},
	},
	"standard": {
		claim: standardClaim, secret: true,
		id: []string{"header.webhook-id", "header.svix-id"}, event: []string{"body.type"},
	},
	"stripe": {claim: stripeClaim, secret: true, id: []string{"body.id"}, event: []string{"body.type"}},
	"slack": {
		claim: slackClaim, secret: true, greets: greetSlack, mute: true,
		id: []string{"body.event_id", "body.trigger_id"}, event: []string{"body.event.type", "body.command"},
	},
	"sentry": {
		claim: overBody("Sentry-Hook-Signature", ""), secret: true,
		id: []string{"header.Request-ID"}, event: []string{"header.Sentry-Hook-Resource", "body.action"},
	},
	"jira": {
		claim: overBody("X-Hub-Signature", "sha256="), secret: true,
		id: []string{"header.X-Atlassian-Webhook-Identifier"}, event: []string{"body.webhookEvent"},
	},
	"bitbucket": {
		claim: overBody("X-Hub-Signature", "sha256="), secret: true, greets: pingOf("X-Event-Key", "diagnostics:ping"),
		id: []string{"header.X-Request-UUID", "header.X-Request-Id"}, event: []string{"header.X-Event-Key"},
	},
	"hmac":  {check: checkHMAC, secret: true, event: []string{"body.type"}},
	"token": {check: checkToken, secret: true, bears: true, event: []string{"body.type"}},
	"none":  {check: checkNothing, event: []string{"body.type"}},
	// Settled is no sender: an action that ended is the event, and a chain rule
	// the route (see [Route.Chain]).
	Settled: {check: checkClosed, event: []string{"action.state"}},
}

// Settled is the source of chain rules.
const Settled = "settled"

// Sources are the words that source takes, in order.
func Sources() []string { return slices.Sorted(maps.Keys(senders)) }

// checkGitHub wants SHA-256; the legacy header is taken only where a route says so.
func checkGitHub(r *Route, d *signed, now time.Time) (int, error) {
	c, err := overBody("X-Hub-Signature-256", "sha256=")(d)
	if err == ErrMissing && r.allowSHA1 { //nolint:errorlint // ours, bare
		c, err = simple(d, "X-Hub-Signature", "sha1=", sha1.New, d.body)
	}
	if err != nil {
		return -1, err
	}
	return c.verify(r.secrets, now, r.tolerance)
}

// checkGitLab takes a signature where one is sent, else the classic token.
func checkGitLab(r *Route, d *signed, now time.Time) (int, error) {
	if d.header.Get("webhook-signature") != "" {
		c, err := standardClaim(d)
		if err != nil {
			return -1, err
		}
		return c.verify(r.secrets, now, r.tolerance)
	}
	return tokenIn(r, d.header.Get("X-Gitlab-Token"))
}

// checkHMAC is by the route's own words.
func checkHMAC(r *Route, d *signed, now time.Time) (int, error) {
	h := r.hmac
	text := d.header.Get(h.Header)
	if text == "" {
		return -1, ErrMissing
	}
	sum, err := sumOf(text, h.Prefix, h.Encoding)
	if err != nil {
		return -1, err
	}
	c := &claim{sums: [][]byte{sum}, hash: hashes[h.Algo]}
	stamp := ""
	if h.TimeHeader != "" {
		stamp = d.header.Get(h.TimeHeader)
		if c.at, err = seconds(stamp); err != nil {
			return -1, err
		}
	}
	c.parts = h.parts(stamp, d.body)
	return c.verify(r.secrets, now, r.tolerance)
}

// parts fills {ts} and {body} in the template of what is signed.
func (h *HMAC) parts(stamp string, body []byte) [][]byte {
	var parts [][]byte
	rest := h.Template
	for rest != "" {
		i := strings.IndexByte(rest, '{')
		switch {
		case i < 0:
			return append(parts, []byte(rest))
		case i > 0:
			parts = append(parts, []byte(rest[:i]))
			rest = rest[i:]
		case strings.HasPrefix(rest, "{ts}"):
			parts = append(parts, []byte(stamp))
			rest = rest[len("{ts}"):]
		case strings.HasPrefix(rest, "{body}"):
			parts = append(parts, body)
			rest = rest[len("{body}"):]
		default:
			parts = append(parts, []byte("{"))
			rest = rest[1:]
		}
	}
	return parts
}

func checkToken(r *Route, d *signed, _ time.Time) (int, error) {
	text := d.header.Get(r.token.Header)
	if r.token.Prefix != "" {
		rest, ok := strings.CutPrefix(text, r.token.Prefix)
		if !ok && text != "" {
			return -1, ErrMismatch
		}
		text = rest
	}
	return tokenIn(r, text)
}

// tokenIn finds the secret that is the token; all are compared.
func tokenIn(r *Route, text string) (int, error) {
	if text == "" {
		return -1, ErrMissing
	}
	found := -1
	for i := len(r.secrets) - 1; i >= 0; i-- {
		if r.secrets[i].equal(text) == 1 {
			found = i
		}
	}
	if found < 0 {
		return -1, ErrMismatch
	}
	return found, nil
}

func checkNothing(*Route, *signed, time.Time) (int, error) { return -1, nil }

// checkClosed: nobody may post to a chain rule.
func checkClosed(*Route, *signed, time.Time) (int, error) { return -1, ErrMismatch }

func pingOf(header, word string) func(*Message) *Greeting {
	return func(m *Message) *Greeting {
		if m.Header.Get(header) != word {
			return nil
		}
		return &Greeting{Body: map[string]any{"actions": []string{}}}
	}
}

// greetSlack answers url_verification, which proves to Slack that the address is
// ours, and ssl_check, by which it looks at the certificate of a command's address.
func greetSlack(m *Message) *Greeting {
	if text(m.Lookup("body.ssl_check")) == "1" {
		return &Greeting{}
	}
	if text(m.Lookup("body.type")) != "url_verification" {
		return nil
	}
	return &Greeting{Body: map[string]any{"challenge": text(m.Lookup("body.challenge"))}}
}

// unsignedPing tells Bitbucket Data Center's connection test, which bears no
// signature: it is greeted, and nothing in it is read.
func (s *sender) unsignedPing(h http.Header) bool {
	return s == senders["bitbucket"] && h.Get("X-Hub-Signature") == "" && h.Get("X-Event-Key") == "diagnostics:ping"
}
