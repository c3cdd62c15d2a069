package stream

import (
	"context"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"pushd/ackstore"
)

// Config is how a stream behaves. The zero value has the defaults of the
// settings stream.*, and never recycles.
type Config struct {
	Heartbeat       time.Duration // 0: 15 s
	WriteTimeout    time.Duration // 0: 5 s
	DisconnectGrace time.Duration // bounds what clients are told to wait; 0: 10 s
	MaxAge          time.Duration // ±20 %; 0: never
	Batch           int           // dispatches per claim; 0: 64
	Now             func() time.Time
	Random          func() uint64 // safe for concurrent use; nil: math/rand/v2
	Log             zerolog.Logger
	Tally           *Tally // nil: not counted
}

// claimer is what a stream needs of a store.
type claimer interface {
	Claim(ctx context.Context, r ackstore.Rules, reqs []ackstore.ClaimReq) ([]ackstore.Claimed, error)
}

// Generator writes one stream; the goroutine that runs it owns the socket.
type Generator struct{}

// New returns the generator of an admitted stream. w must let a write deadline
// be set (http.ResponseController).
func New(c Config, store claimer, n *Notifier, seat *Seat, w http.ResponseWriter) *Generator {
	panic("soon")
}

// Run writes hello and then whatever the machine is owed, until the client goes
// (ctx), the seat is asked for, or a write fails; only the last is an error. It
// has left the seat when it returns.
func (g *Generator) Run(ctx context.Context) error { panic("soon") }

// SetHeaders sets the headers of an event stream.
func SetHeaders(h http.Header) { panic("soon") }
