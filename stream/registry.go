package stream

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"pushd/ackstore"
)

// RegistryConfig is what a Registry needs to know.
type RegistryConfig struct {
	MaxStreams   int           // machines with a live stream or poll; 0: no bound
	TakeoverWait time.Duration // how long a replaced stream may take for its bye; 0: 150 ms
	Now          func() time.Time
	Random       func() uint64 // safe for concurrent use; nil: math/rand/v2
	Log          zerolog.Logger
}

// attacher is what a Registry needs of a store.
type attacher interface {
	Attach(ctx context.Context, r ackstore.Rules, reqs []ackstore.AttachReq) ([]ackstore.Attached, error)
	Detach(ctx context.Context, r ackstore.Rules, reqs []ackstore.DetachReq) error
}

// Registry knows who holds each machine now, and decides who may take over.
type Registry struct {
	store attacher
}

// NewRegistry returns an empty Registry.
func NewRegistry(c RegistryConfig, store attacher) *Registry { panic("soon") }

// Admit gives the seat of req.MachineID to the caller and attaches it to the
// store, or returns a *RefusedError or the store's error. The holder before, if
// there is one, is told to go and waited for. ctx is the request's: once it is
// done the seat counts as left. req.StreamID is drawn if it is empty. tokenID is
// opaque, see CloseTokens. Whoever gets a Seat must Leave it.
func (r *Registry) Admit(ctx context.Context, rules ackstore.Rules, req ackstore.AttachReq, tokenID string) (*Seat, error) {
	panic("soon")
}

// CloseAll admits nobody from now on and ends every stream with reason, every
// poll empty-handed. It returns when all are gone; those that are not when ctx
// is done are cut off.
func (r *Registry) CloseAll(ctx context.Context, reason Reason) error { panic("soon") }

// CloseTokens ends, as revoked, every stream and poll whose token match selects.
func (r *Registry) CloseTokens(match func(tokenID string) bool) { panic("soon") }

// Standing tells what has become of a stream of a machine. The lease is valid
// only with Live.
func (r *Registry) Standing(machineID, streamID string) (ackstore.Lease, Standing) { panic("soon") }

// Contested tells whether a machine is fought over: a contest is shown until an
// hour has passed without another.
func (r *Registry) Contested(machineID string) (Contest, bool) { panic("soon") }

// Counts of what is live, and of what happened since the start.
func (r *Registry) Counts() RegistryCounts { panic("soon") }

// Standing is what has become of a stream.
type Standing uint8

// A stream that is not remembered is Gone: reconnect. After Replaced wait.
const (
	Gone Standing = iota
	Live
	Replaced
)

// Contest tells between whom a machine is contested.
type Contest struct {
	Addresses []string // hosts
	Since     time.Time
}

// RegistryCounts are numbers for metrics. All but the first three only grow.
type RegistryCounts struct {
	Machines, Streams, Polls                      int
	Admitted, Takeovers, Contests, Refused, Kicks uint64
}
