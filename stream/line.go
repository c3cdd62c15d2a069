package stream

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Ending tells how a stream that was taken over has ended.
type Ending struct {
	Err   error // as Source.Run returns it; a *PanicError too
	Bytes int64 // accepted by the kernel, the head of the answer among them
}

// Take writes an admitted stream as Run does, but to the request's connection
// itself and without keeping the handler: what net/http holds for a request
// (buffers, headers, contexts, two goroutines) is several times what a stream
// that waits needs. After Take has returned nil the handler must return without
// touching w; ended is called once, when the connection is closed and no
// goroutine of the stream is left. The error is http.ErrNotSupported where w
// cannot be hijacked (HTTP/2): then nothing has happened, and Run is the way. Any
// other has left the seat.
func (s *Source) Take(seat *Seat, w http.ResponseWriter, r *http.Request, ended func(Ending)) error {
	if r.ProtoMajor != 1 {
		return http.ErrNotSupported
	}
	conn, _, err := http.NewResponseController(w).Hijack() // what has been sent after the request is of no interest
	if err != nil {
		if !errors.Is(err, http.ErrNotSupported) {
			seat.Leave()
		}
		return err
	}
	seat.outlive()
	l := &line{conn: conn, told: ended}
	l.parts.Store(2)
	l.Generator = Generator{Source: s, seat: seat, ended: l.done}
	l.socket.open(l, s.config.WriteTimeout)
	l.socket.head, l.socket.chunked = answerHead(w.Header(), r)
	l.begin()
	go l.watch()
	return nil
}

// answerHead is what net/http would have written. The connection ends with the
// stream; clients of HTTP/1.1 can tell that end from a break by the last chunk.
func answerHead(h http.Header, r *http.Request) (head []byte, chunked bool) {
	chunked = r.ProtoAtLeast(1, 1)
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Connection", "close")
	var b bytes.Buffer
	b.WriteString(map[bool]string{true: "HTTP/1.1", false: "HTTP/1.0"}[chunked] + " 200 OK\r\n")
	_ = h.Write(&b) // a Buffer takes all
	if chunked {
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes(), chunked
}

// line is a stream on a connection of its own. Its one resting goroutine reads:
// there is no other way to learn at once that a client has gone.
type line struct {
	Generator
	conn  net.Conn
	told  func(Ending)
	parts atomic.Int32 // generator and reader
	err   error        // the generator's
	scrap [16]byte
}

// watch waits for the client to go. What it says meanwhile is ignored. It must
// need little stack, for as many of it wait as there are streams.
func (l *line) watch() {
	room := l.scrap[:]
	for {
		n, err := l.conn.Read(room)
		if err != nil {
			break
		}
		if n == len(room) && n == len(l.scrap) { // one that talks a lot
			room = make([]byte, 4<<10)
		}
	}
	l.hangUp()
	l.part()
}

// done takes the generator's end.
func (l *line) done(err error) {
	l.err = err
	l.part()
}

// part is called by either goroutine at its end; the last one tells.
func (l *line) part() {
	if l.parts.Add(-1) == 0 {
		l.told(Ending{l.err, l.socket.taken})
	}
}

// Write, SetWriteDeadline and shut make it an outlet.
func (l *line) Write(b []byte) (int, error)         { return l.conn.Write(b) }
func (l *line) SetWriteDeadline(at time.Time) error { return l.conn.SetWriteDeadline(at) }

// shut also ends the reader. TLS would wait for a client that reads nothing
// to take the alert that says goodbye.
func (l *line) shut(clean bool) {
	if secured, is := l.conn.(interface{ NetConn() net.Conn }); is && !clean {
		_ = secured.NetConn().Close()
	}
	_ = l.conn.Close() // the client may be gone already
}
