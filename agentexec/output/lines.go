package output

import "bytes"

// Bounds of a line.
const (
	MaxLine  = 32 << 20 // longer ones are cut
	peekSize = 64 << 10 // what is looked at to tell whether a long line is wanted
	bigLine  = 1 << 20  // from here on its buffer is taken at once and not grown
)

// lines splits a stream. Of a line that is not wanted, or too long, only its
// beginning is kept.
type lines struct {
	wanted func(head []byte) bool
	emit   func(line []byte, cut bool)
	buf    []byte
	peeked bool
	cut    bool
}

func (l *lines) write(p []byte) {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			l.keep(p)
			return
		}
		l.keep(p[:end])
		l.flush()
		p = p[end+1:]
	}
}

func (l *lines) keep(p []byte) {
	if l.cut {
		return
	}
	if !l.peeked && len(l.buf)+len(p) > peekSize {
		take := max(peekSize-len(l.buf), 0)
		l.buf = append(l.buf, p[:take]...)
		p = p[take:]
		l.peeked = true
		if !l.wanted(l.buf) {
			l.cut = true
			return
		}
	}
	if len(l.buf)+len(p) > MaxLine {
		l.cut = true
		l.buf = append([]byte(nil), l.buf[:peekSize]...) // and let go of the rest
		return
	}
	if len(l.buf)+len(p) > bigLine && cap(l.buf) < MaxLine {
		// Doubling would hold the old and the new at once; pages that are not
		// written cost nothing.
		l.buf = append(make([]byte, 0, MaxLine), l.buf...)
	}
	l.buf = append(l.buf, p...)
}

func (l *lines) flush() {
	l.emit(bytes.TrimSuffix(l.buf, []byte("\r")), l.cut)
	if l.buf = l.buf[:0]; cap(l.buf) > peekSize {
		l.buf = nil
	}
	l.cut, l.peeked = false, false
}

// close ends a line that has no end.
func (l *lines) close() {
	if len(l.buf) > 0 || l.cut {
		l.flush()
	}
}
