package stream

import "time"

// Event is one event of an event stream (WHATWG HTML, server-sent events).
type Event struct {
	ID    string // on reading: the last event id, which an event without one inherits
	Name  string // empty: message
	Data  []byte
	Retry time.Duration // 0: none; whole milliseconds
}

// AppendTo appends the block of e to dst. It refuses what a reader could not get
// back as it is.
func (e Event) AppendTo(dst []byte) ([]byte, error) { panic("soon") }
