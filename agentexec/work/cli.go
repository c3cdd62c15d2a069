package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"pushd/agentexec/task"
	"pushd/policy"
)

// maxArgument is the longest prompt that goes by an argument: Windows has 32 KiB
// for a whole command line, and cmd.exe 8.
const maxArgument = 8000

// CLI runs a CLI agent for each action: the payload is the prompt.
type CLI struct {
	Runner    *Runner
	Name      string // of the adapter
	Adapter   Adapter
	Options   []string // more arguments
	Dir       string
	PassEnv   []string
	SetEnv    map[string]string
	Windows   Windows
	Preflight Preflight
}

// Prompt is the payload of an action for an agent: a text, or an object.
type Prompt struct {
	Prompt string `json:"prompt"`
	Resume string `json:"resume,omitempty"` // the CLI's session id of an earlier result
	Model  string `json:"model,omitempty"`
}

var errNoPrompt = errors.New(`the payload must be a text, or {"prompt":"…","resume":"…","model":"…"}`)

// ParsePrompt reads a payload. What it does not know it refuses: a misspelt
// "resume" would begin a new conversation in silence.
func ParsePrompt(payload json.RawMessage) (p Prompt, err error) {
	if json.Unmarshal(payload, &p.Prompt) != nil {
		dec := json.NewDecoder(bytes.NewReader(payload))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&p); err != nil {
			return p, fmt.Errorf("%w: %w", errNoPrompt, err)
		}
	}
	switch {
	case p.Prompt == "":
		return p, errNoPrompt
	case p.Resume != "" && !plainID(p.Resume):
		return p, errors.New("resume is no session id")
	case p.Model != "" && !modelName.MatchString(p.Model):
		return p, errors.New("model is no name of a model")
	}
	return p, nil
}

// What a payload may put on a command line begins like a word, not like an option.
var (
	idShape   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$`)
)

func plainID(id string) bool { return idShape.MatchString(id) }

// Run runs the agent once.
func (c *CLI) Run(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict {
	prompt, err := ParsePrompt(job.Payload)
	if err != nil {
		return task.Failed(policy.Permanent, "payload", err.Error())
	}
	plan := plan{
		dir: c.Dir, pass: c.PassEnv, set: c.SetEnv, adapter: c.Adapter, windows: c.Windows.WithDefaults(),
		argv: func(runDir string) []string { return c.argv(prompt, runDir) },
	}
	switch c.Adapter.Prompt {
	case "file":
		plan.files = map[string][]byte{promptFile: []byte(prompt.Prompt)}
	case "arg":
		if len(prompt.Prompt) > maxArgument {
			return task.Failed(policy.Permanent, "payload", fmt.Sprintf("the prompt has %d bytes; adapter %s passes it as an argument, which may have %d", len(prompt.Prompt), c.Name, maxArgument))
		}
	default:
		plan.stdin = []byte(prompt.Prompt)
	}
	plain := formats[c.Adapter.Format] == policy.Plain
	if plain {
		plan.keep = maxText
	}
	e, err := c.Runner.run(ctx, job, pulse, plan)
	if err != nil {
		return noFolder(err)
	}
	if plain {
		e.text, e.textCut = e.ownText()
	}
	return e.verdict(job, c.Name, nil)
}

const promptFile = "prompt.txt"

func (c *CLI) argv(p Prompt, runDir string) []string {
	return c.Adapter.command(map[string]string{
		"session": p.Resume, "model": p.Model, "prompt": p.Prompt, "prompt_file": filepath.Join(runDir, promptFile),
	}, c.Options)
}

// Ready finds the agent and asks for its version.
func (c *CLI) Ready(ctx context.Context) error {
	return c.Preflight.check(ctx, c.Runner, c.Adapter.Argv[:1], c.Dir)
}
