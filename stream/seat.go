package stream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"pushd/ackstore"
)

// errCut: another goroutine has cut the connection off.
var errCut = errors.New("cut off")

// Reason is why a stream says bye (protocol section 6).
type Reason string

// The reasons.
const (
	ByeShutdown Reason = "shutdown"
	ByeReplaced Reason = "replaced"
	ByeRevoked  Reason = "revoked"
	ByeRecycle  Reason = "recycle"
)

// Seat is one stream's or poll's hold on its machine, from Admit to Leave.
type Seat struct {
	registry *Registry
	at       *machine
	rules    *ackstore.Rules // shared
	req      ackstore.AttachReq
	tokenID  string
	gone     <-chan struct{} // closed when the client is; nil: left alone tells. The holder sets it, under registry.mu
	left     atomic.Bool     // the client has

	attached ackstore.Attached // set before Admit returns, under registry.mu
	seated   bool              // attached holds; likewise

	signals signals
	leave   sync.Once

	mu        sync.Mutex
	reason    Reason
	by        string
	holder    holder
	off       bool // cut was called
	unwritten []ackstore.Ref
}

// holder is who writes for a seat. Neither call may block.
type holder interface {
	cut()  // makes its writes fail
	poke() // has it see that it is asked to go
}

func newSeat(ctx context.Context, r *Registry, rules ackstore.Rules, req ackstore.AttachReq, tokenID string) *Seat {
	return &Seat{
		registry: r, rules: &rules, req: req, tokenID: tokenID, gone: ctx.Done(),
	}
}

// hostOf is an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// MachineID is whose seat it is.
func (s *Seat) MachineID() string { return s.req.MachineID }

// StreamID names this stream or poll.
func (s *Seat) StreamID() string { return s.req.StreamID }

// Attached is the store's answer to this seat's Attach.
func (s *Seat) Attached() ackstore.Attached { return s.attached }

// Closing is closed when the holder is asked to go; Asked then tells why.
func (s *Seat) Closing() <-chan struct{} { return s.signals.wait(&s.signals.asked) }

// hasEnded tells whether the holder has left.
func (s *Seat) hasEnded() bool { return s.signals.has(&s.signals.ended) }

// Asked is why the holder shall go, and the newcomer's address if it is
// replaced. Both are empty while it may stay.
func (s *Seat) Asked() (reason Reason, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason, s.by
}

// ask tells the holder to go; the first reason stands.
func (s *Seat) ask(reason Reason, address string) {
	s.mu.Lock()
	first, h := s.reason == "", s.holder
	if first {
		s.reason, s.by = reason, address
	}
	s.mu.Unlock()
	s.signals.give(&s.signals.asked)
	if first && h != nil {
		h.poke()
	}
}

// Return notes a delivery of which no byte was written; Leave gives it back.
func (s *Seat) Return(d ackstore.Dispatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwritten = append(s.unwritten, ackstore.Ref{ActionID: d.ActionID, Delivery: d.Delivery})
}

// bind says who writes. A cut that came before holds.
func (s *Seat) bind(h holder) {
	s.mu.Lock()
	off := s.off
	s.holder = h
	s.mu.Unlock()
	if off {
		h.cut()
	}
}

// cut makes a holder that hangs in a write fail.
func (s *Seat) cut() {
	s.mu.Lock()
	s.off = true
	h := s.holder
	s.mu.Unlock()
	if h != nil {
		h.cut()
	}
}

// outlive parts the seat from the request that it was admitted for: from now on
// only its holder knows whether the client has gone.
func (s *Seat) outlive() {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	s.gone = nil
}

// Leave detaches from the store, giving back what was returned, and frees the
// seat. It may be called again. While the store cannot write it blocks, for a
// lease that stays attached would be dispatched to; the machine's next holder
// does not wait for that.
func (s *Seat) Leave() { s.leave.Do(func() { s.registry.remove(s) }) }

// over tells whether the holder's client has gone, though it may not have left.
// It is asked by the holder, or under registry.mu.
func (s *Seat) over() bool {
	if s.left.Load() {
		return true
	}
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

func (s *Seat) detachReq() ackstore.DetachReq {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ackstore.DetachReq{Lease: s.attached.Lease, Unwritten: s.unwritten, Quiet: s.reason == ByeShutdown}
}

// awaitAll waits until all of seats have left, or until one of the other
// channels closes or d has passed; then it tells false.
func awaitAll(seats []*Seat, d time.Duration, closing, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, s := range seats {
		if s.hasEnded() {
			continue
		}
		select {
		case <-s.signals.wait(&s.signals.ended):
		case <-timer.C:
			return false
		case <-closing:
			return false
		case <-done:
			return false
		}
	}
	return true
}
