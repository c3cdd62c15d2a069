package stream

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A frame is written in pieces, each under a deadline of its own: the time limit
// is for a reader that takes nothing, not for one that is slow with a large frame.
const pieceSize = 16 << 10

// socket writes to one client. All but cut is its owner's alone.
type socket struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration

	failed bool

	mu  sync.Mutex // orders deadlines, so that a cut is not taken back by the next write
	off bool
}

func newSocket(w http.ResponseWriter, timeout time.Duration) *socket {
	return &socket{w: w, rc: http.NewResponseController(w), timeout: timeout}
}

// write hands b to the writer and tells how many bytes of it were accepted.
func (s *socket) write(b []byte) (n int, err error) {
	for n < len(b) {
		if err := s.arm(); err != nil {
			return n, err
		}
		took, err := s.w.Write(b[n:min(n+pieceSize, len(b))])
		n += max(took, 0)
		if err != nil {
			s.failed = true
			return n, fmt.Errorf("stream: write: %w", err)
		}
	}
	return n, nil
}

func (s *socket) flush() error {
	if err := s.arm(); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil {
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

// release ends the writing. A connection in good order loses its deadline, for
// net/http may use it for the next request; one that failed keeps it, lest
// net/http hangs in it. A cut that comes later does nothing.
func (s *socket) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.off && !s.failed {
		_ = s.deadline(time.Time{})
	}
	s.off = true
}

func (s *socket) deadline(at time.Time) error {
	if err := s.rc.SetWriteDeadline(at); err != nil {
		return fmt.Errorf("stream: write deadline: %w", err)
	}
	return nil
}
