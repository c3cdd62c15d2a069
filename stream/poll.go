package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"pushd/ackstore"
)

// Poll waits for the next dispatch of an admitted poll's machine, at most for
// wait. It returns false when none came, and at once when the poll is replaced
// or its client has gone. The error is the store's.
func Poll(ctx context.Context, seat *Seat, store claimer, n *Notifier, wait time.Duration) (ackstore.Dispatch, bool, error) {
	wake, stop := n.Subscribe(seat.req.MachineID) // before the claim: no commit lies between
	defer stop()
	closing := seat.Closing()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for last := wait <= 0; ; {
		d, ok, err := pollOnce(ctx, seat, store)
		if errors.Is(err, ackstore.ErrFenced) {
			return ackstore.Dispatch{}, false, nil
		}
		if ok || err != nil || last || seat.unwanted() {
			return d, ok, err
		}
		select {
		case <-ctx.Done():
			return ackstore.Dispatch{}, false, nil
		case <-closing:
			return ackstore.Dispatch{}, false, nil
		case <-timer.C:
			select {
			case <-wake: // both at once: what woke us is ours
				last = true
			default:
				return ackstore.Dispatch{}, false, nil
			}
		case <-wake:
		}
	}
}

// pollOnce claims one dispatch. One that cannot be answered any more goes back.
func pollOnce(ctx context.Context, seat *Seat, store claimer) (ackstore.Dispatch, bool, error) {
	got, err := claimNow(ctx, store, seat, 1)
	if err != nil || len(got.Dispatches) == 0 {
		return ackstore.Dispatch{}, false, err
	}
	if ctx.Err() != nil || seat.unwanted() {
		for _, d := range got.Dispatches {
			seat.Return(d)
		}
		return ackstore.Dispatch{}, false, nil
	}
	return got.Dispatches[0], true, nil
}

// Answer writes a dispatch as the 200 of a poll, headers and all, within
// timeout per write. When no byte of it could be written the seat gives it back.
func Answer(w http.ResponseWriter, seat *Seat, d ackstore.Dispatch, timeout time.Duration) error {
	socket := &socket{out: newAnswer(w), timeout: timeout}
	defer socket.release()
	seat.bind(socket)
	body := AppendEnvelope(nil, d, true)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	n, err := socket.write(body)
	if err == nil {
		err = socket.flush()
	}
	if err != nil {
		if n == 0 {
			seat.Return(d)
		}
		return fmt.Errorf("stream: answer to a poll: %w", err)
	}
	return nil
}
