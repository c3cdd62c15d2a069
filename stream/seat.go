package stream

import (
	"context"
	"errors"
	"net"
	"sync"
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
	rules    ackstore.Rules
	req      ackstore.AttachReq
	host     string // of req.Address
	tokenID  string
	gone     <-chan struct{} // closed when the client is
	against  string          // the holder's address, where it came by a contest

	attached ackstore.Attached // set before Admit returns, under registry.mu
	seated   bool              // attached holds; likewise

	closing chan struct{} // closed when the holder shall go
	ended   chan struct{} // closed when it has left
	leave   sync.Once

	mu        sync.Mutex
	reason    Reason
	by        string
	cutter    func()
	off       bool // cut was called
	unwritten []ackstore.Ref
}

func newSeat(ctx context.Context, r *Registry, rules ackstore.Rules, req ackstore.AttachReq, tokenID string) *Seat {
	return &Seat{
		registry: r, rules: rules, req: req, host: hostOf(req.Address), tokenID: tokenID,
		gone: ctx.Done(), closing: make(chan struct{}), ended: make(chan struct{}),
	}
}

// hostOf is an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// StreamID names this stream or poll.
func (s *Seat) StreamID() string { return s.req.StreamID }

// Attached is the store's answer to this seat's Attach.
func (s *Seat) Attached() ackstore.Attached { return s.attached }

// Closing is closed when the holder is asked to go; Asked then tells why.
func (s *Seat) Closing() <-chan struct{} { return s.closing }

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
	defer s.mu.Unlock()
	if s.reason == "" {
		s.reason, s.by = reason, address
		close(s.closing)
	}
}

// Return notes a delivery of which no byte was written; Leave gives it back.
func (s *Seat) Return(d ackstore.Dispatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwritten = append(s.unwritten, ackstore.Ref{ActionID: d.ActionID, Delivery: d.Delivery})
}

// bind says how to make the holder's writes fail. A cut that came before holds.
func (s *Seat) bind(cutter func()) {
	s.mu.Lock()
	off := s.off
	s.cutter = cutter
	s.mu.Unlock()
	if off {
		cutter()
	}
}

// cut makes a holder that hangs in a write fail.
func (s *Seat) cut() {
	s.mu.Lock()
	s.off = true
	cutter := s.cutter
	s.mu.Unlock()
	if cutter != nil {
		cutter()
	}
}

// Leave detaches from the store, giving back what was returned, and frees the
// seat. It may be called again. While the store cannot write it blocks, for a
// lease that stays attached would be dispatched to; the machine's next holder
// does not wait for that.
func (s *Seat) Leave() { s.leave.Do(func() { s.registry.remove(s) }) }

// over tells whether the holder's client has gone, though it may not have left.
func (s *Seat) over() bool {
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
		select {
		case <-s.ended:
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
