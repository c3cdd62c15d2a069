package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
	"pushd/cmd/pushd/settings"
	"pushd/inflight"
	"pushd/server"
	"pushd/server/api"
	"pushd/server/metrics"
	"pushd/server/trace"
	"pushd/stream"
)

// service is a whole pushd: what is wired here is all that runs.
type service struct {
	log      zerolog.Logger
	book     *book
	sys      *systemd
	store    *boltstore.Store
	watchdog *inflight.Watchdog
	server   *server.Server
	outside  *outside
	traces   *trace.Tracer
	listener net.Listener
}

// newService opens the store and the address and wires the parts; nothing runs
// yet. What is wrong with either is an error of one line.
func newService(ctx context.Context, set *settings.Loaded, log zerolog.Logger) (*service, error) {
	book := newBook(set)
	rules := book.rules
	counts := metrics.New(buildVersion())
	watchdog := inflight.New(inflight.Config{Rules: rules, ScanInterval: set.Watchdog.ScanInterval, Swept: counts.Swept, Logger: log})
	out, err := newOutside(set.Document, rules, log)
	if err != nil {
		return nil, err
	}
	traces, err := tracerOf(ctx, set, log)
	if err != nil {
		return nil, err
	}
	ears := &listener{traces: traces, notifier: stream.NewNotifier(), watchdog: watchdog, hub: server.NewHub(), outside: out, metrics: counts}
	store, err := boltstore.Open(boltstore.Config{Dir: set.DataDir, Listener: ears, Commit: counts.Committed, Logger: log})
	if err != nil {
		return nil, storeError(set.DataDir, err)
	}
	s := &service{log: log, book: book, store: store, watchdog: watchdog, outside: out, traces: traces}
	if err := store.Follow(ctx, server.FollowingOf(out.set)); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if s.listener, err = listen(ctx, set.Listen); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	open, err := admission(ctx, set, store, s.listener.Addr(), log)
	if err != nil {
		return nil, errors.Join(err, s.listener.Close(), store.Close())
	}
	registry := stream.NewRegistry(stream.RegistryConfig{MaxStreams: set.Stream.MaxStreams, Log: log}, store)
	config, err := serverConfig(set, rules, open, log)
	if err != nil {
		return nil, errors.Join(err, s.listener.Close(), store.Close())
	}
	s.server = server.New(config, server.Deps{
		Store: store, Registry: registry, Notifier: ears.notifier, Hub: ears.hub, Watchdog: s.watchdogCounters, Metrics: counts,
		Webhooks: server.Webhooks{Set: out.set, Inbox: store, Bell: out.bell}, Backup: backupOf(store, set.DataDir),
	})
	return s, nil
}

// run serves until ctx ends or a part fails. This is the order in which things
// end: the server refuses pushes, ends its streams and answers the acks in
// progress; then chains stop, the watchdog, alerts, which hear of both, and traces; then the store closes, which all stood on.
func (s *service) run(ctx context.Context) error {
	parts := &actors{}
	parts.add("store", func(ctx context.Context) error {
		<-ctx.Done()
		return s.store.Close()
	})
	parts.add("traces", s.traces.Run)
	parts.add("alerts", func(ctx context.Context) error { return s.outside.bureau.Run(ctx, s.store) })
	parts.add("watchdog", func(ctx context.Context) error { return s.watchdog.Run(ctx, s.store) })
	parts.add("chains", s.server.RunChains)
	parts.add("server", func(ctx context.Context) error { return s.server.Run(ctx, s.listener) })
	parts.add("reloads", s.runReloads)
	parts.add("systemd", func(ctx context.Context) error {
		return s.sys.run(ctx, func() int64 { return s.watchdog.Metrics().Scans })
	})
	s.log.Info().Str("address", s.listener.Addr().String()).Bool("tls", s.book.now.Load().TLS.CertFile != "").Str("version", buildVersion()).Msg("listening")
	err := parts.run(ctx)
	s.log.Info().AnErr("error", err).Msg("ended")
	return err
}

func serverConfig(set *settings.Loaded, rules func() ackstore.Rules, open bool, log zerolog.Logger) (server.Config, error) {
	certificate, err := certificateOf(set, log)
	return server.Config{
		TLS:            certificate,
		TrustedProxies: set.Auth.TrustedProxies,
		InstallDir:     set.Install.Dir,
		SessionFile:    filepath.Join(set.DataDir, "sessions.json"),
		MaxTries:       set.Auth.MaxFailures,
		TriesWindow:    set.Auth.FailureWindow,

		Rules: rules,
		Stream: stream.Config{
			Heartbeat:       set.Stream.Heartbeat,
			WriteTimeout:    set.Stream.WriteTimeout,
			DisconnectGrace: set.Stream.DisconnectGrace,
			MaxAge:          set.Stream.MaxAge,
			Log:             log,
		},
		Limits:   limitsOf(set),
		Defaults: defaultsOf(set),
		Open:     open,
		Insecure: set.Auth.Insecure,
		Logger:   log,
		Version:  buildVersion(),
	}, err
}

// tracerOf is nil where no collector is named.
func tracerOf(ctx context.Context, set *settings.Loaded, log zerolog.Logger) (*trace.Tracer, error) {
	if set.Traces.Endpoint == "" {
		return nil, nil
	}
	return trace.New(ctx, trace.Config{Endpoint: set.Traces.Endpoint, Sample: set.Traces.Sample, Version: buildVersion(), Logger: log})
}

// certificateOf reads the files of TLS, if there are any.
func certificateOf(set *settings.Loaded, log zerolog.Logger) (*tls.Config, error) {
	if set.TLS.CertFile == "" {
		return nil, nil
	}
	return server.LoadTLS(server.TLSFiles{Cert: set.TLS.CertFile, Key: set.TLS.KeyFile, ClientCA: set.TLS.ClientCAFile}, log)
}

func limitsOf(set *settings.Loaded) server.Limits {
	return server.Limits{
		MaxPayloadBytes: int64(set.Limits.MaxPayloadBytes),
		MaxResultBytes:  int64(set.Limits.MaxResultBytes),
		MaxBodyBytes:    int64(set.Limits.MaxBodyBytes),
	}
}

func defaultsOf(set *settings.Loaded) server.Defaults {
	return server.Defaults{
		MaxResends:           set.Watchdog.MaxResends,
		MaxAttempts:          set.Policy.MaxAttempts,
		TransientMaxAttempts: set.Policy.TransientMaxAttempts,
		SkipTypes:            set.Watchdog.SkipTypes,
	}
}

// listen opens the address. Multipath TCP would refuse the timeout that finds
// dead peers, so it is off.
func listen(ctx context.Context, address string) (net.Listener, error) {
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// admission decides whether callers need a token. A server that anybody can
// reach, and that anybody may command, does not start.
func admission(ctx context.Context, set *settings.Loaded, store *boltstore.Store, at net.Addr, log zerolog.Logger) (open bool, err error) {
	tokens, err := store.Tokens(ctx)
	if err != nil {
		return false, err
	}
	tcp, ok := at.(*net.TCPAddr)
	loopback := ok && tcp.IP.IsLoopback()
	switch {
	case set.Auth.Insecure && len(tokens) == 0:
		log.Warn().Msg("auth.insecure: no token, and everybody who reaches this address may push, read and command")
	case loopback && len(tokens) == 0:
		log.Warn().Msg("no token: open on loopback, to everybody on this machine; `pushctl token create` closes it")
	case len(tokens) == 0:
		return false, &exitError{
			code: exitFailure,
			text: fmt.Sprintf("refusing to listen on %s without a token: it is not loopback", set.Listen),
			next: "make one with `pushctl token create --name NAME --scope admin`, or set auth.insecure=true",
		}
	}
	return loopback || set.Auth.Insecure, nil
}

func storeError(dir string, err error) error {
	if errors.Is(err, ackstore.ErrInUse) {
		return &exitError{
			code: exitFailure,
			text: "the data directory " + dir + " is in use by another pushd",
			next: "stop that one, or name another with --data-dir",
		}
	}
	if errors.Is(err, ackstore.ErrNewer) {
		return newerData("the data directory "+dir, err)
	}
	return err
}

// watchdogCounters are what the server tells of the watchdog.
func (s *service) watchdogCounters() api.Watchdog {
	m := s.watchdog.Metrics()
	w := api.Watchdog{
		OrphansDetectedTotal: uint64(m.OrphansDetected),
		OrphansResentTotal:   uint64(m.OrphansResent),
		OrphansGiveupTotal:   uint64(m.OrphansGivenUp),
		ScansTotal:           uint64(m.Scans),
		ScansFailedTotal:     uint64(m.ScansFailed),
		LastScanDurationMS:   float64(m.LastScanTook) / float64(time.Millisecond),
	}
	if !m.LastScan.IsZero() {
		at := api.At(m.LastScan)
		w.LastScanTS = &at
	}
	return w
}

// listener passes on what the store says after a commit, each to who wants it.
type listener struct {
	notifier *stream.Notifier
	watchdog *inflight.Watchdog
	hub      *server.Hub
	outside  *outside
	metrics  *metrics.Metrics
	traces   *trace.Tracer
}

// Wake wakes the machine's stream.
func (l *listener) Wake(machineID string) { l.notifier.Wake(machineID) }

// Due sets the watchdog's alarm.
func (l *listener) Due(next time.Time) { l.watchdog.Due(next) }

// Changed is counted and told on.
func (l *listener) Changed(changes []ackstore.Change) {
	l.watchdog.Changed(changes)
	l.metrics.Changed(changes)
	l.hub.Changed(changes)
	l.outside.Changed(changes)
	l.traces.Changed(changes)
}
