package stream

import "pushd/ackstore"

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
	lease ackstore.Lease
}

// StreamID names this stream or poll.
func (s *Seat) StreamID() string { panic("soon") }

// Attached is the store's answer to this seat's Attach.
func (s *Seat) Attached() ackstore.Attached { panic("soon") }

// Closing is closed when the holder is asked to go; Asked then tells why.
func (s *Seat) Closing() <-chan struct{} { panic("soon") }

// Asked is why the holder shall go, and the newcomer's address if it is
// replaced. Both are empty while it may stay.
func (s *Seat) Asked() (reason Reason, address string) { panic("soon") }

// Return notes a delivery of which no byte was written; Leave gives it back.
func (s *Seat) Return(d ackstore.Dispatch) { panic("soon") }

// Leave detaches from the store and frees the seat. It may be called again.
func (s *Seat) Leave() { panic("soon") }
