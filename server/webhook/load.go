package webhook

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Set is the routes of a settings file and what is kept of their deliveries.
type Set struct {
	Routes   []*Route // in the order of the file
	Keep     time.Duration
	KeepBody int64
}

// Find is the route with an id, or nil.
func (s *Set) Find(id string) *Route {
	if s == nil {
		return nil
	}
	for _, r := range s.Routes {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// Chains are the rules for actions that end.
func (s *Set) Chains() []*Route {
	var all []*Route
	for _, r := range s.Routes {
		if r.Chain() {
			all = append(all, r)
		}
	}
	return all
}

// document is a settings file as this package sees it.
type document struct {
	Webhooks struct {
		Keep     duration      `yaml:"retention"`
		KeepBody size          `yaml:"keep_body"`
		Routes   []routeConfig `yaml:"routes"`
	} `yaml:"webhooks"`
	Rest map[string]yaml.Node `yaml:",inline"`
}

type routeConfig struct {
	ID           string            `yaml:"id"`
	Source       string            `yaml:"source"`
	Secrets      []string          `yaml:"secrets"`
	ShortSecrets bool              `yaml:"short_secrets"`
	AllowSHA1    bool              `yaml:"allow_sha1"`
	HMAC         HMAC              `yaml:"hmac"`
	Token        Token             `yaml:"token"`
	Tolerance    duration          `yaml:"tolerance"`
	MaxBody      size              `yaml:"max_body"`
	Dedupe       dedupeConfig      `yaml:"dedupe"`
	When         yaml.Node         `yaml:"when"`
	Machines     []string          `yaml:"machines"`
	Set          map[string]string `yaml:"set"`
	Actions      []yaml.Node       `yaml:"actions"`
}

type dedupeConfig struct {
	Key         string      `yaml:"key"`
	TTL         duration    `yaml:"ttl"`
	OnDuplicate OnDuplicate `yaml:"on_duplicate"`
}

// Limits of the settings.
const (
	defaultKeep     = 72 * time.Hour
	defaultKeepBody = 64 << 10
	defaultMaxBody  = 1 << 20
	mostBody        = 25 << 20
	mostActions     = 100
)

type duration time.Duration

// UnmarshalYAML reads 15s, 5m, 72h.
func (d *duration) UnmarshalYAML(node *yaml.Node) error {
	v, err := time.ParseDuration(node.Value)
	if err != nil || v <= 0 {
		return lineError(node, "%q is no duration: write it with a unit, like 5m or 72h", node.Value)
	}
	*d = duration(v)
	return nil
}

type size int64

// UnmarshalYAML reads 4096, 64KiB, 1MiB.
func (s *size) UnmarshalYAML(node *yaml.Node) error {
	digits, factor := node.Value, int64(1)
	for suffix, f := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if rest, ok := strings.CutSuffix(node.Value, suffix); ok {
			digits, factor = rest, f
		}
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 {
		return lineError(node, "%q is no size: write bytes, KiB or MiB, like 1MiB", node.Value)
	}
	*s = size(n * factor)
	return nil
}

// Load reads the routes of a settings file. What cannot be meant is an error of
// one line that names the route.
func Load(file []byte, env Env) (*Set, error) {
	var doc document
	d := yaml.NewDecoder(bytes.NewReader(file))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil && len(bytes.TrimSpace(file)) > 0 {
		return nil, fmt.Errorf("webhooks: %s", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	w := &doc.Webhooks
	s := &Set{Keep: orDuration(w.Keep, defaultKeep), KeepBody: orSize(w.KeepBody, defaultKeepBody)}
	for i := range w.Routes {
		c := &w.Routes[i]
		r, err := c.route(env)
		if err == nil && s.Find(c.ID) != nil {
			err = fmt.Errorf("id is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("webhooks: route %q: %w", clip(c.ID), err)
		}
		s.Keep = max(s.Keep, r.Window) // an id is known while its record is there
		s.Routes = append(s.Routes, r)
	}
	return s, nil
}

func orDuration(d duration, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return time.Duration(d)
}

func orSize(s size, other int64) int64 {
	if s == 0 {
		return other
	}
	return int64(s)
}

var routeForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (c *routeConfig) route(env Env) (*Route, error) {
	if !routeForm.MatchString(c.ID) {
		return nil, fmt.Errorf("id must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit")
	}
	sender := senders[c.Source]
	if sender == nil {
		return nil, fmt.Errorf("source %q is none of %s", c.Source, strings.Join(Sources(), ", "))
	}
	r := &Route{
		ID: c.ID, Source: c.Source, sender: sender, allowSHA1: c.AllowSHA1, hmac: c.HMAC, token: c.Token,
		MaxBody: orSize(c.MaxBody, defaultMaxBody), tolerance: orDuration(c.Tolerance, 5*time.Minute),
		Window: orDuration(c.Dedupe.TTL, defaultKeep), OnDuplicate: c.Dedupe.OnDuplicate, key: c.Dedupe.Key,
		extra: map[string]any{},
	}
	if r.MaxBody > mostBody {
		return nil, fmt.Errorf("max_body must be at most 25MiB")
	}
	for name, value := range c.Set {
		r.extra[name] = value
	}
	for _, step := range []func(*Route) error{c.signing, c.duplicates, c.conditions, c.machines, c.makes} {
		if err := step(r); err != nil {
			return nil, err
		}
	}
	return r, c.readSecrets(r, env)
}

// signing checks what source hmac and source token need, and nobody else takes.
func (c *routeConfig) signing(r *Route) error {
	if c.Source != "hmac" && c.HMAC != (HMAC{}) {
		return fmt.Errorf("hmac is for source hmac only")
	}
	if c.Source != "token" && c.Token != (Token{}) {
		return fmt.Errorf("token is for source token only")
	}
	if c.AllowSHA1 && c.Source != "github" {
		return fmt.Errorf("allow_sha1 is for source github only")
	}
	if c.Source == "token" && r.token.Header == "" {
		r.token = Token{Header: "Authorization", Prefix: "Bearer "}
	}
	if c.Source != "hmac" {
		return nil
	}
	h := &r.hmac
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&h.Algo, "sha256")
	set(&h.Encoding, "hex")
	set(&h.Template, "{body}")
	switch {
	case h.Header == "":
		return fmt.Errorf("hmac.header is required")
	case hashes[h.Algo] == nil:
		return fmt.Errorf("hmac.algo must be sha1, sha256 or sha512")
	case encodings[h.Encoding] == nil:
		return fmt.Errorf("hmac.encoding must be hex or base64")
	case !strings.Contains(h.Template, "{body}"):
		return fmt.Errorf("hmac.template must hold {body}")
	case strings.Contains(h.Template, "{ts}") != (h.TimeHeader != ""):
		return fmt.Errorf("hmac.template holds {ts} where hmac.ts_header is given, and only there")
	}
	return nil
}

func (c *routeConfig) duplicates(r *Route) error {
	switch c.Dedupe.OnDuplicate {
	case "":
		r.OnDuplicate = Ignore
	case Ignore, RequeueFailed, Requeue:
	default:
		return fmt.Errorf("dedupe.on_duplicate must be ignore, requeue_failed or requeue")
	}
	if r.Window > 30*24*time.Hour {
		return fmt.Errorf("dedupe.ttl must be at most 720h")
	}
	switch c.Dedupe.Key {
	case "", "content", "none":
		return nil
	}
	if _, ok := parsePath(c.Dedupe.Key); !ok {
		return fmt.Errorf("dedupe.key must be header.NAME, body.PATH, content or none")
	}
	return nil
}

func (c *routeConfig) conditions(r *Route) (err error) {
	if r.when, err = parseWhen(&c.When); err != nil {
		return err
	}
	if !r.Chain() {
		return nil
	}
	for i := 0; i+1 < len(c.When.Content); i += 2 {
		key, value := c.When.Content[i].Value, c.When.Content[i+1]
		switch key {
		case "action.state":
			r.states = plainTexts(value)
			for _, state := range r.states {
				if !slices.Contains(ends, state) {
					return lineError(value, "action.state %q is no end: %s", state, strings.Join(ends, ", "))
				}
			}
		case "action.type":
			r.types = plainTexts(value)
		}
	}
	return nil
}

// plainTexts are the texts of a scalar or a list of scalars; nil for tests.
func plainTexts(node *yaml.Node) []string {
	items := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		items = node.Content
	}
	var texts []string
	for _, item := range items {
		if item.Kind != yaml.ScalarNode {
			return nil
		}
		texts = append(texts, item.Value)
	}
	return texts
}

// ends are the settled states of protocol section 2.
var ends = []string{"done", "failed", "gave_up", "expired", "cancelled"}

func (c *routeConfig) machines(r *Route) error {
	for _, pattern := range c.Machines {
		if pattern == "" || strings.ContainsFunc(pattern, func(x rune) bool { return x < ' ' || x > '~' }) {
			return fmt.Errorf("machines: %q is no pattern of machine ids", pattern)
		}
		r.machines = append(r.machines, globOf(pattern))
	}
	return nil
}

// fields are those of an action that a route may give (protocol section 5): all
// but its id, which is the delivery's business.
var fields = []string{
	"machine_id", "session_id", "replay_id", "type", "payload", "priority", "guarantee", "available_at", "delay_s",
	"expires_at", "ttl_s", "orphan_timeout_s", "inactivity_timeout_s", "ceiling_s", "max_resends", "max_attempts",
	"transient_max_attempts", "target", "on_dead", "labels",
}

// numbers are those that take no text.
var numbers = []string{
	"priority", "delay_s", "ttl_s", "orphan_timeout_s", "inactivity_timeout_s", "ceiling_s",
	"max_resends", "max_attempts", "transient_max_attempts",
}

func (c *routeConfig) makes(r *Route) error {
	if len(c.Actions) == 0 || len(c.Actions) > mostActions {
		return fmt.Errorf("actions must be a list of 1 to %d", mostActions)
	}
	for i := range c.Actions {
		a, err := parseAction(&c.Actions[i])
		if err != nil {
			return fmt.Errorf("actions[%d]: %w", i, err)
		}
		if a.free && len(r.machines) == 0 && !r.Chain() {
			return fmt.Errorf("actions[%d].machine_id comes from the delivery, so machines must list those it may name", i)
		}
		r.actions = append(r.actions, a)
	}
	return nil
}

func parseAction(node *yaml.Node) (*action, error) {
	if node.Kind != yaml.MappingNode {
		return nil, lineError(node, "must hold the fields of an action")
	}
	a := &action{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if !slices.Contains(fields, key.Value) {
			return nil, lineError(key, "%q is no field of an action that a route may give", key.Value)
		}
		if slices.Contains(a.names, key.Value) {
			return nil, lineError(key, "%s is there twice", key.Value)
		}
		t, err := compile(value, 0)
		if err != nil {
			return nil, err
		}
		if _, literal := t.(fixed); key.Value == "machine_id" && !literal {
			a.free = true
		}
		a.names, a.values = append(a.names, key.Value), append(a.values, t)
	}
	for _, name := range []string{"machine_id", "type"} {
		if !slices.Contains(a.names, name) {
			return nil, lineError(node, "%s is required", name)
		}
	}
	return a, nil
}

func (c *routeConfig) readSecrets(r *Route, env Env) error {
	switch {
	case r.sender.secret && len(c.Secrets) == 0:
		return fmt.Errorf("source %s needs secrets: [env:NAME] or [file:PATH]", c.Source)
	case !r.sender.secret && len(c.Secrets) > 0:
		return fmt.Errorf("source %s has no secrets", c.Source)
	}
	for i, ref := range c.Secrets {
		raw, err := env.lookUp(ref)
		if err != nil {
			return fmt.Errorf("secrets[%d]: %w", i, err)
		}
		s, err := newSecret(c.Source, raw, c.ShortSecrets)
		if err != nil {
			return fmt.Errorf("secrets[%d] %w", i, err)
		}
		r.secrets = append(r.secrets, s)
	}
	return nil
}
