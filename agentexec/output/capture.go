package output

import (
	"sync"
)

// Options say what is done with a program's output.
type Options struct {
	Dir     string   // of the run logs; empty: none
	Secrets []string // to be hidden
	Keep    int      // bytes of the beginning of standard output that Head gives
	Bump    func()   // some bytes came
	// Line gets each line of standard output, whole or cut. Wanted looks at the
	// first bytes of a long one; false leaves only those.
	Line   func(line []byte, cut bool)
	Wanted func(head []byte) bool
	// Note gets the beginning of the last line that came, once for all that came
	// together: nobody reads a million of them a second.
	Note func(line []byte)
}

// Capture takes the two streams of one program.
type Capture struct {
	Stdout, Stderr *Stream

	mu   sync.Mutex
	both Tail
}

// Stream is an io.Writer that never fails: whoever stops reading stops a program.
type Stream struct {
	mu    sync.Mutex
	bump  func()
	dec   decoder
	mask  *mask
	split lines
	log   *runLog
	tail  Tail
	head  []byte
	keep  int
	note  func(line []byte)
	last  []byte // for note
}

// noted is how much of a line a note has.
const noted = 1 << 10

// NewCapture returns a Capture; Close ends it.
func NewCapture(o Options) *Capture {
	c := &Capture{}
	c.Stdout = c.stream("stdout", o, o.Line)
	c.Stdout.keep = o.Keep
	c.Stderr = c.stream("stderr", o, nil)
	return c
}

func (c *Capture) stream(name string, o Options, line func([]byte, bool)) *Stream {
	s := &Stream{bump: o.Bump, note: o.Note}
	if o.Dir != "" {
		s.log = &runLog{dir: o.Dir, name: name + ".log"}
	}
	s.split = lines{
		wanted: func(head []byte) bool { return line != nil && (o.Wanted == nil || o.Wanted(head)) },
		emit: func(text []byte, cut bool) {
			if line != nil {
				line(text, cut)
			}
			if o.Note != nil && len(text) > 0 {
				s.last = append(s.last[:0], text[:min(len(text), noted)]...)
			}
		},
	}
	s.mask = newMask(o.Secrets, func(p []byte) {
		if s.log != nil {
			s.log.write(p)
		}
		s.tail.Add(p)
		if room := s.keep - len(s.head); room > 0 {
			s.head = append(s.head, p[:min(room, len(p))]...)
		}
		c.mu.Lock()
		c.both.Add(p)
		c.mu.Unlock()
		s.split.write(p)
	})
	s.dec = decoder{next: s.mask.write}
	return s
}

// Write takes bytes.
func (s *Stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(p) > 0 && s.bump != nil {
		s.bump()
	}
	s.dec.write(p)
	s.tell()
	return len(p), nil
}

// tell hands on the last line.
func (s *Stream) tell() {
	if len(s.last) > 0 {
		s.note(s.last)
		s.last = s.last[:0]
	}
}

func (s *Stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dec.close()
	s.mask.close()
	s.split.close()
	s.tell()
	if s.log != nil {
		s.log.close()
	}
}

// Close ends both streams: what was held back comes now.
func (c *Capture) Close() {
	c.Stdout.close()
	c.Stderr.close()
}

// Tail are the last bytes of the stream, and how many there were.
func (s *Stream) Tail() ([]byte, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tail.Bytes(), s.tail.Total()
}

// Head are the first bytes, and whether they are all.
func (s *Stream) Head() (head []byte, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.head, int64(len(s.head)) == s.tail.Total()
}

// LogError is why a log is not whole.
func (s *Stream) LogError() error {
	if s.log == nil {
		return nil
	}
	return s.log.err
}

// Tail are the last bytes of both streams as they came.
func (c *Capture) Tail() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.both.Bytes()
}
