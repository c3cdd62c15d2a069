package stream

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A page is written in pieces, each under a deadline of its own: the time limit
// is for a reader that takes nothing, not for one that is slow with a large frame.
const pieceSize = 16 << 10

// outlet is where the bytes for one client go.
type outlet interface {
	Write(b []byte) (int, error)
	SetWriteDeadline(at time.Time) error
	// shut ends it; clean: all that was written may still arrive.
	shut(clean bool)
}

// socket writes to one client. All but cut is its owner's alone.
type socket struct {
	out     outlet
	timeout time.Duration
	head    []byte // stands before the first page
	chunked bool   // pages are framed here, not by net/http
	failed  bool
	taken   int64 // bytes

	mu  sync.Mutex // orders deadlines, so that a cut is not taken back by the next write
	off bool
}

func (s *socket) open(out outlet, timeout time.Duration) { s.out, s.timeout = out, timeout }

// send writes a page, which is used up by it, and tells how many bytes of its
// frames were accepted.
func (s *socket) send(p *page, last bool) (n int, err error) {
	b, before, size := p.plain(), 0, p.len()
	if s.chunked {
		b, before = p.chunk(last)
	}
	if s.head != nil {
		b, before = append(s.head, b...), before+len(s.head)
		s.head = nil
	}
	n, err = s.write(b)
	return min(max(n-before, 0), size), err
}

// write hands b to the outlet and tells how many bytes of it were accepted.
func (s *socket) write(b []byte) (n int, err error) {
	for n < len(b) {
		if err := s.arm(); err != nil {
			return n, err
		}
		took, err := s.out.Write(b[n:min(n+pieceSize, len(b))])
		n += max(took, 0)
		s.taken += int64(max(took, 0))
		if err != nil {
			s.failed = true
			return n, fmt.Errorf("stream: write: %w", err)
		}
	}
	return n, nil
}

// flush is for outlets that keep something back.
func (s *socket) flush() error {
	out, keeps := s.out.(interface{ Flush() error })
	if !keeps {
		return nil
	}
	if err := s.arm(); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		s.failed = true
		return fmt.Errorf("stream: flush: %w", err)
	}
	return nil
}

func (s *socket) arm() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.off {
		return fmt.Errorf("stream: write: %w", errCut)
	}
	return s.deadline(time.Now().Add(s.timeout))
}

// cut makes the write that hangs, and all that come, fail at once. Any
// goroutine may call it.
func (s *socket) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.off {
		s.off = true
		_ = s.deadline(time.Unix(1, 0))
	}
}

// poke serves the seat of a poll's answer: who writes it looks by itself.
func (s *socket) poke() {}

// release ends the writing. A connection in good order loses its deadline, for
// net/http may use it for the next request; one that failed keeps it, lest
// net/http hangs in it. A cut that comes later does nothing.
func (s *socket) release() {
	s.mu.Lock()
	clean := !s.off && !s.failed
	if clean {
		_ = s.deadline(time.Time{})
	}
	s.off = true
	s.mu.Unlock()
	s.out.shut(clean)
}

func (s *socket) deadline(at time.Time) error {
	if err := s.out.SetWriteDeadline(at); err != nil {
		return fmt.Errorf("stream: write deadline: %w", err)
	}
	return nil
}

// answer is an outlet that net/http frames, and ends when the handler returns.
type answer struct {
	http.ResponseWriter
	*http.ResponseController
}

func newAnswer(w http.ResponseWriter) answer {
	return answer{w, http.NewResponseController(w)}
}

func (answer) shut(bool) {}
