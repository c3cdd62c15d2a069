package stream

import (
	"strconv"
	"sync"
)

const (
	sizeRoom = 10       // before the frames: a chunk's size in hex, and its CRLF
	keepPage = 32 << 10 // what a large frame leaves behind is not kept
	lastPart = "0\r\n\r\n"
)

// page is what goes out at one go: whole frames. It exists only while they are
// written; all streams share what is left over.
type page struct{ b []byte }

var pages = sync.Pool{New: func() any { return &page{make([]byte, sizeRoom, 4<<10)} }}

func newPage() *page { return pages.Get().(*page) }

func (p *page) free() {
	if cap(p.b) <= keepPage {
		p.b = p.b[:sizeRoom]
		pages.Put(p)
	}
}

// len is that of the frames.
func (p *page) len() int { return len(p.b) - sizeRoom }

// plain is the frames alone.
func (p *page) plain() []byte { return p.b[sizeRoom:] }

// chunk is the frames as a chunk of HTTP/1.1, the last one of its body or not,
// and how many of its bytes stand before them.
func (p *page) chunk(last bool) (b []byte, before int) {
	var room [sizeRoom]byte
	size := append(strconv.AppendInt(room[:0], int64(p.len()), 16), "\r\n"...)
	from := sizeRoom - len(size)
	copy(p.b[from:], size)
	p.b = append(p.b, "\r\n"...)
	if last {
		p.b = append(p.b, lastPart...)
	}
	return p.b[from:], len(size)
}
