package main

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"pushd/server/api"
	"pushd/stream"
)

const (
	headMost  = 8 * time.Second // until the head of a stream
	helloMost = 5 * time.Second // until the first bytes of a stream
	eventLate = time.Second     // from a push to its event
	eventMost = 8 * time.Second // until we wait no longer
	pollMost  = 20 * time.Second
)

// heard is an event, or the end of the stream, and when it came.
type heard struct {
	event stream.Event
	err   error
	at    time.Time
}

// streams holds a stream open as an agent would, has an action sent on it, and
// waits through a silence; a long poll waits beside it.
func (w *way) streams(ctx context.Context, hold time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := time.Now()
	late := time.AfterFunc(headMost, cancel)
	resp, err := w.c.Subscribe(ctx, api.Subscription{MachineID: w.host, InstanceID: uuid.NewString()})
	if !late.Stop() {
		w.held("not even the head of a stream came within %s", secondsText(headMost))
		return
	}
	if err != nil {
		w.refused("stream", "subscribes", err)
		return
	}
	defer resp.Body.Close()
	if coding := resp.Header.Get("Content-Encoding"); coding != "" {
		w.note(isWrong, "compression", "the stream is compressed on the way (%s): its events wait in a compressor", coding)
		w.cureFor("compression", firstOf(resp.Header.Get("Server"), w.server))
		return
	}
	w.note(isFine, "compression", "the stream is not compressed")
	events := listenTo(ctx, resp)
	hello, beat := w.greeting(events, begun)
	if !hello {
		w.held("the stream has begun, and none of its bytes came within %s", secondsText(helloMost))
		return
	}
	if !w.delivery(ctx, events) {
		return
	}
	if hold == 0 {
		hold = beat + 2*time.Second
	}
	var poll sync.WaitGroup
	var polled error
	poll.Go(func() { polled = w.poll(ctx, min(hold, pollMost)) })
	w.silence(ctx, events, beat, hold)
	poll.Wait()
	w.judgePoll(polled, min(hold, pollMost))
}

func (w *way) held(format string, values ...any) {
	w.note(isWrong, "buffering", format+": a proxy keeps it until it has more", values...)
	w.cureFor("buffering", w.server)
}

// listenTo reads a stream to its end.
func listenTo(ctx context.Context, resp *http.Response) <-chan heard {
	events := make(chan heard, 64)
	go func() {
		d := stream.NewDecoder(resp.Body)
		for {
			e, err := d.Next()
			select {
			case events <- heard{e, err, time.Now()}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return events
}

// greeting waits for hello and reads the heartbeat from it.
func (w *way) greeting(events <-chan heard, begun time.Time) (there bool, beat time.Duration) {
	h, ok := await(events, "hello", helloMost)
	if !ok {
		return false, 0
	}
	var hello struct {
		HeartbeatS float64 `json:"heartbeat_s"`
	}
	_ = json.Unmarshal(h.event.Data, &hello) // without it there is no heartbeat to tell of
	w.note(isFine, "stream", "hello after %s; a heartbeat each %gs", secondsText(h.at.Sub(begun)), hello.HeartbeatS)
	return true, time.Duration(hello.HeartbeatS * float64(time.Second))
}

// await reads events until one has a name, or most has passed.
func await(events <-chan heard, name string, most time.Duration) (heard, bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		select {
		case h := <-events:
			if h.err != nil || h.event.Name == name {
				return h, h.err == nil
			}
		case <-timer.C:
			return heard{}, false
		}
	}
}

// delivery has one small action sent on the stream: what a proxy would hold back.
func (w *way) delivery(ctx context.Context, events <-chan heard) bool {
	begun := time.Now()
	pushed, err := w.c.Push(ctx, api.Push{
		MachineID: w.host, Type: "doctor", Payload: json.RawMessage(`{"does":"nothing"}`), TTLS: api.S(time.Minute),
	})
	if err != nil {
		w.refused("buffering", "pushes", err)
		return true
	}
	h, came := await(events, "action", eventMost)
	if _, err := w.c.Ack(ctx, api.Ack{ActionID: pushed.ActionID, Status: "done"}); err != nil && came {
		w.refused("ack", "acks", err)
	}
	switch took := h.at.Sub(begun); {
	case !came:
		w.held("hello came, and an action that was pushed did not within %s", secondsText(eventMost))
		return false
	case took > eventLate:
		w.held("an action took %s from its push to its event", secondsText(took))
	default:
		w.note(isFine, "buffering", "an action came %s after its push", secondsText(took))
	}
	return true
}

// silence waits while nothing but heartbeats goes over the stream.
func (w *way) silence(ctx context.Context, events <-chan heard, beat, hold time.Duration) {
	begun, last := time.Now(), time.Now()
	var longest time.Duration
	over := time.NewTimer(hold)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case h := <-events:
			longest = max(longest, h.at.Sub(last))
			if h.err != nil {
				w.note(isWrong, "idle", "the stream was cut after %s, of them %s silent (%v); a heartbeat comes each %s",
					secondsText(h.at.Sub(begun)), secondsText(h.at.Sub(last)), h.err, secondsText(beat))
				w.cureFor("idle", w.server)
				return
			}
			if h.event.Name == "bye" {
				w.note(isSkipped, "idle", "the server ended the stream: %s", h.event.Data)
				return
			}
			last = h.at
		case <-over.C:
			longest = max(longest, time.Since(last))
			if beat > 0 && longest > beat+beat/2+time.Second {
				w.held("heartbeats of %s come %s apart", secondsText(beat), secondsText(longest))
				return
			}
			w.note(isFine, "idle", "the stream was open and silent for %s", secondsText(hold))
			return
		}
	}
}

// poll asks for work that never comes, as an agent does that cannot hold a stream.
func (w *way) poll(ctx context.Context, wait time.Duration) error {
	resp, err := w.c.Next(ctx, api.Subscription{MachineID: w.host + "-poll"}, wait)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (w *way) judgePoll(err error, waited time.Duration) {
	switch {
	case err == nil:
		w.note(isFine, "long_poll", "a poll was silent for %s and was answered", secondsText(waited))
	case api.IsStatus(err, http.StatusUnauthorized, http.StatusForbidden):
		w.refused("long_poll", "polls", err)
	default:
		w.note(isWrong, "long_poll", "a poll of %s was cut: %v", secondsText(waited), err)
		w.cureFor("long_poll", w.server)
	}
}
