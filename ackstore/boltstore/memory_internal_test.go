package boltstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/policy"
)

func pushMany(t *testing.T, s *Store, n, sessions int) {
	t.Helper()
	for begin := 0; begin < n; begin += 1000 {
		var group []ackstore.NewAction
		for i := begin; i < min(n, begin+1000); i++ {
			a := ackstore.NewAction{ActionID: fmt.Sprintf("a%06d", i), MachineID: fmt.Sprintf("m%d", i%2), Type: "job", Payload: []byte("1")}
			if i%4 > 0 {
				a.SessionID = fmt.Sprintf("s%d", i%sessions)
			}
			group = append(group, a)
		}
		pushed, err := s.Push(t.Context(), roomy, [][]ackstore.NewAction{group})
		require.NoError(t, err)
		require.NoError(t, pushed[0].Err)
	}
}

var roomy = ackstore.Rules{MaxQueued: 1 << 30, MaxMachines: 1 << 30, MaxInFlightBytes: 1 << 30}

// The queue is on disk; memory holds the head of each lane.
func TestMemoryHoldsHeadsNotQueues(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	pushMany(t, s, 20_000, 10)
	lanes := func(s *Store) (n int) {
		for _, m := range s.machines {
			n += len(m.lanes) + len(m.flows)
		}
		return n
	}
	require.Equal(t, lanes(s), len(s.live))
	require.LessOrEqual(t, len(s.live), 22)
	live := len(s.live)
	require.NoError(t, s.Close())
	s, err = Open(Config{Dir: dir})
	require.NoError(t, err)
	require.Len(t, s.live, live)
	require.Equal(t, 20_000, s.counts[ackstore.Queued])
	require.NoError(t, s.Close())
}

// What a failed commit has touched is read again from the file, and a stream that
// was parked is woken to ask anew.
func TestAFailedCommitLeavesNothingBehind(t *testing.T) {
	heard := &listener{}
	s, err := Open(Config{Dir: t.TempDir(), Listener: heard})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	at, err := s.Attach(t.Context(), roomy, []ackstore.AttachReq{{MachineID: "m0", MaxInFlight: 5, InstanceID: "i1"}})
	require.NoError(t, err)
	_, err = s.Claim(t.Context(), roomy, []ackstore.ClaimReq{{Lease: at[0].Lease}})
	require.NoError(t, err)
	pushMany(t, s, 1, 1)
	claimed, err := s.Claim(t.Context(), roomy, []ackstore.ClaimReq{{Lease: at[0].Lease}})
	require.NoError(t, err)
	require.Len(t, claimed[0].Dispatches, 1)
	// What an earlier commit has to announce is announced before the next begins.
	require.NoError(t, s.submit(t.Context(), roomy, func(*tx) {}))
	heard.woken = nil

	full := errors.New("no space left on device")
	err = s.submit(t.Context(), roomy, func(t *tx) {
		t.push([]ackstore.NewAction{{ActionID: "lost", MachineID: "m0", Type: "job", Payload: []byte("1")}})
		t.attach(ackstore.AttachReq{MachineID: "m0", MaxInFlight: 1, InstanceID: "i2"})
		t.settle(&ackstore.Ack{ActionID: "a000000", Verb: ackstore.SaysDone})
		t.fail(full)
	})
	require.ErrorIs(t, err, ackstore.ErrUnavailable)
	require.Equal(t, []string{"m0"}, heard.woken)
	_, err = s.Get(t.Context(), roomy, "lost")
	require.ErrorIs(t, err, ackstore.ErrUnknown)
	rec, err := s.Get(t.Context(), roomy, "a000000")
	require.NoError(t, err)
	require.Equal(t, ackstore.InFlight, rec.State)
	require.Empty(t, rec.Result)

	// The lease is the one before, and its stream goes on.
	claimed, err = s.Claim(t.Context(), roomy, []ackstore.ClaimReq{{Lease: at[0].Lease}})
	require.NoError(t, err)
	require.NoError(t, claimed[0].Err)
	require.NoError(t, s.Writable(t.Context()))
	settled, err := s.Settle(t.Context(), roomy, []ackstore.Ack{{ActionID: "a000000", Verb: ackstore.SaysDone}})
	require.NoError(t, err)
	require.Equal(t, ackstore.Settled, settled[0].Outcome)
}

type listener struct{ woken []string }

func (l *listener) Wake(id string)            { l.woken = append(l.woken, id) }
func (l *listener) Due(time.Time)             {}
func (l *listener) Changed([]ackstore.Change) {}

// A caller that has gone away takes its call back, if nobody has begun it.
func TestACallIsTakenBackOrAwaited(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	begun, release := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		first <- s.submit(ctx, roomy, func(*tx) { close(begun); <-release })
	}()
	<-begun
	cancel() // too late: it is being applied
	gone, leave := context.WithCancel(t.Context())
	leave()
	applied := false
	require.ErrorIs(t, s.submit(gone, roomy, func(*tx) { applied = true }), context.Canceled)
	close(release)
	require.NoError(t, <-first)
	require.NoError(t, s.submit(t.Context(), roomy, func(*tx) {}))
	require.False(t, applied)
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Writable(t.Context()), nil)
	_, err = s.Push(t.Context(), roomy, nil)
	require.ErrorIs(t, err, ackstore.ErrUnavailable)
}

// What is remembered of give-ups and of breakers does not grow with the lanes and
// targets that there have been.
func TestGiveUpsAndClosedBreakersAreForgotten(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s, err := Open(Config{Dir: t.TempDir(), Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	m := newMachine("m1")
	for i := range 50 {
		now = now.Add(10 * time.Minute)
		require.NoError(t, s.submit(t.Context(), roomy, func(t *tx) {
			t.deadLane(newRec(m, ackstore.Action{ID: "a", MachineID: "m1", SessionID: fmt.Sprint("s", i)}))
			id := breakerID{"m1", fmt.Sprint("t", i)}
			t.putBreaker(id, &breakerRow{Machine: "m1", Target: id.target, State: policy.Open, Until: now.Add(time.Hour), Since: now})
			t.closeBreaker(id)
		}))
	}
	require.LessOrEqual(t, len(m.row.LaneGiveUps), 7)
	require.Len(t, s.breakers, 50)
	now = now.Add(breakerKept)
	_, err = s.Sweep(t.Context(), roomy, 100)
	require.NoError(t, err)
	require.Len(t, s.breakers, 1, "it closed a day ago and no more")
	now = now.Add(tidyEvery)
	_, err = s.Sweep(t.Context(), roomy, 100)
	require.NoError(t, err)
	require.Empty(t, s.breakers)
	require.NoError(t, s.reload())
	require.Empty(t, s.breakers)
}

// Every commit asks when the first pause ends, however many there are.
func BenchmarkACommitBesideManyPauses(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir(), Listener: &listener{}})
	require.NoError(b, err)
	defer func() { require.NoError(b, s.Close()) }()
	require.NoError(b, s.submit(b.Context(), roomy, func(t *tx) {
		for i := range 100_000 {
			t.hold(ackstore.Hold{Scope: ackstore.OfSession, ID: fmt.Sprint("s", i), MachineID: "m1", Cause: ackstore.HeldOnDead})
		}
	}))
	for b.Loop() {
		require.NoError(b, s.submit(b.Context(), roomy, func(*tx) {}))
	}
}
