package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pushd/ackstore"
)

// What a Generator writes. All of it is the worker's.

func (g *Generator) hello() error {
	a := g.seat.Attached()
	p := newPage()
	defer p.free()
	p.b = AppendHello(p.b, Hello{
		Retry: g.retry(1), MachineID: g.seat.req.MachineID, StreamID: g.seat.StreamID(), Now: g.config.Now(),
		Heartbeat: g.config.Heartbeat, Credit: a.Credit, OrphanTimeout: a.OrphanTimeout, InFlight: a.InFlight,
	})
	cancels := 0
	for _, h := range a.InFlight { // what was asked before may not have been heard
		if h.Cancel {
			p.b = AppendCancel(p.b, ackstore.CancelNote{ActionID: h.ActionID, Delivery: h.Delivery, Reason: h.CancelReason})
			cancels++
		}
	}
	if _, err := g.send(p, false); err != nil {
		return err
	}
	g.config.Tally.Cancels.Add(uint64(cancels))
	return g.socket.flush()
}

func (g *Generator) heartbeat() error {
	p := newPage()
	defer p.free()
	p.b = AppendHeartbeat(p.b, g.config.Now())
	if _, err := g.send(p, false); err != nil {
		return err
	}
	g.config.Tally.Heartbeats.Add(1)
	return g.socket.flush()
}

func (g *Generator) bye(reason Reason, address string) error {
	span := time.Duration(1)
	if reason == ByeShutdown {
		span = shutdownTo
	}
	p := newPage()
	defer p.free()
	p.b = AppendBye(p.b, Bye{Reason: reason, Retry: g.retry(span), Address: address})
	if _, err := g.send(p, true); err != nil {
		return err
	}
	g.config.Tally.Byes.Add(1)
	return g.socket.flush()
}

// hand claims what is due and writes it all, then flushes once. more is false
// when nothing was left: the store has parked the lease, and its next commit for
// this machine wakes us.
func (g *Generator) hand() (more bool, err error) {
	got, err := claimNow(context.Background(), g.store, g.seat, g.config.Batch)
	if err != nil {
		if errors.Is(err, ackstore.ErrFenced) {
			return false, err
		}
		g.config.Tally.StoreErrors.Add(1)
		if !errors.Is(err, ackstore.ErrUnavailable) {
			return false, fmt.Errorf("stream: claim: %w", err)
		}
		g.config.Log.Debug().Err(err).Str("machine_id", g.seat.req.MachineID).Msg("stream cannot claim; it asks again")
		g.claimAt = g.moment().in(claimPause)
		return false, nil
	}
	if len(got.Dispatches)+len(got.Cancels) == 0 {
		return false, nil
	}
	if err := g.dispatch(got.Dispatches); err != nil {
		return false, err
	}
	if err := g.cancels(got.Cancels); err != nil {
		return false, err
	}
	if err := g.socket.flush(); err != nil {
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

// dispatch writes one page after another. What a failure, or somebody who wants
// the seat, leaves without a byte written goes back to the store.
func (g *Generator) dispatch(due []ackstore.Dispatch) error {
	for len(due) > 0 {
		if g.seat.unwanted() {
			g.giveBack(due)
			return nil
		}
		begun, err := g.fill(due)
		due = due[begun:]
		if err != nil {
			g.giveBack(due)
			return err
		}
	}
	return nil
}

// fill writes a page of frames at one go and tells of how many of them at least
// a byte was accepted.
func (g *Generator) fill(due []ackstore.Dispatch) (begun int, err error) {
	p := newPage()
	defer p.free()
	var ends []int // of the frames
	for _, d := range due {
		if p.len() >= pieceSize {
			break
		}
		p.b = AppendAction(p.b, d)
		ends = append(ends, p.len())
	}
	n, err := g.send(p, false)
	start := 0
	for _, end := range ends {
		if end <= n {
			g.config.Tally.Actions.Add(1)
		}
		if start < n {
			begun++
		}
		start = end
	}
	return begun, err
}

func (g *Generator) giveBack(due []ackstore.Dispatch) {
	for _, d := range due {
		g.seat.Return(d)
	}
	g.config.Tally.Unwritten.Add(uint64(len(due)))
}

func (g *Generator) cancels(asked []ackstore.CancelNote) error {
	if len(asked) == 0 {
		return nil
	}
	p := newPage()
	defer p.free()
	for _, c := range asked {
		p.b = AppendCancel(p.b, c)
	}
	if _, err := g.send(p, false); err != nil {
		return err
	}
	g.config.Tally.Cancels.Add(uint64(len(asked)))
	return nil
}

func (g *Generator) send(p *page, last bool) (n int, err error) {
	n, err = g.socket.send(p, last)
	g.config.Tally.Bytes.Add(uint64(n))
	return n, err
}
