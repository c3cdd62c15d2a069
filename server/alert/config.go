package alert

import (
	"bytes"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pushd/server/webhook"
)

// Kind is a sort of alert.
type Kind string

// The kinds.
const (
	GaveUp   Kind = "gave_up"
	Failed   Kind = "failed"
	InDoubt  Kind = "in_doubt"
	NeedHelp Kind = "need_help"
	Breaker  Kind = "breaker"
	Offline  Kind = "machine_offline"
	Store    Kind = "store"
)

var kinds = []Kind{GaveUp, Failed, InDoubt, NeedHelp, Breaker, Offline, Store}

// Config is the section alerts of a settings file.
type Config struct {
	Receivers    []Receiver
	OfflineAfter time.Duration // a machine is away, or silent, for so long
	Gather       time.Duration // what happens within it is told together
	Every        time.Duration // a receiver hears at most so often
}

// Receiver is one who is told.
type Receiver struct {
	ID, Kind string
	Events   []Kind // empty: all

	url     string
	key     []byte // of Standard Webhooks
	token   string // of a telegram bot
	chat    string
	command []string
}

// wants tells whether a receiver hears of a kind.
func (r *Receiver) wants(k Kind) bool { return len(r.Events) == 0 || slices.Contains(r.Events, k) }

type document struct {
	Alerts struct {
		OfflineAfter string           `yaml:"offline_after"`
		Gather       string           `yaml:"gather"`
		Every        string           `yaml:"every"`
		Receivers    []receiverConfig `yaml:"receivers"`
	} `yaml:"alerts"`
	Rest map[string]yaml.Node `yaml:",inline"`
}

type receiverConfig struct {
	ID      string   `yaml:"id"`
	Kind    string   `yaml:"kind"`
	Events  []Kind   `yaml:"events"`
	URL     string   `yaml:"url"`
	Secret  string   `yaml:"secret"`
	Token   string   `yaml:"token"`
	Chat    string   `yaml:"chat"`
	API     string   `yaml:"api"`
	Command []string `yaml:"command"`
}

// Load reads the section alerts of a settings file; an error is one line.
func Load(file []byte, env webhook.Env) (*Config, error) {
	var doc document
	d := yaml.NewDecoder(bytes.NewReader(file))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil && len(bytes.TrimSpace(file)) > 0 {
		return nil, fmt.Errorf("alerts: %s", strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	c := &Config{}
	for _, t := range []struct {
		into       *time.Duration
		name, text string
		otherwise  time.Duration
	}{
		{&c.OfflineAfter, "offline_after", doc.Alerts.OfflineAfter, 5 * time.Minute},
		{&c.Gather, "gather", doc.Alerts.Gather, 10 * time.Second},
		{&c.Every, "every", doc.Alerts.Every, time.Minute},
	} {
		*t.into = t.otherwise
		if t.text == "" {
			continue
		}
		v, err := time.ParseDuration(t.text)
		if err != nil || v <= 0 {
			return nil, fmt.Errorf("alerts: %s %q is no duration: write it with a unit, like 5m", t.name, t.text)
		}
		*t.into = v
	}
	seen := map[string]bool{}
	for i := range doc.Alerts.Receivers {
		rc := &doc.Alerts.Receivers[i]
		r, err := rc.receiver(env)
		if err == nil && seen[r.ID] {
			err = fmt.Errorf("id is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("alerts: receiver %q: %w", rc.ID, err)
		}
		seen[r.ID] = true
		c.Receivers = append(c.Receivers, *r)
	}
	return c, nil
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (c *receiverConfig) receiver(env webhook.Env) (*Receiver, error) {
	if !idForm.MatchString(c.ID) {
		return nil, fmt.Errorf("id must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit")
	}
	for _, k := range c.Events {
		if !slices.Contains(kinds, k) {
			return nil, fmt.Errorf("events: %q is none of %v", k, kinds)
		}
	}
	r := &Receiver{ID: c.ID, Kind: c.Kind, Events: c.Events, chat: c.Chat, command: c.Command}
	var err error
	switch c.Kind {
	case "webhook":
		if r.key, err = secretOf(env, "secret", c.Secret, webhook.StandardKey); err != nil {
			return nil, err
		}
		r.url, err = addressOf("url", c.URL, env)
	case "slack":
		r.url, err = addressOf("url", c.URL, env)
	case "telegram":
		if c.Chat == "" {
			return nil, fmt.Errorf("chat is required")
		}
		token, err := secretOf(env, "token", c.Token, func(b []byte) ([]byte, error) { return b, nil })
		if err != nil {
			return nil, err
		}
		r.token = string(token)
		api := c.API
		if api == "" {
			api = "https://api.telegram.org"
		}
		if r.url, err = addressOf("api", api, env); err != nil {
			return nil, err
		}
	case "command":
		if len(c.Command) == 0 {
			return nil, fmt.Errorf("command must be a list: a program and its arguments")
		}
	default:
		return nil, fmt.Errorf("kind %q is none of webhook, slack, telegram, command", c.Kind)
	}
	return r, err
}

func secretOf(env webhook.Env, name, ref string, make func([]byte) ([]byte, error)) ([]byte, error) {
	if ref == "" {
		return nil, fmt.Errorf("%s is required: env:NAME or file:PATH", name)
	}
	raw, err := env.Secret(ref)
	if err == nil {
		raw, err = make(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}

// addressOf reads an address; one that is a secret itself, as Slack's are, stands
// as env:NAME or file:PATH, and is never shown.
func addressOf(name, text string, env webhook.Env) (string, error) {
	if strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:") {
		raw, err := env.Secret(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		text = string(raw)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fmt.Errorf("%s must be an http or https address", name)
	}
	return text, nil
}
