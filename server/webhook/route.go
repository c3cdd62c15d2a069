package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// OnDuplicate is what a delivery does whose id is known.
type OnDuplicate string

// What on_duplicate takes.
const (
	Ignore        OnDuplicate = "ignore"
	RequeueFailed OnDuplicate = "requeue_failed"
	Requeue       OnDuplicate = "requeue"
)

// HMAC is how a sender of source hmac signs.
type HMAC struct {
	Header     string `yaml:"header"`
	Prefix     string `yaml:"prefix"`
	Algo       string `yaml:"algo"`
	Encoding   string `yaml:"encoding"`
	Template   string `yaml:"template"` // of what is signed: {ts} and {body}
	TimeHeader string `yaml:"ts_header"`
}

// Token is where a sender of source token puts it.
type Token struct {
	Header string `yaml:"header"`
	Prefix string `yaml:"prefix"`
}

// Route is what becomes of the deliveries to one path, /webhooks/ID.
type Route struct {
	ID, Source  string
	MaxBody     int64
	OnDuplicate OnDuplicate
	Window      time.Duration // for how long a delivery's id is remembered

	sender    *sender
	secrets   []secret
	allowSHA1 bool
	hmac      HMAC
	token     Token
	tolerance time.Duration
	key       string // header.X, body.x, content, none; empty: the sender's own
	when      condition
	machines  []*regexp.Regexp
	extra     map[string]any // the route's own words, for templates
	actions   []*action
	states    []string // a chain rule's first sieve
	types     []string
}

// action is one action that a delivery makes.
type action struct {
	names  []string
	values []tree
	free   bool // its machine comes from the delivery
}

// Chain tells whether r makes actions of actions that ended.
func (r *Route) Chain() bool { return r.Source == Settled }

// Secrets is how many secrets r has.
func (r *Route) Secrets() int { return len(r.secrets) }

// Known tells of each of r's secrets which one of another route it is, or -1.
func (r *Route) Known(before *Route) []int {
	known := make([]int, len(r.secrets))
	for i, s := range r.secrets {
		known[i] = slices.IndexFunc(before.secrets, func(old secret) bool { return s.equal(string(old.text)) == 1 })
	}
	return known
}

// Rekeyed tells whether r has other secrets, or an other order of them, than before.
func (r *Route) Rekeyed(before *Route) bool {
	return !slices.EqualFunc(r.secrets, before.secrets, func(a, b secret) bool { return a.equal(string(b.text)) == 1 })
}

// words are what a template knows of its route.
func (r *Route) words() map[string]any {
	words := map[string]any{"id": r.ID, "source": r.Source}
	maps.Copy(words, r.extra)
	return words
}

// Opened is a delivery whose signature holds. Message is nil where Bad says why
// its body cannot be read.
type Opened struct {
	*Message
	Headers  Headers
	Secret   int // which of the route's secrets it was; -1 none
	Event    string
	ID       string // the sender's name for it
	Key      string // by which it is known again; empty: it never is
	Greeting *Greeting
	Mute     bool // the sender wants 200 and no body, whatever became of it
}

// Knock says what the headers alone tell against a delivery, before its body is
// read: another media type, no signature, a secret sent along that is none.
func (r *Route) Knock(h http.Header) error {
	if r.sender.unsignedPing(h) {
		return nil
	}
	if _, err := isForm(h); err != nil {
		return err
	}
	_, err := r.verify(&signed{header: h, json: func() ([]byte, error) { return nil, nil }}, time.Time{})
	if errors.Is(err, ErrMissing) || r.sender.bears || r.Source == "gitlab" && h.Get("webhook-signature") == "" {
		return err
	}
	return nil
}

// Open checks a delivery's signature and then reads it. The errors are
// [ErrMedia], [ErrMissing], [ErrMismatch], [ErrTimestamp]; a [BadBodyError] comes
// with what is known besides.
func (r *Route) Open(h http.Header, body []byte, now time.Time) (*Opened, error) {
	if r.sender.unsignedPing(h) {
		return &Opened{Secret: -1, Headers: r.keepable(h), Event: "diagnostics:ping", Greeting: &Greeting{Body: map[string]any{"actions": []string{}}}}, nil
	}
	form, err := isForm(h)
	if err != nil {
		return nil, err
	}
	d := &signed{header: h, body: body, json: func() ([]byte, error) { return jsonOf(body, form) }}
	index, err := r.verify(d, now)
	if err != nil {
		return nil, err
	}
	o := &Opened{Secret: index, Headers: r.keepable(h), Mute: form && r.sender.mute}
	text, err := d.json()
	if err == nil {
		o.Message, err = r.read(o.Headers, text)
	}
	if err != nil {
		return o, err
	}
	r.name(o)
	if r.sender.greets != nil {
		o.Greeting = r.sender.greets(o.Message)
	}
	return o, nil
}

// Again reads a delivery that was kept, for a replay or a test: its signature was
// checked when it came, or does not matter.
func (r *Route) Again(h Headers, text []byte) (*Opened, error) {
	if r.Chain() {
		return r.ChainMessage(text)
	}
	m, err := r.read(h, text)
	if err != nil {
		return nil, err
	}
	o := &Opened{Message: m, Headers: h, Secret: -1}
	r.name(o)
	return o, nil
}

func (r *Route) verify(d *signed, now time.Time) (int, error) {
	if r.sender.check != nil {
		return r.sender.check(r, d, now)
	}
	c, err := r.sender.claim(d)
	if err != nil {
		return -1, err
	}
	return c.verify(r.secrets, now, r.tolerance)
}

// name finds what the delivery and its event are called, and its key.
func (r *Route) name(o *Opened) {
	var words []string
	for _, where := range r.sender.event {
		if s := text(o.Lookup(where)); s != "" {
			words = append(words, s)
		}
	}
	o.Event = clip(strings.Join(words, "."))
	for _, where := range r.sender.id {
		if s := text(o.Lookup(where)); s != "" {
			o.ID = s
			break
		}
	}
	o.Key = r.keyOf(o)
	o.ID = clip(o.ID)
	o.data["delivery"] = map[string]any{"id": o.ID, "event": o.Event}
}

// keyOf is by what a delivery is known again.
func (r *Route) keyOf(o *Opened) string {
	switch r.key {
	case "none":
		return ""
	case "content":
		return hashed("content", string(o.JSON))
	case "":
		if r.Source == "plane" {
			return r.planeKey(o)
		}
		return short(o.ID)
	}
	return short(text(o.Lookup(r.key)))
}

// planeKey is of what a Plane delivery says: its id is new with each try.
func (r *Route) planeKey(o *Opened) string {
	parts := []string{o.Event}
	for _, where := range []string{"body.webhook_id", "body.data.id", "body.data.updated_at", "body.activity"} {
		p, _ := parsePath(where)
		raw, _ := o.verbatim(p)
		parts = append(parts, string(raw))
	}
	return hashed(parts...)
}

func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// short keeps a key that is fit to be one, and hashes what is not.
func short(s string) string {
	if len(s) > maxID || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return hashed(s)
	}
	return s
}

func clip(s string) string {
	if len(s) > maxID {
		s = strings.ToValidUTF8(s[:maxID], "")
	}
	return s
}

// Matches tells whether the route's when holds.
func (r *Route) Matches(m *Message) bool { return r.when.holds(m) }

// Sieve is what a chain rule can hold for at all: the states and types that its
// when names plainly; nil is any.
func (r *Route) Sieve() (states, types []string) { return r.states, r.types }

// Render makes the JSON of the actions of a delivery, all of them or none.
func (r *Route) Render(m *Message) ([]json.RawMessage, error) {
	all := make([]json.RawMessage, 0, len(r.actions))
	for i, a := range r.actions {
		raw, err := r.renderAction(a, m, fmt.Sprintf("actions[%d]", i))
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}

func (r *Route) renderAction(a *action, m *Message, at string) (json.RawMessage, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, name := range a.names {
		var value bytes.Buffer
		if err := a.values[i].render(m, at+"."+name, &value); err != nil {
			return nil, err
		}
		raw := value.Bytes()
		if _, is := a.values[i].(filled); is {
			if raw = r.fit(name, raw); raw == nil {
				continue // an option that is empty is not given
			}
		}
		if name == "machine_id" && a.free && !r.allows(raw, m) {
			return nil, &RenderError{at + "." + name, fmt.Sprintf("%s is not among the route's machines", clip(string(raw)))}
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s", name, raw)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// fit makes what a template rendered for an option of the action what that option
// takes: sessions and replays are ids, labels and targets texts.
func (r *Route) fit(name string, raw []byte) []byte {
	var s string
	if json.Unmarshal(raw, &s) != nil || name == "payload" {
		return raw
	}
	if name == "session_id" || name == "replay_id" {
		s = idOf(s)
	}
	if s == "" {
		return nil
	}
	if slices.Contains(numbers, name) && numberForm.MatchString(s) {
		return []byte(s)
	}
	out, _ := marshal(s) // of a string
	return out
}

// numberForm is JSON's; what only looks like a number stays a text, and is refused
// by the action's own rules.
var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?$`)

// allows tells whether a machine that a delivery names is one the route lets it
// name. A chain rule may always stay on the machine of its action.
func (r *Route) allows(raw []byte, m *Message) bool {
	var id string
	if json.Unmarshal(raw, &id) != nil {
		return false
	}
	if r.Chain() && id == text(m.Lookup("action.machine_id")) && id != "" {
		return true
	}
	return slices.ContainsFunc(r.machines, func(re *regexp.Regexp) bool { return re.MatchString(id) })
}

// ChainMessage is what a chain rule sees: the record of an action that has ended.
func (r *Route) ChainMessage(record []byte) (*Opened, error) {
	value, err := decode(record)
	if err != nil {
		return nil, err
	}
	m := &Message{Header: Headers{}, JSON: record}
	m.data = map[string]any{"action": value, "route": r.words(), "header": Headers{}}
	m.raw = map[string][]byte{"action": record}
	o := &Opened{Message: m, Headers: Headers{}, Secret: -1}
	r.name(o)
	return o, nil
}
