package agentexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pushd/agentexec/task"
	"pushd/server/api"
	"pushd/stream"
)

// Why a stream was left by us.
var (
	errHeld     = errors.New("agentexec: no byte of the stream came")
	errIdle     = errors.New("agentexec: the stream is silent")
	errLeapt    = errors.New("agentexec: the clock leapt; the computer slept")
	errGone     = errors.New("agentexec: the server knows no such stream")
	errReplaced = errors.New("agentexec: another agent has the machine")
)

// maxEnvelope bounds an event or a poll's answer: the largest payload and what
// surrounds it fit by far.
const maxEnvelope = 64 << 20

// idleBeats is how many heartbeats may be missing.
const idleBeats = 2.5

// greeting bounds the time from the first byte to hello, which the server sends
// with it.
const greeting = 30 * time.Second

// session is one stream while it lives.
type session struct {
	l      *line
	leave  context.CancelCauseFunc
	begun  time.Time
	last   atomic.Int64 // of a byte, on the clock of begun
	idle   atomic.Int64 // how long it may be silent; 0: its request is not written yet
	heard  atomic.Bool  // a byte has come
	beats  chan string  // the stream id, once
	opened bool
	bye    ending
	hasBye bool
}

// stream holds one stream until it ends.
func (l *line) stream(ctx context.Context, leaps <-chan struct{}) ending {
	ctx, leave := context.WithCancelCause(ctx)
	s := &session{l: l, leave: leave, begun: l.a.cfg.Now(), beats: make(chan string, 1)}
	var guards sync.WaitGroup
	guards.Go(func() { s.guard(ctx, leaps) })
	guards.Go(func() { s.beat(ctx) })
	err := s.hold(ctx)
	cause := context.Cause(ctx)
	leave(nil)
	guards.Wait()
	if cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return s.ending(err)
}

// ending tells what the end of the stream means.
func (s *session) ending(err error) ending {
	open := s.l.a.cfg.Now().Sub(s.begun)
	if s.hasBye {
		s.bye.open = open
		return s.bye
	}
	e := refused(err)
	switch {
	case errors.Is(err, errHeld):
		e.why = held
	case errors.Is(err, errLeapt):
		e.why = leapt
	case errors.Is(err, errReplaced):
		e.why = replaced
	}
	if s.opened {
		e.open = max(open, 1) // it was there, however short
		e.after = max(e.after, s.bye.after)
	}
	return e
}

// hold subscribes and reads until something ends it.
func (s *session) hold(ctx context.Context) error {
	sub, client, err := s.l.subscription()
	if err != nil {
		return err
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The first bytes may be here before this is called: then it is late.
		WroteRequest: func(httptrace.WroteRequestInfo) {
			s.idle.CompareAndSwap(0, int64(s.l.a.cfg.FirstByte))
			s.touch()
		},
	})
	resp, err := client.Subscribe(ctx, sub)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	events := stream.NewDecoder(&pulseReader{resp.Body, s})
	events.Limit(maxEnvelope)
	for {
		event, err := events.Next()
		if retry, said := events.Retry(); said {
			s.bye.after = retry
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // left while this was on its way: an older connection
		}
		if err := s.event(event); err != nil || s.hasBye {
			return err
		}
	}
}

// event takes one event. The error is one after which nothing can be received.
func (s *session) event(event stream.Event) error {
	a := s.l.a
	switch event.Name {
	case "hello":
		var h hello
		if err := json.Unmarshal(event.Data, &h); err != nil {
			return fmt.Errorf("agentexec: hello: %w", err)
		}
		return s.greet(h)
	case "action":
		act, err := task.ParseAction(event.Data)
		if err != nil {
			a.cfg.Logger.Error().Err(err).Str("event", event.ID).Msg("an event was dropped")
			return nil
		}
		return a.arrive(act, event.ID)
	case "cancel":
		var c struct {
			ActionID string `json:"action_id"`
			Delivery int    `json:"delivery"`
			Reason   string `json:"reason"`
		}
		if err := json.Unmarshal(event.Data, &c); err != nil || c.ActionID == "" || c.Delivery < 1 {
			a.cfg.Logger.Error().Err(err).Msg("a cancel was dropped")
			return nil
		}
		return a.stop(task.Action{ActionID: c.ActionID, Delivery: c.Delivery}, c.Reason)
	case "bye":
		s.part(event.Data)
	}
	return nil // hb, and what a newer server may say
}

func (s *session) greet(h hello) error {
	a := s.l.a
	s.opened = true
	beat := h.HeartbeatS.Duration()
	if beat <= 0 {
		beat = 15 * time.Second
	}
	s.quietFor(time.Duration(float64(beat) * idleBeats))
	if h.StreamID != "" {
		select {
		case s.beats <- h.StreamID:
		default: // a second hello of one stream changes nothing
		}
	}
	a.cfg.Logger.Info().Str("stream", h.StreamID).Int("max_in_flight", h.MaxInFlight).Int("in_flight", len(h.InFlight)).Msg("subscribed")
	a.online()
	a.gate.hello()
	return a.reconcile(h)
}

// part takes a bye.
func (s *session) part(data []byte) {
	var b struct {
		Reason  string  `json:"reason"`
		RetryMS float64 `json:"retry_ms"`
		Address string  `json:"address"`
	}
	_ = json.Unmarshal(data, &b) // an unreadable one is a bye all the same
	err := fmt.Errorf("agentexec: the server says bye: %s", b.Reason)
	after := min(time.Duration(max(b.RetryMS, 0)*float64(time.Millisecond)), time.Hour)
	s.hasBye = true
	switch b.Reason {
	case "replaced":
		s.bye = ending{why: replaced, err: fmt.Errorf("%w: %s", errReplaced, b.Address)}
	case "revoked":
		s.bye = ending{why: lost, err: err} // the next try learns what holds now
	case "shutdown", "recycle":
		s.bye = ending{why: told, err: err, after: after}
	default:
		s.bye = ending{why: lost, err: err, after: max(after, s.bye.after)}
	}
}

// quietFor starts a new limit of silence.
func (s *session) quietFor(d time.Duration) {
	s.touch()
	s.idle.Store(int64(d))
}

// touch starts the silence anew.
func (s *session) touch() { s.last.Store(int64(s.l.a.cfg.Now().Sub(s.begun))) }

// guardTick bounds how late a silence is noticed.
const guardTick = time.Second

// guard leaves the stream when it is silent for too long or the clock leapt.
func (s *session) guard(ctx context.Context, leaps <-chan struct{}) {
	ticker := time.NewTicker(guardTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-leaps:
			s.leave(errLeapt)
			return
		case <-ticker.C:
		}
		idle := time.Duration(s.idle.Load())
		if idle == 0 || s.l.a.cfg.Now().Sub(s.begun)-time.Duration(s.last.Load()) < idle {
			continue
		}
		if !s.heard.Load() {
			s.leave(errHeld)
			return
		}
		s.leave(errIdle)
		return
	}
}

// beat tells the server that this side is alive, and learns whether the stream is.
func (s *session) beat(ctx context.Context) {
	var streamID string
	select {
	case <-ctx.Done():
		return
	case streamID = <-s.beats:
	}
	for wait(ctx, s.l.a.cfg.BeatEvery) {
		client, err := s.l.a.client()
		if err == nil {
			once, cancel := context.WithTimeout(ctx, s.l.a.cfg.BeatEvery)
			err = client.Beat(once, s.l.a.cfg.MachineID, streamID)
			cancel()
		}
		if !api.IsStatus(err, http.StatusConflict) {
			continue // a beat that is lost is the silence's to judge
		}
		var refusal *api.Error
		if errors.As(err, &refusal) && refusal.Reason == "replaced" {
			s.leave(errReplaced)
		} else {
			s.leave(errGone)
		}
		return
	}
}

// pulseReader notes when bytes come.
type pulseReader struct {
	r io.Reader
	s *session
}

func (p *pulseReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.s.touch()
		if p.s.heard.CompareAndSwap(false, true) {
			p.s.idle.Store(int64(greeting))
			p.s.l.a.single.Store(false)
		}
	}
	return n, err
}

func readAll(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxEnvelope+1))
	if err == nil && len(raw) > maxEnvelope {
		err = stream.ErrEventTooLarge
	}
	return raw, err
}

// eventID is the Last-Event-ID that a poll's answer moves on to.
func eventID(act task.Action) string {
	if act.EventID == 0 {
		return ""
	}
	return strconv.FormatUint(act.EventID, 10)
}
