package stream

import (
	"io"
	"time"
)

// Decoder reads events from a stream.
type Decoder struct{}

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder { panic("soon") }

// Limit bounds the bytes that one event may take in memory; over it Next
// returns ErrEventTooLarge. The default is 16 MiB.
func (d *Decoder) Limit(bytes int) { panic("soon") }

// Next returns the next event as soon as its blank line has been read; an event
// cut off by the end of the stream is never returned: io.EOF where the stream
// ended between events, io.ErrUnexpectedEOF where within one.
func (d *Decoder) Next() (Event, error) { panic("soon") }

// LastEventID is the id to send as Last-Event-ID: that of the last whole block.
func (d *Decoder) LastEventID() string { panic("soon") }

// Retry is the last reconnection time the stream has told; false if none yet.
func (d *Decoder) Retry() (time.Duration, bool) { panic("soon") }
