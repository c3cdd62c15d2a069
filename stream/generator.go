package stream

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"pushd/ackstore"
)

const (
	claimPause  = 250 * time.Millisecond // while the store cannot write
	longestWait = 5 * time.Second
	ageSpread   = 5 // a fifth to either side
	graceToLow  = 5 // clients wait a fifth of disconnect_grace …
	graceToHigh = 2 // … to a half
	shutdownTo  = 2 // after a shutdown the span is twice as wide
)

// Generator writes one stream. A stream mostly waits, so it keeps no goroutine:
// whoever has something for it (a commit, its alarm, somebody who wants the seat,
// a client that goes) leaves that where next looks and pokes it. It then works in
// a goroutine that lasts until nothing is left to do, never in two.
type Generator struct {
	*Source
	seat   *Seat
	socket socket
	ended  func(error) // told once, when the seat is left; nothing of the Generator runs after it

	mu      sync.Mutex // never held across a write or a call to the store
	working bool       // a goroutine is at work, or the stream has ended
	woken   bool       // the store may have something
	alarm   *time.Timer

	// The worker's.
	greeted, over bool
	more          bool // the last claim may have left something
	beatAt, ageAt moment
	claimAt       moment // to ask a store again that could not write
}

// PanicError is a panic in a stream's work, which has a goroutine of its own.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("stream: panic: %v", e.Value) }

// begin greets the client and serves it from then on.
func (g *Generator) begin() {
	now := g.moment()
	g.beatAt = now.in(g.config.Heartbeat)
	if age := g.config.MaxAge; age > 0 {
		g.ageAt = now.in(between(g.config.Random, age-age/ageSpread, age+age/ageSpread))
	}
	g.more = true
	g.notifier.add(g.seat.req.MachineID, g) // before the first claim: no commit lies between
	g.seat.bind(g)
	g.poke()
}

// ring serves Notifier.Wake.
func (g *Generator) ring() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.woken = true
	g.launch()
}

// poke has the generator look at what has changed.
func (g *Generator) poke() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.launch()
}

func (g *Generator) launch() {
	if !g.working {
		g.working = true
		go g.work()
	}
}

// strike is the alarm's, which has come with a goroutine.
func (g *Generator) strike() {
	g.mu.Lock()
	idle := !g.working
	g.working = true
	g.mu.Unlock()
	if idle {
		g.work()
	}
}

// hangUp says that the client has gone.
func (g *Generator) hangUp() {
	g.seat.left.Store(true)
	g.poke()
}

// cut makes a write that hangs fail.
func (g *Generator) cut() { g.socket.cut() }

// work does what there is to do.
func (g *Generator) work() {
	defer func() {
		if p := recover(); p != nil {
			g.end(&PanicError{p, debug.Stack()})
		}
	}()
	for g.turn() {
	}
}

// turn does one thing; false: there is nothing to do, or the stream has ended.
func (g *Generator) turn() bool {
	var err error
	switch g.next() {
	case rest:
		return false
	case greet:
		err = g.hello()
	case clientGone:
		return g.end(nil)
	case askedToGo:
		return g.end(g.bye(g.seat.Asked()))
	case tooOld:
		return g.end(g.bye(ByeRecycle, ""))
	case heartbeat:
		err = g.heartbeat()
	case claim:
		g.more, err = g.hand()
	}
	if errors.Is(err, ackstore.ErrFenced) { // a newcomer, though it is not in this registry
		err = g.bye(ByeReplaced, "")
		return g.end(err)
	}
	return err == nil || g.end(err)
}

type step int

const (
	rest step = iota
	greet
	clientGone
	askedToGo
	tooOld
	heartbeat
	claim
)

// next looks for what is to be done. Goodbyes and heartbeats go before traffic.
func (g *Generator) next() step {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.moment()
	asked, _ := g.seat.Asked()
	switch {
	case !g.greeted:
		g.greeted = true
		return greet
	case g.seat.over():
		return clientGone
	case asked != "":
		return askedToGo
	case g.ageAt.isDue(now):
		return tooOld
	case g.beatAt.isDue(now):
		late := time.Duration(now-g.beatAt) % g.config.Heartbeat // beats that were missed are not made up for
		g.beatAt = now.in(g.config.Heartbeat - late)
		return heartbeat
	case g.more, g.woken, g.claimAt.isDue(now):
		g.more, g.woken, g.claimAt = false, false, 0
		return claim
	}
	g.lieDown(now)
	return rest
}

// lieDown sets the alarm and ends the work. Under mu: what comes now finds nobody
// at work and launches it again.
func (g *Generator) lieDown(now moment) {
	first := g.beatAt
	for _, at := range [...]moment{g.ageAt, g.claimAt} {
		if at != 0 && at < first {
			first = at
		}
	}
	rest := time.Duration(first - now)
	if g.alarm == nil {
		g.alarm = time.AfterFunc(rest, g.strike)
	} else {
		g.alarm.Reset(rest)
	}
	g.working = false
}

// end leaves the seat, once; working stays true, so that nobody begins again.
func (g *Generator) end(err error) bool {
	if g.over {
		return false
	}
	g.over = true
	defer func() { g.ended(err) }()
	defer g.seat.Leave()
	defer g.notifier.drop(g.seat.req.MachineID, g)
	if g.alarm != nil {
		g.alarm.Stop()
	}
	if g.socket.failed {
		g.countFailure(err)
	}
	g.socket.release()
	return false
}

// retry is what a client is told to wait: spread, so that a fleet does not
// return in one instant, and short enough to be back within disconnect_grace. A
// wider span is for a shutdown, when the whole fleet returns at once: no second
// is to see a quarter of it.
func (g *Generator) retry(span time.Duration) time.Duration {
	high := min(g.config.DisconnectGrace/graceToHigh, longestWait)
	low := high * graceToHigh / graceToLow
	return max(between(g.config.Random, low, low+span*(high-low)), time.Millisecond)
}

func (g *Generator) countFailure(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.config.Tally.WriteTimeouts.Add(1)
	} else {
		g.config.Tally.WriteErrors.Add(1)
	}
}
