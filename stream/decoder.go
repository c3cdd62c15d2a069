package stream

import (
	"bytes"
	"errors"
	"io"
	"math"
	"time"
)

// ErrEventTooLarge: an event is larger than the decoder's limit. The decoder is
// of no use after it.
var ErrEventTooLarge = errors.New("stream: event is larger than the reader's limit")

const (
	defaultEventLimit = 16 << 20
	readSize          = 16 << 10
	keepScratch       = 64 << 10 // what a large event leaves behind is not kept
	mostRetry         = math.MaxInt64 / int64(time.Millisecond)
)

var byteOrderMark = []byte("\ufeff")

// Decoder reads the events of a stream as the WHATWG standard has it, but for
// two things: ill-formed UTF-8 is handed over as it came, and an event may not
// be larger than a limit. It is not safe for concurrent use.
type Decoder struct {
	r     io.Reader
	limit int
	err   error // of r; told once all that came before it is used up

	buf  []byte // read but not looked at
	room []byte // what buf is cut from
	line []byte // the line so far
	bom  bool   // the start of the stream has been looked at
	crlf bool   // the last line ended in CR: an LF now belongs to it
	skip bool   // within a comment, which is not kept

	id, lastID string // of this block; of the last whole block
	name       string
	data       []byte
	hasData    bool
	begun      bool          // this block has had a field
	retry      time.Duration // of this block
	lastRetry  time.Duration
	hasRetry   bool
}

// NewDecoder returns a Decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: r, limit: defaultEventLimit, room: make([]byte, readSize)}
}

// Limit bounds the bytes that an event and the line being read may take; over
// it Next returns ErrEventTooLarge. The default is 16 MiB. Comments are free.
func (d *Decoder) Limit(bytes int) { d.limit = bytes }

// LastEventID is what to send as Last-Event-ID: the id of the last whole block.
func (d *Decoder) LastEventID() string { return d.lastID }

// Retry is the newest reconnection time that the stream told; false if it told
// none.
func (d *Decoder) Retry() (time.Duration, bool) { return d.lastRetry, d.hasRetry }

// Next returns the next event as soon as the end of its blank line is there; it
// does not wait for what may follow. An event that the end of the stream cuts
// off is never returned: the error is io.EOF when the stream ended between two
// events, io.ErrUnexpectedEOF within one, or the reader's own. Data is the
// caller's to keep.
func (d *Decoder) Next() (Event, error) {
	for {
		blank, err := d.readLine()
		if err != nil {
			return Event{}, err
		}
		if !blank {
			d.field()
			d.line = d.line[:0]
			continue
		}
		if e, ok := d.dispatch(); ok {
			return e, nil
		}
	}
}

// readLine reads up to the end of a line into d.line. A CR ends it at once; the
// LF of a CRLF is dropped when it comes.
func (d *Decoder) readLine() (blank bool, err error) {
	for {
		for len(d.buf) == 0 {
			if err := d.fill(); err != nil {
				return false, err
			}
		}
		if d.crlf && d.buf[0] == '\n' {
			d.buf = d.buf[1:]
			d.crlf = false
			continue
		}
		d.crlf = false
		end := bytes.IndexByte(d.buf, '\n')
		if cr := bytes.IndexByte(d.buf[:max(end, 0)], '\r'); end < 0 {
			end = bytes.IndexByte(d.buf, '\r')
		} else if cr >= 0 {
			end = cr
		}
		part := d.buf
		if end >= 0 {
			part = d.buf[:end]
		}
		if err := d.keep(part); err != nil {
			return false, err
		}
		if end < 0 {
			d.buf = nil
			continue
		}
		d.crlf = d.buf[end] == '\r'
		d.buf = d.buf[end+1:]
		d.stripMark(true)
		wasComment := d.skip
		d.skip = false
		return len(d.line) == 0 && !wasComment, nil
	}
}

// keep adds to the line what is not a comment's.
func (d *Decoder) keep(part []byte) error {
	if d.skip {
		return nil
	}
	d.line = append(d.line, part...)
	d.stripMark(false)
	if d.bom && len(d.line) > 0 && d.line[0] == ':' {
		d.line, d.skip = d.line[:0], true
		return nil
	}
	if len(d.line)+len(d.data) > d.limit {
		d.err = ErrEventTooLarge
		d.buf = nil
		return d.err
	}
	return nil
}

// stripMark drops a byte order mark at the start of the stream, once enough of
// the first line is there to tell.
func (d *Decoder) stripMark(whole bool) {
	if d.bom || len(d.line) < len(byteOrderMark) && !whole {
		return
	}
	d.bom = true
	d.line = bytes.TrimPrefix(d.line, byteOrderMark)
}

// fill reads on. A reader may give its last bytes together with its error: they
// come first.
func (d *Decoder) fill() error {
	if d.err == nil {
		n, err := d.r.Read(d.room)
		d.buf, d.err = d.room[:n], err
		if n > 0 || err == nil {
			return nil
		}
	}
	if d.err == io.EOF && (d.begun || len(d.line) > 0) {
		d.err = io.ErrUnexpectedEOF
	}
	return d.err
}

// field takes one line of the form name, or name: value.
func (d *Decoder) field() {
	if len(d.line) == 0 || d.line[0] == ':' {
		return // a comment
	}
	d.begun = true
	name, value, _ := bytes.Cut(d.line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		d.data = append(append(d.data, value...), '\n')
		d.hasData = true
	case "event":
		d.name = string(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			d.id = string(value)
		}
	case "retry":
		if ms, ok := digits(value); ok {
			d.retry = time.Duration(ms) * time.Millisecond
			d.lastRetry, d.hasRetry = d.retry, true
		}
	}
}

// digits reads ASCII digits and nothing else; what is past all reason is cut.
func digits(value []byte) (ms int64, ok bool) {
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		ms = min(ms*10+int64(c-'0'), mostRetry)
	}
	return ms, len(value) > 0
}

// dispatch ends a block. One without data is no event, but its id counts.
func (d *Decoder) dispatch() (Event, bool) {
	d.lastID = d.id
	e, ok := Event{ID: d.id, Name: d.name, Retry: d.retry}, d.hasData
	if ok {
		e.Data = d.data[:len(d.data)-1]
		d.data = nil
	}
	if cap(d.line) > keepScratch {
		d.line = nil
	}
	d.name, d.hasData, d.begun, d.retry = "", false, false, 0
	return e, ok
}
