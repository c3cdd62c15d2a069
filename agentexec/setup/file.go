package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pushd/agentexec/work"
)

// File is an agent's settings.
type File struct {
	Server         string                  `yaml:"server"`
	MachineID      string                  `yaml:"machine_id"`
	TokenFile      string                  `yaml:"token_file"`
	CA             string                  `yaml:"ca"`
	Cert           string                  `yaml:"cert"` // shown to the server
	Key            string                  `yaml:"key"`
	DataDir        string                  `yaml:"data_dir"`
	MaxConcurrency int                     `yaml:"max_concurrency"`
	DrainTimeout   work.Span               `yaml:"drain_timeout"`
	OrphanTimeout  work.Span               `yaml:"orphan_timeout"`
	Log            Log                     `yaml:"log"`
	Handlers       map[string]Profile      `yaml:"handlers"`
	Adapters       map[string]work.Adapter `yaml:"adapters"`
}

// Log says how the agent logs.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // auto, console, json
}

// Profile is how one action type is handled.
type Profile struct {
	Kind      string            `yaml:"kind"`    // exec, powershell, http, cli-agent
	Command   []string          `yaml:"command"` // exec
	Payload   string            `yaml:"payload"` // exec, powershell: stdin (default), file
	Script    string            `yaml:"script"`  // powershell
	URL       string            `yaml:"url"`     // http; cli-agent with an endpoint
	Headers   map[string]string `yaml:"headers"` // http
	Adapter   string            `yaml:"adapter"` // cli-agent
	Args      []string          `yaml:"args"`    // cli-agent: more options
	Model     string            `yaml:"model"`   // cli-agent with an endpoint
	KeyFile   string            `yaml:"key_file"`
	Dir       string            `yaml:"dir"`
	PassEnv   []string          `yaml:"pass_env"`
	Env       map[string]string `yaml:"env"`
	Windows   Windows           `yaml:"windows"`
	Preflight Preflight         `yaml:"preflight"`
}

// Windows are work.Windows as a file writes them.
type Windows struct {
	FirstOutput work.Span `yaml:"first_output"`
	Inactivity  work.Span `yaml:"inactivity"`
	OpenTool    work.Span `yaml:"open_tool"`
	Ceiling     work.Span `yaml:"ceiling"`
	StopGrace   work.Span `yaml:"stop_grace"`
	Linger      work.Span `yaml:"linger"`
}

// Preflight is work.Preflight as a file writes it.
type Preflight struct {
	Version []string  `yaml:"version"`
	Timeout work.Span `yaml:"timeout"`
	Connect string    `yaml:"connect"`
}

// Load reads a settings file. Its paths are absolute then.
func Load(path string) (File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return File{}, err
	}
	f, err := Parse(raw)
	if err != nil {
		return File{}, fmt.Errorf("settings file %s: %s", path, oneLine(err))
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return File{}, err
	}
	f.absolute(filepath.Dir(abs))
	return f, nil
}

// Parse reads settings; a key that does not exist is an error.
func Parse(raw []byte) (f File, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return File{}, err
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return File{}, errors.New("there is more than one document in it")
	}
	return f, nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (f *File) absolute(base string) {
	for _, path := range []*string{&f.TokenFile, &f.CA, &f.Cert, &f.Key, &f.DataDir} {
		*path = work.Absolute(base, *path)
	}
	for name, p := range f.Handlers {
		for _, path := range []*string{&p.Script, &p.KeyFile, &p.Dir} {
			*path = work.Absolute(base, *path)
		}
		if p.Dir == "" && len(p.Command) > 0 && strings.ContainsAny(p.Command[0], `/\`) {
			p.Command[0] = work.Absolute(base, p.Command[0])
		}
		f.Handlers[name] = p
	}
}

// Defaults fill in what neither the file nor a flag says.
func (f *File) Defaults() {
	if f.MaxConcurrency == 0 {
		f.MaxConcurrency = 1
	}
	if f.DrainTimeout == 0 {
		f.DrainTimeout = work.Span(30 * time.Second)
	}
	if f.MachineID == "" {
		if name, err := os.Hostname(); err == nil {
			f.MachineID = name
		}
	}
	if f.Log.Level == "" {
		f.Log.Level = "info"
	}
	if f.Log.Format == "" {
		f.Log.Format = "auto"
	}
}

var (
	machineShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$`)
	typeShape    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
)

// Validate tells, in one line, what settings cannot mean.
func (f *File) Validate() error {
	switch server, err := url.Parse(f.Server); {
	case f.Server == "":
		return errors.New("server is not set")
	case err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https":
		return fmt.Errorf("server %q is no http or https address", f.Server)
	case server.User != nil:
		return errors.New("server holds a password; a token goes into token_file")
	case !machineShape.MatchString(f.MachineID):
		return fmt.Errorf("machine_id %q is no id", f.MachineID)
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("cert and key go together: both, or none")
	case f.DataDir == "":
		return errors.New("data_dir is not set")
	case f.MaxConcurrency < 1 || f.MaxConcurrency > 1000:
		return errors.New("max_concurrency must be 1 to 1000")
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, f.Log.Level):
		return fmt.Errorf("log.level %q is none of debug, info, warn, error", f.Log.Level)
	case !slices.Contains([]string{"auto", "console", "json"}, f.Log.Format):
		return fmt.Errorf("log.format %q is none of auto, console, json", f.Log.Format)
	case len(f.Handlers) == 0:
		return errors.New("handlers is empty: there is nothing this agent could do")
	}
	for name, a := range f.Adapters {
		if err := a.Validate(); err != nil {
			return fmt.Errorf("adapters.%s: %w", name, err)
		}
	}
	for name, p := range f.Handlers {
		if !typeShape.MatchString(name) {
			return fmt.Errorf("handlers: %q is no action type", name)
		}
		if err := p.validate(f.adapters()); err != nil {
			return fmt.Errorf("handlers.%s: %w", name, err)
		}
	}
	return nil
}

// adapters are the builtin ones under the file's own.
func (f *File) adapters() map[string]work.Adapter {
	all := map[string]work.Adapter{}
	builtin, err := work.Builtin()
	if err == nil { // a test holds it to that
		maps.Copy(all, builtin)
	}
	maps.Copy(all, f.Adapters)
	return all
}
