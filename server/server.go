package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/rs/zerolog"

	"pushd/ackstore"
	"pushd/server/api"
	"pushd/server/metrics"
	"pushd/stream"
)

// Config is how a server behaves.
type Config struct {
	Rules    func() ackstore.Rules // in force now; it is called for each verb
	Stream   stream.Config         // of every event stream
	Limits   Limits
	Defaults Defaults

	Open     bool // callers need no token while none exists (a loopback address, or Insecure)
	Insecure bool // nor need they come from this host

	TLS            *tls.Config    // of LoadTLS; nil: none
	TrustedProxies []netip.Prefix // whose X-Forwarded-For is believed
	InstallDir     string         // a release that the install scripts download from; empty: none
	SessionFile    string         // where who is signed in is kept over a restart; empty: nowhere
	MaxTries       int            // bad tokens of one address at once; 0: no limit
	TriesWindow    time.Duration  // in which so many more are taken; 0: 1 min

	BodyTimeout time.Duration // for a whole body, and between two reads of NDJSON; 0: 30 s
	IdleTimeout time.Duration // of a kept connection; 0: 120 s, more than proxies keep theirs
	DrainGrace  time.Duration // for open requests at the end, before they are cut; 0: 2.5 s

	Now     func() time.Time // nil: time.Now
	Rand    io.Reader        // unguessable, for concurrent use; nil: crypto/rand
	Logger  zerolog.Logger
	Version string
}

// Limits bound what is read. Zero is the default of the settings limits.*.
type Limits struct {
	MaxPayloadBytes, MaxResultBytes, MaxBodyBytes int64
}

// Defaults fill in what a push does not say.
type Defaults struct {
	MaxResends, MaxAttempts, TransientMaxAttempts int
	SkipTypes                                     []string // given at_most_once
}

// Deps are what a server stands on.
type Deps struct {
	Store    Store
	Registry *stream.Registry
	Notifier *stream.Notifier
	Hub      *Hub                // also the store's listener
	Watchdog func() api.Watchdog // nil: all zero
	Metrics  *metrics.Metrics    // what else is to be counted tells it too; nil: one of its own
	Webhooks Webhooks            // zero: no route is there
	Backup   Backup              // nil: GET /v1/backup is unknown
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.BodyTimeout, 30*time.Second)
	set(&c.IdleTimeout, 120*time.Second)
	set(&c.TriesWindow, time.Minute)
	set(&c.Stream.WriteTimeout, 5*time.Second) // polls are answered under it too
	set(&c.DrainGrace, 2500*time.Millisecond)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Rules == nil {
		c.Rules = func() ackstore.Rules { return ackstore.Rules{} }
	}
	return c
}

// Server answers HTTP.
type Server struct {
	cfg      Config
	store    Store
	registry *stream.Registry
	notifier *stream.Notifier
	source   *stream.Source
	hub      *Hub
	watchdog func() api.Watchdog
	metrics  *metrics.Metrics

	echo     *echo.Echo
	keys     *keyring
	sessions *sessions
	tries    *throttle
	feed     *feed
	hooks    *hooks
	bounds   atomic.Pointer[bounds]
	backups  backups
	pulse    pulse

	fleetView fleetView
	deadView  deadView
	tokens    sync.Mutex // one change of the tokens at a time

	stopping chan struct{} // closed when draining begins
	draining atomic.Bool
	requests crowd
	serial   atomic.Uint64
	boot     string // of request ids
}

// New returns a server that listens to nothing yet.
func New(c Config, d Deps) *Server {
	c = c.withDefaults()
	s := &Server{
		cfg: c, store: d.Store, registry: d.Registry, notifier: d.Notifier, hub: d.Hub, watchdog: d.Watchdog,
		metrics: d.Metrics, stopping: make(chan struct{}),
	}
	if s.watchdog == nil {
		s.watchdog = func() api.Watchdog { return api.Watchdog{} }
	}
	s.measure()
	if s.hub == nil {
		s.hub = NewHub()
	}
	s.source = stream.NewSource(s.cfg.Stream, s.store, s.notifier)
	s.boot = bootID(c.Rand)
	s.keys = newKeyring(c.Now, s.tokensEnded)
	s.sessions = newSessions(c)
	s.tries = newThrottle(c.MaxTries, c.TriesWindow, c.Now)
	s.feed = newFeed(s.hub, c.Logger)
	s.hooks = newHooks(d.Webhooks)
	s.backups.make = d.Backup
	s.Adopt(c.Limits, c.Defaults)
	s.echo = s.router()
	return s
}

// measure has the streams counted.
func (s *Server) measure() {
	if s.metrics == nil {
		s.metrics = metrics.New(s.cfg.Version)
	}
	if s.cfg.Stream.Tally == nil {
		s.cfg.Stream.Tally = &stream.Tally{}
	}
	if s.cfg.Stream.Sent == nil {
		s.cfg.Stream.Sent = s.metrics.Sent
	}
}

// Run serves l until ctx ends and then drains: nothing new is taken, streams say
// bye, open requests have DrainGrace to end. It returns when all of its goroutines
// are gone, within five seconds even if a client hangs; nil after a drain.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	if err := s.keys.load(ctx, s.store); err != nil {
		return errors.Join(err, l.Close())
	}
	defer s.keys.close()
	if err := s.sessions.load(); err != nil {
		s.cfg.Logger.Warn().Err(err).Msg("the dashboards' sessions cannot be read; everybody has to sign in again")
	}
	// Requests outlive ctx by the drain; this context cuts what is left then.
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var others sync.WaitGroup
	watching, blind := context.WithCancel(context.WithoutCancel(ctx))
	defer blind()
	others.Go(func() { s.feed.run(watching) })
	others.Go(func() { s.seedLost(watching) })
	others.Go(func() { s.seedUnacked(watching) })
	others.Go(func() { s.keepUses(watching) })
	hs := s.httpServer(base)
	served := make(chan error, 1)
	go func() { served <- serve(hs, l) }()
	var err error
	select {
	case <-ctx.Done():
		s.drain(hs)
		<-served
	case err = <-served:
		s.drain(hs)
	}
	cut()
	_ = hs.Close()
	if !s.requests.await(time.Second) { // their connections are closed
		s.cfg.Logger.Warn().Msg("requests are still running; going without them")
	}
	blind() // the feed is last: its viewers could not leave it otherwise
	others.Wait()
	return err
}

func (s *Server) beginDrain() {
	if s.draining.CompareAndSwap(false, true) {
		close(s.stopping)
	}
}

// drain ends what is open. Who hangs is cut off by the caller.
func (s *Server) drain(hs *http.Server) {
	s.beginDrain()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainGrace)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if err := s.registry.CloseAll(ctx, stream.ByeShutdown); err != nil {
			s.cfg.Logger.Debug().Err(err).Msg("streams were cut off")
		}
	}()
	if err := hs.Shutdown(ctx); err != nil {
		s.cfg.Logger.Debug().Err(err).Msg("requests were cut off")
	}
	<-gone
}

// tokensEnded ends what is open under tokens that are no more.
func (s *Server) tokensEnded(ids map[string]bool) {
	if s.registry != nil {
		s.registry.CloseTokens(func(id string) bool { return ids[id] })
	}
	s.feed.closeTokens(ids)
}

// rules are those in force.
func (s *Server) rules() ackstore.Rules { return s.cfg.Rules() }

// jitter is drawn evenly from 0 to 1.
func (s *Server) jitter() float64 {
	var raw [8]byte
	if _, err := io.ReadFull(s.cfg.Rand, raw[:]); err != nil {
		return 0.5 // no spread is better than no answer
	}
	return float64(binary.LittleEndian.Uint64(raw[:])>>11) / (1 << 53)
}
