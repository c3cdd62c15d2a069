package stream

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"pushd/ackstore"
)

// Config is how a stream behaves. The zero value has the defaults of the
// settings stream.*, but never recycles.
type Config struct {
	Heartbeat       time.Duration    // 0: 15 s
	WriteTimeout    time.Duration    // 0: 5 s
	DisconnectGrace time.Duration    // bounds what clients are told to wait; 0: 10 s
	MaxAge          time.Duration    // ±20 %; 0: never
	Batch           int              // dispatches per claim; 0: 64
	Now             func() time.Time // nil: time.Now
	Random          func() uint64    // safe for concurrent use; nil: math/rand/v2
	Log             zerolog.Logger
	Tally           *Tally // nil: not counted
	// Sent is told of each dispatch once its bytes were handed to the socket and
	// flushed, and of that moment; it must not block. Nil: nobody asks.
	Sent func(d ackstore.Dispatch, at time.Time)
}

func (c Config) withDefaults() Config {
	orDefault := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	orDefault(&c.Heartbeat, 15*time.Second)
	orDefault(&c.WriteTimeout, 5*time.Second)
	orDefault(&c.DisconnectGrace, 10*time.Second)
	if c.Batch <= 0 {
		c.Batch = 64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Uint64
	}
	if c.Tally == nil {
		c.Tally = new(Tally)
	}
	return c
}

// claimer is what a stream needs of a store.
type claimer interface {
	Claim(ctx context.Context, r ackstore.Rules, reqs []ackstore.ClaimReq) ([]ackstore.Claimed, error)
}

// Source is what all streams of a process have in common.
type Source struct {
	config   Config
	store    claimer
	notifier *Notifier
	began    time.Time
}

// moment is a time since a Source began: a third of a time.Time, of which each
// stream would keep several. Zero is none.
type moment time.Duration

func (s *Source) moment() moment { return moment(time.Since(s.began)) }

// in is a time after m.
func (m moment) in(d time.Duration) moment { return m + moment(d) }

// isDue tells whether a moment, if there is one, has come.
func (m moment) isDue(now moment) bool { return m != 0 && m <= now }

// NewSource returns a Source; nothing runs yet.
func NewSource(c Config, store claimer, n *Notifier) *Source {
	return &Source{config: c.withDefaults(), store: store, notifier: n, began: time.Now()}
}

// SetHeaders sets the headers of an event stream: nothing on the way may keep
// it, change it or hold it back.
func SetHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// Run writes an admitted stream to w, which must let a write deadline be set
// (http.ResponseController), until the client goes (ctx), the seat is asked for,
// or a write fails; only the last is an error. It has left the seat when it
// returns. A panic on the way is the caller's, as a [*PanicError].
func (s *Source) Run(ctx context.Context, seat *Seat, w http.ResponseWriter) error {
	done := make(chan error, 1)
	g := &Generator{Source: s, seat: seat, ended: func(err error) { done <- err }}
	g.socket.open(newAnswer(w), s.config.WriteTimeout)
	g.begin()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		g.hangUp()
		err = <-done
	}
	if p, is := err.(*PanicError); is { //nolint:errorlint // nobody wraps it
		panic(p)
	}
	return err
}
