package inflight_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/inflight"
)

// store notes when it was swept, and tells the watchdog what is due next.
type store struct {
	mu    sync.Mutex
	at    []time.Duration
	begun time.Time
	next  []time.Time // told one by one, after each sweep
	more  int         // sweeps that leave a rest
	err   error
	dog   *inflight.Watchdog
}

func (s *store) Sweep(context.Context, ackstore.Rules, int) (ackstore.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Since(s.begun))
	if s.err != nil {
		return ackstore.Swept{}, s.err
	}
	if s.more > 0 {
		s.more--
		return ackstore.Swept{More: true}, nil
	}
	if len(s.next) > 0 {
		next := s.next[0]
		s.next = s.next[1:]
		s.dog.Due(next)
	}
	return ackstore.Swept{}, nil
}

func (s *store) sweeps() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.at...)
}

func TestWatchdog(t *testing.T) {
	run := func(t *testing.T, s *store, scan, until time.Duration) *inflight.Watchdog {
		t.Helper()
		dog := inflight.New(inflight.Config{Rules: func() ackstore.Rules { return ackstore.Rules{} }, ScanInterval: scan})
		s.dog, s.begun = dog, time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), until)
		defer cancel()
		require.NoError(t, dog.Run(ctx, s))
		return dog
	}
	const never = time.Hour

	t.Run("it sweeps at the very moment that something is due", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &store{next: []time.Time{time.Now().Add(1234 * time.Millisecond), time.Now().Add(5 * time.Second), {}}}
			run(t, s, never, time.Minute)
			require.Equal(t, []time.Duration{0, 1234 * time.Millisecond, 5 * time.Second}, s.sweeps())
		})
	})

	t.Run("an earlier moment moves the alarm", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &store{next: []time.Time{time.Now().Add(time.Minute)}}
			time.AfterFunc(2*time.Second, func() { s.dog.Due(s.begun.Add(3 * time.Second)) })
			run(t, s, never, 10*time.Second)
			require.Equal(t, []time.Duration{0, 3 * time.Second}, s.sweeps())
		})
	})

	t.Run("a moment that stays due is left to the scan, and not spun on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &store{next: []time.Time{time.Now().Add(time.Second)}}
			dog := run(t, s, 4*time.Second, 9*time.Second)
			require.Equal(t, []time.Duration{0, time.Second, 4 * time.Second, 8 * time.Second}, s.sweeps())
			require.EqualValues(t, 2, dog.Metrics().Scans)
		})
	})

	t.Run("a rest is swept at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &store{more: 3}
			run(t, s, never, time.Second)
			require.Len(t, s.sweeps(), 4)
		})
	})

	t.Run("a sweep that fails is counted, and tried again by the scan", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &store{err: errors.New("no space left")}
			dog := run(t, s, time.Second, 2500*time.Millisecond)
			require.Len(t, s.sweeps(), 3)
			require.EqualValues(t, 3, dog.Metrics().ScansFailed)
		})
	})

	t.Run("it counts what became of deliveries", func(t *testing.T) {
		dog := inflight.New(inflight.Config{ScanInterval: time.Second})
		dog.Changed([]ackstore.Change{{Event: "orphan"}, {Event: "orphan"}, {Event: "resent"}, {Event: "gave_up"}, {Event: "received"}})
		m := dog.Metrics()
		require.EqualValues(t, []int64{2, 1, 1}, []int64{m.OrphansDetected, m.OrphansResent, m.OrphansGivenUp})
	})
}
