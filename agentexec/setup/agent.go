package setup

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"pushd/agentexec"
	"pushd/agentexec/journal"
	"pushd/agentexec/output"
	"pushd/agentexec/proc"
	"pushd/agentexec/work"
)

// Host is what an agent needs of the process it runs in.
type Host struct {
	Environ    []string
	Supervisor []string // the command line that calls proc.Supervise
	Token      string   // where no token_file is set
	Logger     zerolog.Logger
	Now        func() time.Time
	Ready      func() // called once, when the agent is subscribed; nil: not
}

// Run runs an agent until ctx ends. Settings are validated first.
func Run(ctx context.Context, f File, host Host) error {
	f.Defaults()
	if err := f.Validate(); err != nil {
		return err
	}
	if err := checkProxies(host.Environ); err != nil {
		return err
	}
	if host.Now == nil {
		host.Now = time.Now
	}
	if err := os.MkdirAll(f.DataDir, 0o700); err != nil {
		return err
	}
	book, err := journal.Open(filepath.Join(f.DataDir, "agent.db"))
	if err != nil {
		return err
	}
	return errors.Join(run(ctx, f, host, book), book.Close())
}

func run(ctx context.Context, f File, host Host, book *journal.Journal) error {
	key, err := book.Key()
	if err != nil {
		return err
	}
	// Children of an agent that was killed end before any of their actions runs again.
	if swept, left := proc.SweepOld(key); swept+left > 0 {
		host.Logger.Warn().Int("killed", swept).Int("left", left).Msg("an earlier agent had left processes behind")
	}
	client, err := f.httpClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	vault := &vault{file: f.TokenFile, fixed: host.Token}
	if _, err := vault.token(); err != nil {
		return err
	}
	handlers, err := f.handlers(host, vault)
	if err != nil {
		return err
	}
	agent, err := agentexec.New(agentexec.Config{
		Server: f.Server, MachineID: f.MachineID, MaxConcurrency: f.MaxConcurrency, Logger: host.Logger, Now: host.Now,
		DrainTimeout: time.Duration(f.DrainTimeout), OrphanTimeout: time.Duration(f.OrphanTimeout), WorkingTo: f.workingTo(),
	}, agentexec.Deps{Journal: book, HTTP: client, Token: vault.token, Handlers: handlers})
	if err != nil {
		return err
	}
	if host.Ready != nil {
		over, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-agent.Ready():
				host.Ready()
			case <-over.Done():
			}
		}()
	}
	return agent.Run(ctx)
}

// workingTo is a third of the shortest window of inactivity, if that is short.
func (f *File) workingTo() time.Duration {
	to := 10 * time.Second
	for _, p := range f.Handlers {
		if third := time.Duration(p.Windows.Inactivity) / 3; third > 0 {
			to = min(to, third)
		}
	}
	return max(to, 5*time.Second)
}

// httpClient trusts the system's roots and those of a file, goes by the proxies
// of the environment, and follows no redirect: it would carry the token on. The
// certificate that it shows is read anew for each connection, for its life is short.
func (f *File) httpClient() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		roots, err := Roots(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = roots
	}
	if f.Cert != "" {
		if _, err := f.certificate(nil); err != nil {
			return nil, err
		}
		config.GetClientCertificate = f.certificate
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: config,
			TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 60 * time.Second, MaxIdleConnsPerHost: 4,
		},
	}, nil
}

func (f *File) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("cert, key: %w", err)
	}
	return &pair, nil
}

// Roots are the system's certificates and those of a file.
func Roots(ca string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca: %s holds no certificate", ca)
	}
	return roots, nil
}

// vault knows the agent's secrets. The token is read anew each time, so that a
// new one in the file is used without a restart.
type vault struct {
	file, fixed string
	keys        []string
}

func (v *vault) token() (string, error) {
	if v.file == "" {
		return strings.TrimSpace(v.fixed), nil
	}
	return ReadSecret("token_file", v.file)
}

// ReadSecret reads the one line of a file; what names the setting in an error.
func ReadSecret(what, path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	// A file made by hand ends in a newline, which is no part of it; one made by
	// Windows PowerShell is UTF-16.
	text := strings.TrimSpace(string(output.UTF8(raw)))
	if text == "" || strings.ContainsAny(text, "\r\n\x00") {
		return "", fmt.Errorf("%s: %s holds no single line", what, path)
	}
	return text, nil
}

// secrets are what no child may see and no output show.
func (v *vault) secrets() []string {
	all := append([]string(nil), v.keys...)
	if v.fixed != "" {
		all = append(all, strings.TrimSpace(v.fixed))
	}
	if token, err := v.token(); err == nil && token != "" {
		all = append(all, token)
	}
	return all
}

func (f *File) handlers(host Host, vault *vault) (map[string]agentexec.Handler, error) {
	runner := &work.Runner{
		Start: proc.Starter{Supervisor: host.Supervisor}.Start, Dir: filepath.Join(f.DataDir, "runs"),
		Environ: host.Environ, Secrets: vault.secrets, Now: host.Now,
	}
	out := make(map[string]agentexec.Handler, len(f.Handlers))
	for name, p := range f.Handlers {
		if p.KeyFile != "" {
			key, err := ReadSecret("handlers."+name+".key_file", p.KeyFile)
			if err != nil {
				return nil, err
			}
			vault.keys = append(vault.keys, key)
		}
		out[name] = p.handler(runner, f.adapters())
	}
	return out, nil
}

func (p Profile) handler(r *work.Runner, adapters map[string]work.Adapter) agentexec.Handler {
	windows := work.Windows{
		FirstOutput: time.Duration(p.Windows.FirstOutput), Inactivity: time.Duration(p.Windows.Inactivity),
		OpenTool: time.Duration(p.Windows.OpenTool), Ceiling: time.Duration(p.Windows.Ceiling),
		StopGrace: time.Duration(p.Windows.StopGrace), Linger: time.Duration(p.Windows.Linger),
	}
	before := work.Preflight{Version: p.Preflight.Version, For: time.Duration(p.Preflight.Timeout), Connect: p.Preflight.Connect}
	program := work.Program{
		Runner: r, Command: p.Command, ByFile: p.Payload == "file", Dir: p.Dir, PassEnv: p.PassEnv, SetEnv: p.Env,
		Windows: windows, Preflight: before,
	}
	switch p.Kind {
	case "exec":
		return &program
	case "powershell":
		return work.PowerShell(r, p.Script, program)
	case "http":
		return &work.Call{Client: localClient(), URL: p.URL, Header: p.Headers, Windows: windows, Connect: before.Connect, Runner: r}
	}
	a := adapters[p.Adapter]
	if a.Format == "http" {
		return p.endpoint(r, a, windows)
	}
	if len(p.Command) > 0 {
		a.Argv = withProgram(a, p.Command)
		if len(a.Resume) > 0 {
			a.Resume = append(append([]string(nil), p.Command...), a.Resume[1:]...)
		}
	}
	if len(before.Version) == 0 {
		before.Version = a.Version
	}
	before.For = cmp.Or(before.For, time.Duration(a.VersionFor))
	return &work.CLI{
		Runner: r, Name: p.Adapter, Adapter: a, Options: p.Args, Dir: p.Dir, PassEnv: p.PassEnv, SetEnv: p.Env,
		Windows: windows, Preflight: before,
	}
}

// withProgram puts a profile's program in the place of the adapter's.
func withProgram(a work.Adapter, command []string) []string {
	return append(append([]string(nil), command...), a.Argv[1:]...)
}

func (p Profile) endpoint(r *work.Runner, a work.Adapter, windows work.Windows) *work.Endpoint {
	e := &work.Endpoint{
		Client: &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment}}, Name: p.Adapter, Adapter: a,
		URL: p.URL, Model: p.Model, Windows: windows, Connect: p.Preflight.Connect, Runner: r,
	}
	if p.KeyFile != "" {
		e.Key = func() (string, error) { return ReadSecret("key_file", p.KeyFile) }
	}
	return e
}

// localClient reaches endpoints of this machine: no proxy lies between.
func localClient() *http.Client { return &http.Client{Transport: &http.Transport{}} }
