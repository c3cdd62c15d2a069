package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Bounds of a run log: its beginning, and as many of the last segments.
const (
	segmentSize = 8 << 20
	lastKept    = 7
)

// runLog is a stream on disk: NAME.000 is its beginning, the highest numbers are
// its end, and what lay between is gone. A disk that does not take it ends the
// log and nothing else.
type runLog struct {
	dir, name string
	file      *os.File
	segment   int
	used      int
	err       error
}

func (l *runLog) write(p []byte) {
	for len(p) > 0 && l.err == nil {
		if l.file == nil || l.used == segmentSize {
			l.turn()
			continue
		}
		n := min(len(p), segmentSize-l.used)
		_, l.err = l.file.Write(p[:n])
		l.used += n
		p = p[n:]
	}
}

// turn begins a segment and drops the one that is too old.
func (l *runLog) turn() {
	if l.file != nil {
		l.segment++
		if l.err = l.file.Close(); l.err != nil {
			l.file = nil
			return
		}
	}
	if old := l.segment - lastKept; old > 0 {
		if err := os.Remove(l.path(old)); err != nil && !errors.Is(err, os.ErrNotExist) {
			l.err = err
		}
	}
	l.file, l.err = os.OpenFile(l.path(l.segment), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	l.used = 0
}

func (l *runLog) path(segment int) string {
	return filepath.Join(l.dir, fmt.Sprintf("%s.%03d", l.name, segment))
}

func (l *runLog) close() {
	if l.file == nil {
		return
	}
	if l.err == nil && l.segment > lastKept {
		gap := int64(l.segment-lastKept) * segmentSize
		l.err = l.mark(fmt.Sprintf("\n[pushd: %d bytes are left out here]\n", gap))
	}
	l.err = errors.Join(l.err, l.file.Close())
	l.file = nil
}

// mark says at the end of the beginning what is missing.
func (l *runLog) mark(text string) error {
	head, err := os.OpenFile(l.path(0), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = head.WriteString(text)
	return errors.Join(err, head.Close())
}
