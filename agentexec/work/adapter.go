package work

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"pushd/policy"
)

// Adapter is how a CLI agent is started and read, as data.
type Adapter struct {
	Format     string            `yaml:"format"`      // claude, codex, opencode, http, plain
	Argv       []string          `yaml:"argv"`        // "{options}" is where model and args go, else the end
	Resume     []string          `yaml:"resume_argv"` // instead of argv with a "{session}" to go on with
	Model      []string          `yaml:"model"`       // options that choose "{model}"
	Prompt     string            `yaml:"prompt"`      // stdin (default), file ("{prompt_file}" in argv), arg ("{prompt}")
	Version    []string          `yaml:"version"`     // arguments of the preflight
	VersionFor Span              `yaml:"version_timeout"`
	PassEnv    []string          `yaml:"pass_env"` // patterns of variables handed on
	SetEnv     map[string]string `yaml:"set_env"`
	Unset      []string          `yaml:"unset"`      // never handed on
	Session    []Rule            `yaml:"session"`    // where the CLI's own session id stands
	Text       []Rule            `yaml:"text"`       // where the final text stands
	Join       bool              `yaml:"join"`       // the text is all of them; else the last
	Note       []Rule            `yaml:"note"`       // what to show of its progress
	Open       []Rule            `yaml:"open"`       // ids of tools that begin
	Close      []Rule            `yaml:"close"`      // and end
	Transcript string            `yaml:"transcript"` // files whose growth is life: a glob with {home}, {session}
}

// Span is a duration as a settings file writes it: 30s, 5m.
type Span time.Duration

// UnmarshalYAML reads it; a number without a unit is refused.
func (s *Span) UnmarshalYAML(node *yaml.Node) error {
	d, err := time.ParseDuration(node.Value)
	if err != nil || node.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: %q is no duration; write it with a unit, like 30s", node.Line, node.Value)
	}
	if d < 0 {
		return fmt.Errorf("line %d: %s is negative", node.Line, node.Value)
	}
	*s = Span(d)
	return nil
}

var formats = map[string]policy.Format{
	"": policy.Plain, "plain": policy.Plain, "claude": policy.Claude, "codex": policy.Codex,
	"opencode": policy.Opencode, "http": policy.HTTP,
}

//go:embed adapters.yaml
var builtin []byte

// Builtin are the adapters that come with the agent.
var Builtin = sync.OnceValues(func() (map[string]Adapter, error) { return ReadAdapters(builtin) })

// ReadAdapters reads adapters by name; a key that does not exist is an error.
func ReadAdapters(raw []byte) (map[string]Adapter, error) {
	all := map[string]Adapter{}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&all); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for name, a := range all {
		if err := a.Validate(); err != nil {
			return nil, fmt.Errorf("adapter %s: %w", name, err)
		}
	}
	return all, nil
}

// Validate tells what an adapter cannot mean.
func (a Adapter) Validate() error {
	format, known := formats[a.Format]
	all := strings.Join(a.Argv, " ")
	switch {
	case !known:
		return fmt.Errorf("format %q is none of claude, codex, opencode, http, plain", a.Format)
	case format != policy.HTTP && len(a.Argv) == 0:
		return errors.New("it needs an argv")
	case a.Prompt != "" && a.Prompt != "stdin" && a.Prompt != "file" && a.Prompt != "arg":
		return fmt.Errorf("prompt %q is none of stdin, file, arg", a.Prompt)
	case a.Prompt == "file" && !strings.Contains(all, "{prompt_file}"):
		return errors.New("prompt: file needs {prompt_file} in argv")
	case a.Prompt == "arg" && !strings.Contains(all, "{prompt}"):
		return errors.New("prompt: arg needs {prompt} in argv")
	case a.Prompt != "arg" && strings.Contains(all, "{prompt}"):
		return errors.New("{prompt} in argv needs prompt: arg")
	}
	return nil
}

// command builds a command line. Options go where the adapter wants them.
func (a Adapter) command(values map[string]string, options []string) []string {
	argv := a.Argv
	if values["session"] != "" && len(a.Resume) > 0 {
		argv = a.Resume
	}
	if values["model"] != "" {
		options = append(append([]string(nil), a.Model...), options...)
	}
	var out []string
	placed := false
	for _, arg := range argv {
		if arg == "{options}" {
			out, placed = append(out, options...), true
			continue
		}
		out = append(out, arg)
	}
	if !placed {
		out = append(out, options...)
	}
	for i, arg := range out {
		out[i] = fill(arg, values)
	}
	return out
}

// fill replaces {name} by values, once: a value is never looked at again.
func fill(text string, values map[string]string) string {
	pairs := make([]string, 0, 2*len(values))
	for name, value := range values {
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
