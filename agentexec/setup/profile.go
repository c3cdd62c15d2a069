package setup

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"pushd/agentexec/work"
)

// fields are which keys a kind of profile knows, besides kind, windows and
// preflight.
var fields = map[string][]string{
	"exec":       {"command", "payload", "dir", "pass_env", "env"},
	"powershell": {"script", "payload", "dir", "pass_env", "env"},
	"http":       {"url", "headers"},
	"cli-agent":  {"adapter", "args", "dir", "pass_env", "env", "command"},
	"endpoint":   {"adapter", "url", "model", "key_file"}, // cli-agent with an adapter of format http
}

// given are the keys that a profile sets.
func (p Profile) given() (names []string) {
	for name, set := range map[string]bool{
		"command": len(p.Command) > 0, "payload": p.Payload != "", "script": p.Script != "", "url": p.URL != "",
		"headers": len(p.Headers) > 0, "adapter": p.Adapter != "", "args": len(p.Args) > 0, "model": p.Model != "",
		"key_file": p.KeyFile != "", "dir": p.Dir != "", "pass_env": len(p.PassEnv) > 0, "env": len(p.Env) > 0,
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p Profile) validate(adapters map[string]work.Adapter) error {
	kind := p.Kind
	if kind == "cli-agent" {
		a, known := adapters[p.Adapter]
		if !known {
			return fmt.Errorf("adapter %q is none of %s", p.Adapter, names(adapters))
		}
		if a.Format == "http" {
			kind = "endpoint"
		}
	}
	allowed, known := fields[kind]
	if !known {
		return fmt.Errorf("kind %q is none of exec, powershell, http, cli-agent", p.Kind)
	}
	for _, name := range p.given() {
		if !slices.Contains(allowed, name) {
			return fmt.Errorf("%s means nothing to kind %s", name, p.Kind)
		}
	}
	if err := p.needs(kind); err != nil {
		return err
	}
	return p.check()
}

func (p Profile) needs(kind string) error {
	switch {
	case kind == "exec" && len(p.Command) == 0:
		return errors.New("kind exec needs a command")
	case kind == "powershell" && p.Script == "":
		return errors.New("kind powershell needs a script")
	case (kind == "http" || kind == "endpoint") && p.URL == "":
		return errors.New("it needs a url")
	case kind == "cli-agent" && p.Adapter == "plain" && len(p.Command) == 0:
		return errors.New("adapter plain needs a command")
	case kind == "cli-agent" && p.Adapter != "plain" && len(p.Command) > 1:
		return errors.New("command may only name the program of this adapter; more options go into args")
	case kind == "endpoint" && p.Model == "":
		return errors.New("it needs a model")
	}
	return nil
}

func (p Profile) check() error {
	if p.Payload != "" && p.Payload != "stdin" && p.Payload != "file" {
		return fmt.Errorf("payload %q is none of stdin, file", p.Payload)
	}
	if p.URL != "" {
		if u, err := url.Parse(p.URL); err != nil || u.Host == "" {
			return fmt.Errorf("url %q is no address", p.URL)
		}
	}
	if p.Preflight.Connect != "" {
		if _, _, err := net.SplitHostPort(p.Preflight.Connect); err != nil {
			return fmt.Errorf("preflight.connect %q is not HOST:PORT", p.Preflight.Connect)
		}
	}
	for name := range p.Env {
		if strings.HasPrefix(strings.ToUpper(name), "PUSHD_") || strings.ContainsAny(name, "=\x00") || name == "" {
			return fmt.Errorf("env %q is not to be set", name)
		}
	}
	return nil
}

func names(adapters map[string]work.Adapter) string {
	var all []string
	for name := range adapters {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
