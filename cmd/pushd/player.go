package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"

	"pushd/server/api"
	"pushd/stream"
)

// player is a simulated machine: an agent over real HTTP, as small as one can be.
type player struct {
	t        *tale
	machine  string
	instance string
	last     string        // Last-Event-ID: what has been read whole
	cutNext  bool          // lose the stream in the middle of the next action
	hello    chan struct{} // closed with the first hello
	greeted  bool
	quiet    bool
}

// envelope is what a player reads of an action event.
type envelope struct {
	ActionID string          `json:"action_id"`
	Delivery int             `json:"delivery"`
	Type     string          `json:"type"`
	Payload  json.RawMessage `json:"payload"`
}

func newPlayer(t *tale, machine string) *player {
	return &player{t: t, machine: machine, instance: uuid.NewString(), hello: make(chan struct{})}
}

// newPlayerAt is a player that works in the background of the story.
func newPlayerAt(t *tale, machine string) *player {
	p := newPlayer(t, machine)
	p.quiet = true
	return p
}

func (p *player) say(format string, values ...any) {
	if !p.quiet {
		p.t.say(p.machine, format, values...)
	}
}

func (p *player) startWorking(ctx context.Context) (stop func()) { return p.start(ctx, p.work) }

// start subscribes and handles each action until stop is called, which returns
// when the player is gone.
func (p *player) start(ctx context.Context, handle func(context.Context, envelope) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if pause := p.subscribe(ctx, handle); !wait(ctx, pause) {
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// wait waits for d; false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// online waits until the player's stream is there.
func (p *player) online(ctx context.Context) error {
	select {
	case <-p.hello:
		p.say("is online")
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// subscribe holds one stream until it ends, and tells how long to wait before
// the next.
func (p *player) subscribe(ctx context.Context, handle func(context.Context, envelope) error) time.Duration {
	pause := 100 * time.Millisecond
	resp, err := p.t.c.Subscribe(ctx, api.Subscription{MachineID: p.machine, InstanceID: p.instance, LastEventID: p.last})
	if err != nil {
		return pause
	}
	defer resp.Body.Close()
	var body io.Reader = resp.Body
	if p.cutNext {
		body = &scissors{r: resp.Body, at: []byte("event: action")}
	}
	events := stream.NewDecoder(body)
	for {
		event, err := events.Next()
		if retry, told := events.Retry(); told {
			pause = retry
		}
		switch {
		case errors.Is(err, errCut):
			p.cutNext = false
			p.say("loses its stream in the middle of the event")
			return pause
		case err != nil:
			return pause
		case event.Name == "hello":
			p.greet()
		case event.Name == "action":
			if err := p.take(ctx, event, handle); err != nil {
				return pause
			}
		}
	}
}

func (p *player) greet() {
	if p.greeted {
		p.say("is back, and says which event it had last")
		return
	}
	p.greeted = true
	close(p.hello)
}

// take moves Last-Event-ID on before any work, as protocol section 7 asks of an
// agent that gives an instance.
func (p *player) take(ctx context.Context, event stream.Event, handle func(context.Context, envelope) error) error {
	p.last = event.ID
	var e envelope
	if err := json.Unmarshal(event.Data, &e); err != nil {
		return err
	}
	return handle(ctx, e)
}

func (p *player) work(ctx context.Context, e envelope) error {
	p.say("receives %s, delivery %d", e.ActionID, e.Delivery)
	if _, err := p.ack(ctx, e, api.Ack{Status: "received"}); err != nil {
		return err
	}
	result, err := api.Marshal(map[string]any{"machine": p.machine, "did": e.Type})
	if err != nil {
		return err
	}
	p.say("has done the work and acks %s", e.ActionID)
	_, err = p.ack(ctx, e, api.Ack{Status: "done", Result: result})
	return err
}

func (p *player) fail(ctx context.Context, e envelope) error {
	p.say("receives %s, delivery %d, and fails", e.ActionID, e.Delivery)
	answer, err := p.ack(ctx, e, api.Ack{Status: "failed", Error: &api.Failure{Kind: "error", Message: "out of paper"}})
	if err == nil && answer.Outcome == "retry" {
		p.t.say("server", "will try again in %s", span(time.Until(answer.AvailableAt.Time)))
	}
	return err
}

func (p *player) ignore(_ context.Context, e envelope) error {
	p.say("receives %s, delivery %d, and says nothing", e.ActionID, e.Delivery)
	return nil
}

func (p *player) ack(ctx context.Context, e envelope, a api.Ack) (api.Acked, error) {
	a.ActionID, a.MachineID, a.Delivery = e.ActionID, p.machine, e.Delivery
	return p.t.c.Ack(ctx, a)
}

var errCut = errors.New("demo: the stream was cut")

// scissors cuts a stream just after some bytes went through.
type scissors struct {
	r    io.Reader
	at   []byte
	seen []byte
}

func (s *scissors) Read(b []byte) (int, error) {
	if bytes.Contains(s.seen, s.at) {
		return 0, errCut
	}
	n, err := s.r.Read(b)
	s.seen = append(s.seen, b[:n]...)
	if i := bytes.Index(s.seen, s.at); i >= 0 {
		n -= len(s.seen) - (i + len(s.at)) // keep what is behind it
		n = max(n, 0)
	}
	return n, err
}
