package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/rs/zerolog"

	"pushd/ackstore"
)

// Config is how a stream behaves. The zero value has the defaults of the
// settings stream.*, but never recycles.
type Config struct {
	Heartbeat       time.Duration    // 0: 15 s
	WriteTimeout    time.Duration    // 0: 5 s
	DisconnectGrace time.Duration    // bounds what clients are told to wait; 0: 10 s
	MaxAge          time.Duration    // ±20 %; 0: never
	Batch           int              // dispatches per claim; 0: 64
	Now             func() time.Time // nil: time.Now
	Random          func() uint64    // safe for concurrent use; nil: math/rand/v2
	Log             zerolog.Logger
	Tally           *Tally // nil: not counted
	// Sent is told of each dispatch once its bytes were handed to the socket and
	// flushed, and of that moment; it must not block. Nil: nobody asks.
	Sent func(d ackstore.Dispatch, at time.Time)
}

func (c Config) withDefaults() Config {
	orDefault := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	orDefault(&c.Heartbeat, 15*time.Second)
	orDefault(&c.WriteTimeout, 5*time.Second)
	orDefault(&c.DisconnectGrace, 10*time.Second)
	if c.Batch <= 0 {
		c.Batch = 64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Uint64
	}
	if c.Tally == nil {
		c.Tally = new(Tally)
	}
	return c
}

const (
	claimPause  = 250 * time.Millisecond // while the store cannot write
	longestWait = 5 * time.Second
	keepFrame   = 16 << 10 // a stream at rest keeps no more than this
	never       = time.Duration(1<<63 - 1)
	ageSpread   = 5 // a fifth to either side
	graceToLow  = 5 // clients wait a fifth of disconnect_grace …
	graceToHigh = 2 // … to a half
	shutdownTo  = 2 // after a shutdown the span is twice as wide
)

// claimer is what a stream needs of a store.
type claimer interface {
	Claim(ctx context.Context, r ackstore.Rules, reqs []ackstore.ClaimReq) ([]ackstore.Claimed, error)
}

// Generator writes one stream. The goroutine that runs it owns the socket.
type Generator struct {
	config   Config
	store    claimer
	notifier *Notifier
	seat     *Seat
	socket   *socket
	frame    []byte // the one being written

	wake            <-chan struct{}
	beat            *time.Ticker
	age, storePause *time.Timer
}

// New returns the generator of an admitted stream. w must let a write deadline
// be set (http.ResponseController).
func New(c Config, store claimer, n *Notifier, seat *Seat, w http.ResponseWriter) *Generator {
	c = c.withDefaults()
	return &Generator{config: c, store: store, notifier: n, seat: seat, socket: newSocket(w, c.WriteTimeout)}
}

// SetHeaders sets the headers of an event stream: nothing on the way may keep
// it, change it or hold it back.
func SetHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}

// Run writes hello and then whatever the machine is owed, until the client goes
// (ctx), the seat is asked for, or a write fails; only the last is an error. It
// has left the seat when it returns.
func (g *Generator) Run(ctx context.Context) error {
	defer g.seat.Leave()
	wake, stop := g.notifier.Subscribe(g.seat.req.MachineID)
	defer stop()
	g.wake = wake
	g.beat = time.NewTicker(g.config.Heartbeat)
	defer g.beat.Stop()
	g.age = time.NewTimer(g.maxAge())
	defer g.age.Stop()
	g.storePause = time.NewTimer(never)
	defer g.storePause.Stop()
	defer g.socket.release()
	g.seat.bind(g.socket.cut)

	err := g.hello()
	if err == nil {
		err = g.serve(ctx)
	}
	if g.socket.failed {
		g.countFailure(err)
	}
	return err
}

// serve is the whole life of a stream after its hello.
func (g *Generator) serve(ctx context.Context) error {
	more := true // the store may have something for us
	for {
		var err error
		switch g.next(ctx, more) {
		case clientGone:
			return nil
		case askedToGo:
			reason, address := g.seat.Asked()
			return g.bye(reason, address)
		case tooOld:
			return g.bye(ByeRecycle, "")
		case heartbeat:
			err = g.heartbeat()
		case claim:
			more, err = g.hand(ctx)
		}
		if errors.Is(err, ackstore.ErrFenced) { // a newcomer, though it is not in this registry
			return g.bye(ByeReplaced, "")
		}
		if err != nil {
			return err
		}
	}
}

type step int

const (
	clientGone step = iota
	askedToGo
	tooOld
	heartbeat
	claim
)

// next waits for what is to be done next. While there is more to claim it does
// not wait, but even then goodbyes and heartbeats go before traffic.
func (g *Generator) next(ctx context.Context, more bool) step {
	if more {
		select {
		case <-ctx.Done():
			return clientGone
		case <-g.seat.closing:
			return askedToGo
		case <-g.age.C:
			return tooOld
		case <-g.beat.C:
			return heartbeat
		default:
			return claim
		}
	}
	select {
	case <-ctx.Done():
		return clientGone
	case <-g.seat.closing:
		return askedToGo
	case <-g.age.C:
		return tooOld
	case <-g.beat.C:
		return heartbeat
	case <-g.wake:
		return claim
	case <-g.storePause.C:
		return claim
	}
}

// hand claims what is due and writes it all, then flushes once. more is false
// when nothing was left: the store has parked the lease, and its next commit for
// this machine wakes us.
func (g *Generator) hand(ctx context.Context) (more bool, err error) {
	got, err := claimNow(ctx, g.store, g.seat, g.config.Batch)
	if err != nil {
		if errors.Is(err, ackstore.ErrFenced) {
			return false, err
		}
		g.config.Tally.StoreErrors.Add(1)
		if !errors.Is(err, ackstore.ErrUnavailable) {
			return false, fmt.Errorf("stream: claim: %w", err)
		}
		g.config.Log.Debug().Err(err).Str("machine_id", g.seat.req.MachineID).Msg("stream cannot claim; it asks again")
		g.storePause.Reset(claimPause)
		return false, nil
	}
	if len(got.Dispatches)+len(got.Cancels) == 0 {
		return false, nil
	}
	if err := g.dispatch(ctx, got.Dispatches); err != nil {
		return false, err
	}
	for _, c := range got.Cancels {
		if err := g.cancel(c); err != nil {
			return false, err
		}
	}
	if err := g.flush(); err != nil {
		return false, err
	}
	g.tellSent(got.Dispatches)
	return true, nil
}

func (g *Generator) tellSent(sent []ackstore.Dispatch) {
	if g.config.Sent == nil {
		return
	}
	at := g.config.Now()
	for _, d := range sent {
		g.config.Sent(d, at)
	}
}

// dispatch writes one frame after another. What a failure, or somebody who wants
// the seat, leaves without a byte written goes back to the store.
func (g *Generator) dispatch(ctx context.Context, due []ackstore.Dispatch) error {
	for i, d := range due {
		if ctx.Err() != nil || g.seat.unwanted() {
			g.giveBack(due[i:])
			return nil
		}
		g.frame = AppendAction(g.frame[:0], d)
		n, err := g.send()
		if err != nil {
			if n > 0 {
				i++
			}
			g.giveBack(due[i:])
			return err
		}
		g.config.Tally.Actions.Add(1)
	}
	return nil
}

func (g *Generator) giveBack(due []ackstore.Dispatch) {
	for _, d := range due {
		g.seat.Return(d)
	}
	g.config.Tally.Unwritten.Add(uint64(len(due)))
}

func (g *Generator) hello() error {
	a := g.seat.Attached()
	g.frame = AppendHello(g.frame[:0], Hello{
		Retry: g.retry(1), MachineID: g.seat.req.MachineID, StreamID: g.seat.StreamID(), Now: g.config.Now(),
		Heartbeat: g.config.Heartbeat, Credit: a.Credit, OrphanTimeout: a.OrphanTimeout, InFlight: a.InFlight,
	})
	if _, err := g.send(); err != nil {
		return err
	}
	for _, h := range a.InFlight { // what was asked before may not have been heard
		if h.Cancel {
			if err := g.cancel(ackstore.CancelNote{ActionID: h.ActionID, Delivery: h.Delivery, Reason: h.CancelReason}); err != nil {
				return err
			}
		}
	}
	return g.flush()
}

func (g *Generator) cancel(c ackstore.CancelNote) error {
	g.frame = AppendCancel(g.frame[:0], c)
	if _, err := g.send(); err != nil {
		return err
	}
	g.config.Tally.Cancels.Add(1)
	return nil
}

func (g *Generator) heartbeat() error {
	g.frame = AppendHeartbeat(g.frame[:0], g.config.Now())
	if _, err := g.send(); err != nil {
		return err
	}
	g.config.Tally.Heartbeats.Add(1)
	return g.flush()
}

func (g *Generator) bye(reason Reason, address string) error {
	span := time.Duration(1)
	if reason == ByeShutdown {
		span = shutdownTo
	}
	g.frame = AppendBye(g.frame[:0], Bye{Reason: reason, Retry: g.retry(span), Address: address})
	if _, err := g.send(); err != nil {
		return err
	}
	g.config.Tally.Byes.Add(1)
	return g.flush()
}

func (g *Generator) send() (n int, err error) {
	n, err = g.socket.write(g.frame)
	g.config.Tally.Bytes.Add(uint64(n))
	return n, err
}

// flush also lets go of the room that a large frame took.
func (g *Generator) flush() error {
	if cap(g.frame) > keepFrame {
		g.frame = nil
	}
	return g.socket.flush()
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

func (g *Generator) maxAge() time.Duration {
	if g.config.MaxAge <= 0 {
		return never
	}
	return between(g.config.Random, g.config.MaxAge-g.config.MaxAge/ageSpread, g.config.MaxAge+g.config.MaxAge/ageSpread)
}

func (g *Generator) countFailure(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.config.Tally.WriteTimeouts.Add(1)
	} else {
		g.config.Tally.WriteErrors.Add(1)
	}
}
