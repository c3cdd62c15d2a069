package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress draws how far a long work has come, for a person who watches; to
// nobody else it says nothing.
type progress struct {
	w     io.Writer // nil: nobody watches
	what  string
	drawn time.Time
	width int // of the line that stands there
}

func (sh *shell) progress(what string) *progress {
	if !isTerminal(sh.err) || sh.output == "json" {
		return &progress{}
	}
	return &progress{w: sh.err, what: what}
}

const (
	progressPause = 100 * time.Millisecond
	progressCells = 30
)

// at says that done of total is done. It may be called as often as one likes.
func (p *progress) at(done, total int64) {
	now := time.Now()
	if p.w == nil || (now.Sub(p.drawn) < progressPause && done < total) {
		return
	}
	p.drawn = now
	part := 0.0
	if total > 0 {
		part = min(1, float64(done)/float64(total))
	}
	full := int(part * progressCells)
	p.draw(fmt.Sprintf("%s [%s%s] %3.0f %%  %s", p.what, strings.Repeat("#", full), strings.Repeat(".", progressCells-full), part*100, sizeText(done)))
}

// end takes the bar away, so that the next line stands alone.
func (p *progress) end() {
	if p.w != nil && p.width > 0 {
		p.draw("")
		fmt.Fprint(p.w, "\r")
	}
}

func (p *progress) draw(line string) {
	fmt.Fprintf(p.w, "\r%s%s", line, strings.Repeat(" ", max(0, p.width-len(line))))
	p.width = len(line)
}

// sizeText is a size as people say it.
func sizeText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
