package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
	"pushd/inflight"
	"pushd/server"
	"pushd/server/api"
	"pushd/server/metrics"
	"pushd/stream"
)

// patience is how long something that must happen may take on a loaded machine.
const patience = 20 * time.Second

func rules() ackstore.Rules {
	return ackstore.Rules{
		OrphanTimeout: time.Minute, PollOrphanTimeout: time.Minute, InactivityTimeout: 10 * time.Minute, Ceiling: time.Hour,
		MaxDisconnectResends: 8, DisconnectGrace: time.Minute, ReconnectGrace: 2 * time.Minute, CancelGrace: 30 * time.Second,
		SuspectAfter: time.Minute, ErrorDelay: time.Second, BackoffBase: 10 * time.Second, BackoffMax: 10 * time.Minute,
		QuotaDelay: 15 * time.Minute, ReleaseDelay: 250 * time.Millisecond, BreakerThreshold: 3, BreakerPause: 5 * time.Minute,
		MaxInFlightBytes: 8 << 20, MaxQueued: 1000, MaxMachines: 1000,
		KeepSettled: 24 * time.Hour, KeepDead: 24 * time.Hour, KeepTombstones: 24 * time.Hour,
	}
}

// options change what start starts.
type options struct {
	config func(*server.Config)
	store  func(server.Store) server.Store // between the server and the real one
	deps   func(*server.Deps, *boltstore.Store)

	inbox    func(server.Inbox) server.Inbox
	listener func(net.Listener) net.Listener
	changed  func([]ackstore.Change) // hears too
	beside   func(*server.Server)    // begins what runs beside the server
	rules    func() ackstore.Rules
	now      func() time.Time    // the clock of all of it; nil: time.Now
	tokens   map[string][]string // name to scopes; made before the start
}

// clock is one that a test sets ahead.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) set(ahead time.Duration) { c.ahead.Store(int64(ahead)) }

// rig is a server on the real store, on a port of its own.
type rig struct {
	t      *testing.T
	addr   string
	store  *boltstore.Store
	log    *lockedBuffer
	tokens map[string]string // name to text
	stop   context.CancelFunc
	ended  chan error
}

type ears struct {
	*stream.Notifier
	*inflight.Watchdog
	*server.Hub
	metrics *metrics.Metrics
	also    func([]ackstore.Change)
}

func (e ears) Changed(c []ackstore.Change) {
	e.metrics.Changed(c)
	e.Hub.Changed(c)
	if e.also != nil {
		e.also(c)
	}
}

func start(t *testing.T, o options) *rig {
	t.Helper()
	if o.rules == nil {
		o.rules = rules
	}
	r := &rig{t: t, log: &lockedBuffer{}, tokens: map[string]string{}, ended: make(chan error, 1)}
	log := zerolog.New(r.log)
	listener := ears{stream.NewNotifier(), inflight.New(inflight.Config{Rules: o.rules, ScanInterval: time.Second, Now: o.now, Logger: log}), server.NewHub(), metrics.New("test"), o.changed}
	store, err := boltstore.Open(boltstore.Config{Dir: t.TempDir(), Now: o.now, Listener: listener, Logger: log})
	require.NoError(t, err)
	r.store = store
	for name, scopes := range o.tokens {
		r.tokens[name] = r.mint(name, scopes)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.addr = l.Addr().String()
	if o.listener != nil {
		l = o.listener(l)
	}
	config := server.Config{
		Rules: o.rules, Now: o.now, Stream: stream.Config{Heartbeat: time.Second, Log: log}, Open: true, Logger: log, Version: "test",
		Defaults: server.Defaults{MaxResends: 2, MaxAttempts: 2, TransientMaxAttempts: 5},
	}
	if o.config != nil {
		o.config(&config)
	}
	deps := server.Deps{
		Store: store, Registry: stream.NewRegistry(stream.RegistryConfig{Log: log}, store),
		Notifier: listener.Notifier, Hub: listener.Hub, Metrics: listener.metrics,
	}
	if o.store != nil {
		deps.Store = o.store(store)
	}
	if o.deps != nil {
		o.deps(&deps, store)
	}
	s := server.New(config, deps)
	r.run(s, l, listener.Watchdog)
	if o.beside != nil {
		o.beside(s)
	}
	return r
}

func (r *rig) mint(name string, scopes []string) string {
	r.t.Helper()
	token, text, err := server.NewToken(name, scopes, time.Time{}, time.Now(), rand.Reader)
	require.NoError(r.t, err)
	require.NoError(r.t, r.store.PutToken(context.Background(), token))
	return text
}

func (r *rig) run(s *server.Server, l net.Listener, w *inflight.Watchdog) {
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	watching, blind := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { _ = w.Run(watching, r.store) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.ended <- s.Run(ctx, l)
	}()
	r.t.Cleanup(func() {
		stop()
		<-done
		blind()
		watch.Wait()
		require.NoError(r.t, r.store.Close())
	})
}

// client calls the server under a token's name; "" is none.
func (r *rig) client(name string) *api.Client {
	return &api.Client{Base: "http://" + r.addr, Token: r.tokens[name]}
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a body (nil: none; a string as it is, anything else as JSON).
func (r *rig) call(method, path string, body any, headers ...string) answer {
	r.t.Helper()
	req := r.request(method, path, body, headers...)
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	a := answer{resp.StatusCode, resp.Header, raw}
	r.keepsContract(r.request(method, path, body, headers...), a)
	return a
}

func (r *rig) request(method, path string, body any, headers ...string) *http.Request {
	r.t.Helper()
	var reader io.Reader
	if text, ok := body.(string); ok {
		reader = strings.NewReader(text)
	} else if body != nil {
		raw, err := api.Marshal(body)
		require.NoError(r.t, err)
		reader = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.addr+path, reader)
	require.NoError(r.t, err)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		default:
			req.Header.Set(name, value)
		}
	}
	return req
}

// as is the header of a token's name.
func (r *rig) as(name string) string { return "Authorization: Bearer " + r.tokens[name] }

// want calls, requires a status and decodes the answer into out unless it is nil.
func (r *rig) want(status int, method, path string, body, out any, headers ...string) answer {
	r.t.Helper()
	a := r.call(method, path, body, headers...)
	require.Equal(r.t, status, a.status, "%s %s: %s", method, path, a.body)
	if status >= 400 {
		r.problem(a)
	}
	if out != nil {
		require.NoError(r.t, json.Unmarshal(a.body, out), "%s", a.body)
	}
	return a
}

// problem requires that an answer is a whole problem.
func (r *rig) problem(a answer) api.Problem {
	r.t.Helper()
	require.Equal(r.t, "application/problem+json", a.header.Get("Content-Type"), "%s", a.body)
	var p api.Problem
	require.NoError(r.t, json.Unmarshal(a.body, &p), "%s", a.body)
	require.Equal(r.t, a.status, p.Status)
	require.True(r.t, strings.HasPrefix(p.Type, "/problems/") && p.Title != "" && p.Detail != "", "%s", a.body)
	switch a.status {
	case 429, 503:
		require.Regexp(r.t, `^[1-9][0-9]*$`, a.header.Get("Retry-After"))
	case 401:
		require.Equal(r.t, "Bearer", a.header.Get("WWW-Authenticate"))
	case 405:
		require.NotEmpty(r.t, a.header.Get("Allow"))
	}
	for name := range a.header {
		require.False(r.t, strings.HasPrefix(name, "Access-Control-"), name)
	}
	return p
}

func push(id, machine string) map[string]any {
	return map[string]any{"action_id": id, "machine_id": machine, "type": "job"}
}

// subscribe opens a machine's stream and returns its events as they come.
func (r *rig) subscribe(machine, token string) *events {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := r.client(token).Subscribe(ctx, api.Subscription{MachineID: machine})
	require.NoError(r.t, err)
	e := &events{t: r.t, got: make(chan event, 1000), cancel: cancel}
	go e.read(resp.Body)
	r.t.Cleanup(cancel)
	return e
}

type event struct{ name, data string }

type events struct {
	t      *testing.T
	got    chan event // closed at the end of the stream
	cancel context.CancelFunc
}

func (e *events) read(body io.ReadCloser) {
	defer body.Close()
	defer close(e.got)
	d := stream.NewDecoder(body)
	for {
		next, err := d.Next()
		if err != nil {
			return
		}
		e.got <- event{next.Name, string(next.Data)}
	}
}

// await skips to the next event of a name.
func (e *events) await(name string) string {
	e.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case got, open := <-e.got:
			require.True(e.t, open, "the stream ended before %s", name)
			if got.name == name {
				return got.data
			}
		case <-deadline:
			require.Fail(e.t, "no event "+name)
		}
	}
}

// end waits for the end of the stream.
func (e *events) end() {
	e.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case _, open := <-e.got:
			if !open {
				return
			}
		case <-deadline:
			require.Fail(e.t, "the stream does not end")
		}
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func ids(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("a%03d", i)
	}
	return all
}
