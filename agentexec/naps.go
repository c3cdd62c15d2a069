package agentexec

import (
	"context"
	"sync"
	"time"
)

// A computer that sleeps comes back with open sockets that are dead. Neither its
// timers nor its monotonic clock need have seen the time pass.
const (
	napTick = 2 * time.Second
	napLeap = 10 * time.Second
)

// napWatch finds leaps of the clocks between two ticks and tells who listens.
type napWatch struct {
	now func() time.Time

	mu   sync.Mutex
	hear map[chan struct{}]struct{}
}

func newNapWatch(now func() time.Time) *napWatch {
	return &napWatch{now: now, hear: make(map[chan struct{}]struct{})}
}

// listen returns a channel that gets a word after each leap.
func (w *napWatch) listen() (leaps <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hear[ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.hear, ch)
	}
}

func (w *napWatch) run(ctx context.Context) {
	ticker := time.NewTicker(napTick)
	defer ticker.Stop()
	last := w.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := w.now()
		// Round drops the monotonic reading: the wall clock is what moves in a sleep.
		if now.Sub(last) > napLeap || now.Round(0).Sub(last.Round(0)) > napLeap {
			w.tell()
		}
		last = now
	}
}

func (w *napWatch) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.hear {
		select {
		case ch <- struct{}{}:
		default: // told already
		}
	}
}
