package task

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// maxNote is the bound of progress.note (protocol 9).
const maxNote = 1 << 10

// Pulse is the sign of life of one execution. Whoever sees it do something bumps
// it; whoever answers for it reads it. Its zero value is usable.
type Pulse struct {
	mu      sync.Mutex
	token   uint64
	vouched uint64
	last    time.Time
	note    string
	percent *float64
	vouch   bool
}

// Beat is a Pulse at one instant.
type Beat struct {
	Token    uint64    // as acks tell it: grows with every activity, and while vouched for
	Activity uint64    // grows with every activity only
	Last     time.Time // of the last activity; zero: none yet
	Note     string
	Percent  *float64
	Vouch    bool // it may be silent and is yet at work: its own windows judge it
}

// Bump tells of an activity at now.
func (p *Pulse) Bump(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token++
	p.last = now
}

// Note keeps what it does now; it is cut to what an ack may carry.
func (p *Pulse) Note(text string) {
	if len(text) > maxNote {
		text = text[:maxNote]
		for len(text) > 0 && !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note = text
}

// Percent keeps how far it is, 0 to 100.
func (p *Pulse) Percent(part float64) {
	if !(part >= 0 && part <= 100) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.percent = &part
}

// Vouch says whether silence is no bad sign now: a tool is open, or the profile
// allows more of it than a server would.
func (p *Pulse) Vouch(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vouch = on
}

// Read is the pulse now.
func (p *Pulse) Read() Beat {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Beat{Token: p.token + p.vouched, Activity: p.token, Last: p.last, Note: p.note, Percent: p.percent, Vouch: p.vouch}
}

// Vouched moves the token without an activity: the windows here, which go on,
// are trusted more than a server's that knows nothing of open tools.
func (p *Pulse) Vouched() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.vouched++
}
