package stream

import (
	"time"

	"pushd/ackstore"
)

// Hello is what the first event of a stream tells.
type Hello struct {
	Retry               time.Duration
	MachineID, StreamID string
	Now                 time.Time
	Heartbeat           time.Duration
	Credit              int
	OrphanTimeout       time.Duration
	InFlight            []ackstore.Held
}

// AppendHello appends the first block of a stream.
func AppendHello(dst []byte, h Hello) []byte { panic("soon") }

// AppendAction appends the block of one delivery. The payload is copied as it
// is.
func AppendAction(dst []byte, d ackstore.Dispatch) []byte { panic("soon") }

// AppendEnvelope appends the JSON object of one delivery, as in an action event
// or, withEventID, as the answer to a poll.
func AppendEnvelope(dst []byte, d ackstore.Dispatch, withEventID bool) []byte { panic("soon") }

// AppendHeartbeat appends a heartbeat.
func AppendHeartbeat(dst []byte, now time.Time) []byte { panic("soon") }

// AppendCancel appends the request to stop an action.
func AppendCancel(dst []byte, c ackstore.CancelNote) []byte { panic("soon") }

// Bye is what the last event of a stream tells.
type Bye struct {
	Reason  Reason
	Retry   time.Duration // told with shutdown and recycle
	Address string        // told with replaced, if known
}

// AppendBye appends the last block of a stream.
func AppendBye(dst []byte, b Bye) []byte { panic("soon") }
