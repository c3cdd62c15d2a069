package stream

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrUnencodable is why Event.AppendTo refuses an event.
var ErrUnencodable = errors.New("stream: event would not read back as it is")

// Event is one event of an event stream (WHATWG HTML, server-sent events).
type Event struct {
	ID    string // on reading: the last event id, which an event without one inherits
	Name  string // empty: no event line, which browsers call "message"
	Data  []byte // nil and empty are the same
	Retry time.Duration
}

// AppendTo appends the block of e to dst, always with a data line, for without
// one readers drop the block. It returns dst as it was and ErrUnencodable for
// what a reader could not get back as it is:
//
//   - an ID or Name with CR or LF (they end a line) or NUL (readers ignore such
//     an id; refused in names for symmetry),
//   - Data with CR (it reads back as LF),
//   - any of them in ill-formed UTF-8 (readers replace it),
//   - a Retry below zero or with a fraction of a millisecond.
//
// LF in Data is fine: it becomes one more data line. An ID cannot be reset to
// the empty one.
func (e Event) AppendTo(dst []byte) ([]byte, error) {
	if err := e.check(); err != nil {
		return dst, err
	}
	if e.Retry != 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, e.Retry.Milliseconds(), 10)
		dst = append(dst, '\n')
	}
	if e.ID != "" {
		dst = append(append(append(dst, "id: "...), e.ID...), '\n')
	}
	if e.Name != "" {
		dst = append(append(append(dst, "event: "...), e.Name...), '\n')
	}
	for rest, more := e.Data, true; more; {
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte{'\n'})
		dst = append(append(append(dst, "data: "...), line...), '\n')
	}
	return append(dst, '\n'), nil
}

func (e Event) check() error {
	switch {
	case strings.ContainsAny(e.ID, "\r\n\x00"):
		return fmt.Errorf("%w: CR, LF or NUL in id", ErrUnencodable)
	case strings.ContainsAny(e.Name, "\r\n\x00"):
		return fmt.Errorf("%w: CR, LF or NUL in name", ErrUnencodable)
	case bytes.IndexByte(e.Data, '\r') >= 0:
		return fmt.Errorf("%w: CR in data", ErrUnencodable)
	case !utf8.ValidString(e.ID), !utf8.ValidString(e.Name), !utf8.Valid(e.Data):
		return fmt.Errorf("%w: ill-formed UTF-8", ErrUnencodable)
	case e.Retry < 0, e.Retry%time.Millisecond != 0:
		return fmt.Errorf("%w: retry %v", ErrUnencodable, e.Retry)
	}
	return nil
}
