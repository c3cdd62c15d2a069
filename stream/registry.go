package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"pushd/ackstore"
)

// RegistryConfig is what a Registry needs to know.
type RegistryConfig struct {
	MaxStreams   int              // machines with a live stream or poll; 0: no bound
	TakeoverWait time.Duration    // what a replaced stream may take for its bye; 0: 150 ms
	Now          func() time.Time // nil: time.Now
	Random       func() uint64    // safe for concurrent use; nil: math/rand/v2
	Log          zerolog.Logger
}

const (
	defaultTakeoverWait = 150 * time.Millisecond
	cutWait             = time.Second      // from a cut to the end of its detach
	storePatience       = 10 * time.Second // for one call to the store
	detachPause         = 250 * time.Millisecond
	maxDetachPause      = 5 * time.Second
)

// attacher is what a Registry needs of a store. Each Attach is followed by one
// Detach, those of joined polls too.
type attacher interface {
	Attach(ctx context.Context, r ackstore.Rules, reqs []ackstore.AttachReq) ([]ackstore.Attached, error)
	Detach(ctx context.Context, r ackstore.Rules, reqs []ackstore.DetachReq) error
}

// Registry knows who holds each machine now, and decides who may take over.
type Registry struct {
	store  attacher
	max    int
	wait   time.Duration
	now    func() time.Time
	random func() uint64
	log    zerolog.Logger
	stop   chan struct{} // closed when CloseAll waits no longer
	giveUp sync.Once

	mu       sync.Mutex // never held across a call to the store or a wait
	machines map[string]*machine
	contests contests
	replaced recall
	draining bool
	counts   RegistryCounts
	rules    *ackstore.Rules // of the newest seat
}

// machine is who holds one: a stream, or polls of one instance.
type machine struct {
	live      []*Seat
	leaving   []*Seat // replaced, or with their client gone; not detached yet
	attaching *Seat   // whose turn it is to be attached: epochs follow the order of arrival
}

// NewRegistry returns an empty Registry.
func NewRegistry(c RegistryConfig, store attacher) *Registry {
	r := &Registry{
		store: store, max: c.MaxStreams, wait: c.TakeoverWait, now: c.Now, random: c.Random, log: c.Log,
		stop: make(chan struct{}), machines: make(map[string]*machine),
		contests: contests{of: make(map[string]*contest)}, replaced: newRecall(),
	}
	if r.wait <= 0 {
		r.wait = defaultTakeoverWait
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.random == nil {
		r.random = rand.Uint64
	}
	return r
}

// retire moves holders from live to leaving.
func (r *Registry) retire(m *machine, which func(*Seat) bool) {
	before := len(m.live)
	m.live = slices.DeleteFunc(m.live, func(s *Seat) bool {
		if !which(s) {
			return false
		}
		m.leaving = append(m.leaving, s)
		r.count(s, -1)
		return true
	})
	if before > 0 && len(m.live) == 0 {
		r.counts.Machines--
	}
}

func (r *Registry) count(s *Seat, by int) {
	if s.req.Via == ackstore.ViaPoll {
		r.counts.Polls += by
	} else {
		r.counts.Streams += by
	}
}

// remove takes s out. From here on it is no longer contested, but its successor
// still waits until the store has what it gives back.
func (r *Registry) remove(s *Seat) {
	defer s.signals.give(&s.signals.ended)
	r.mu.Lock()
	r.retire(s.at, func(h *Seat) bool { return h == s })
	r.mu.Unlock()
	if s.seated {
		r.detach(s)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.at.leaving = slices.DeleteFunc(s.at.leaving, func(h *Seat) bool { return h == s })
	if len(s.at.live)+len(s.at.leaving) == 0 {
		delete(r.machines, s.req.MachineID)
	}
}

// detach tries until the store can write, or the server has no more time.
func (r *Registry) detach(s *Seat) {
	req := []ackstore.DetachReq{s.detachReq()}
	for pause := detachPause; ; pause = min(2*pause, maxDetachPause) {
		err := r.detachOnce(*s.rules, req)
		if err == nil {
			return
		}
		log := r.log.Error().Err(err).Str("machine_id", s.req.MachineID)
		if !errors.Is(err, ackstore.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			log.Msg("stream could not be detached")
			return
		}
		log.Dur("again_in", pause).Msg("stream is not detached yet")
		select {
		case <-time.After(pause):
		case <-r.stop:
			return
		}
	}
}

func (r *Registry) detachOnce(rules ackstore.Rules, req []ackstore.DetachReq) error {
	ctx, cancel := context.WithTimeout(context.Background(), storePatience)
	defer cancel()
	return r.store.Detach(ctx, rules, req)
}
