package boltstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
)

var errFull = errors.New("no space left on device")

// spoil applies something in a commit that then fails.
func spoil(t *testing.T, s *Store, apply func(*tx)) {
	t.Helper()
	err := s.submit(t.Context(), roomy, func(t *tx) { apply(t); t.fail(errFull) })
	require.ErrorIs(t, err, ackstore.ErrUnavailable)
}

func poll(instance string) ackstore.AttachReq {
	return ackstore.AttachReq{MachineID: "m1", InstanceID: instance, Via: ackstore.ViaPoll, MaxInFlight: 9}
}

// A poll that could not begin, or end, is counted as often as it did.
func TestPollsAreCountedThroughFailedCommits(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	at, err := s.Attach(t.Context(), roomy, []ackstore.AttachReq{poll("i1")})
	require.NoError(t, err)
	polls := func() (n int) {
		require.NoError(t, s.submit(t.Context(), roomy, func(*tx) { n = s.machines["m1"].lease.polls }))
		return n
	}
	spoil(t, s, func(t *tx) { t.attach(poll("i1")) })
	require.Equal(t, 1, polls())
	spoil(t, s, func(t *tx) { t.detach(ackstore.DetachReq{Lease: at[0].Lease}) })
	require.Equal(t, 1, polls())
	spoil(t, s, func(t *tx) {
		t.attach(poll("i1"))
		t.detach(ackstore.DetachReq{Lease: at[0].Lease})
		t.detach(ackstore.DetachReq{Lease: at[0].Lease})
	})
	require.Equal(t, 1, polls())
}

// What a poll is being answered with is not lost, whatever failed meanwhile.
func TestWhatAPollIsAnsweredWithOutlivesAFailedCommit(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	n := ackstore.NewAction{ActionID: "a1", MachineID: "m1", Type: "job", Payload: []byte("1"), Guarantee: ackstore.AtMostOnce}
	_, err = s.Push(t.Context(), roomy, [][]ackstore.NewAction{{n}})
	require.NoError(t, err)
	at, err := s.Attach(t.Context(), roomy, []ackstore.AttachReq{poll("i1")})
	require.NoError(t, err)
	got, err := s.Claim(t.Context(), roomy, []ackstore.ClaimReq{{Lease: at[0].Lease, Max: 1}})
	require.NoError(t, err)
	require.Len(t, got[0].Dispatches, 1)
	spoil(t, s, func(*tx) {})
	beside := poll("i1")
	beside.LastEventID = new(uint64)
	_, err = s.Attach(t.Context(), roomy, []ackstore.AttachReq{beside})
	require.NoError(t, err)
	rec, err := s.Get(t.Context(), roomy, "a1")
	require.NoError(t, err)
	require.Equal(t, ackstore.InFlight, rec.State)
}

// What goes back into a box goes to its place: a client's Last-Event-ID is a
// receipt for all that came before.
func TestABoxKeepsItsOrderThroughAFailedCommit(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	at, err := s.Attach(t.Context(), roomy, []ackstore.AttachReq{{MachineID: "m1", InstanceID: "i1", MaxInFlight: 9}})
	require.NoError(t, err)
	var group []ackstore.NewAction
	for i := range 3 {
		group = append(group, ackstore.NewAction{ActionID: fmt.Sprint("a", i), MachineID: "m1", Type: "job", Payload: []byte("1")})
	}
	_, err = s.Push(t.Context(), roomy, [][]ackstore.NewAction{group})
	require.NoError(t, err)
	spoil(t, s, func(t *tx) { t.settle(&ackstore.Ack{ActionID: "a1", Verb: ackstore.SaysDone}) })
	got, err := s.Claim(t.Context(), roomy, []ackstore.ClaimReq{{Lease: at[0].Lease}})
	require.NoError(t, err)
	var ids []uint64
	for _, d := range got[0].Dispatches {
		ids = append(ids, d.EventID)
	}
	require.Equal(t, []uint64{1, 2, 3}, ids)
}

// A machine that could not be deleted keeps its polls' lease.
func TestADeletionThatFailedTakesNothing(t *testing.T) {
	now := time.Now()
	s, err := Open(Config{Dir: t.TempDir(), Now: func() time.Time { return now }})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	at, err := s.Attach(t.Context(), roomy, []ackstore.AttachReq{poll("i1")})
	require.NoError(t, err)
	require.NoError(t, s.Detach(t.Context(), roomy, []ackstore.DetachReq{{Lease: at[0].Lease}}))
	spoil(t, s, func(t *tx) { t.drop(t.s.machines["m1"]) })
	require.NoError(t, s.submit(t.Context(), roomy, func(*tx) { require.NotNil(t, s.machines["m1"].lease) }))
	require.NoError(t, s.DropMachine(t.Context(), roomy, "m1"))
	require.Empty(t, s.boxes.m)
}

// While the memory cannot be read again nothing is written: it would begin with
// the numbers of an empty store.
func TestAMemoryThatCannotBeReadWritesNothing(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	pushMany(t, s, 10, 2)
	at, err := s.Attach(t.Context(), roomy, []ackstore.AttachReq{{MachineID: "m1", InstanceID: "i1"}})
	require.NoError(t, err)
	require.NoError(t, s.submit(t.Context(), roomy, func(t *tx) { t.put(bucketHolds, []byte("x"), []byte("no row")) }))
	spoil(t, s, func(*tx) {})
	_, err = s.Push(t.Context(), roomy, [][]ackstore.NewAction{{{ActionID: "b", MachineID: "m1", Type: "job"}}})
	require.ErrorIs(t, err, ackstore.ErrUnavailable)
	require.NoError(t, s.db.Update(func(bt *bolt.Tx) error { return bt.Bucket(bucketHolds).Delete([]byte("x")) }))
	pushed, err := s.Push(t.Context(), roomy, [][]ackstore.NewAction{{{ActionID: "b", MachineID: "m1", Type: "job"}}})
	require.NoError(t, err)
	require.EqualValues(t, 6, pushed[0].Items[0].Seq)
	got, err := s.Claim(t.Context(), roomy, []ackstore.ClaimReq{{Lease: at[0].Lease}})
	require.NoError(t, err)
	require.NoError(t, got[0].Err, "its stream lives")
}

// A step of the wall clock that was seen in a commit that failed is made good in
// the next, and nothing goes out by the rules of nobody.
func TestAStepOfTheWallClockOutlivesAFailedCommit(t *testing.T) {
	now, passed := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), time.Duration(0)
	s, err := Open(Config{Dir: t.TempDir(), Now: func() time.Time { return now }, Elapsed: func() time.Duration { return passed }})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	n := ackstore.NewAction{ActionID: "a1", MachineID: "m1", Type: "job", Delay: 10 * time.Minute}
	_, err = s.Push(t.Context(), roomy, [][]ackstore.NewAction{{n}})
	require.NoError(t, err)
	now = now.Add(time.Hour)
	spoil(t, s, func(*tx) {})
	_, err = s.Sweep(t.Context(), roomy, 10)
	require.NoError(t, err)
	rec, err := s.Get(t.Context(), roomy, "a1")
	require.NoError(t, err)
	require.Equal(t, ackstore.Scheduled, rec.State)
}

func TestAStepOfTheWallClockSendsByTheRulesInForce(t *testing.T) {
	timed := roomy
	timed.OrphanTimeout = 15 * time.Second
	now, passed := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), time.Duration(0)
	s, err := Open(Config{Dir: t.TempDir(), Now: func() time.Time { return now }, Elapsed: func() time.Duration { return passed }})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	until := now.Add(30 * time.Minute)
	require.NoError(t, s.Hold(t.Context(), timed, ackstore.Hold{Scope: ackstore.OfMachine, ID: "m1", Cause: ackstore.HeldByOperator, Until: until}))
	at, err := s.Attach(t.Context(), timed, []ackstore.AttachReq{{MachineID: "m1", InstanceID: "i1", MaxInFlight: 1}})
	require.NoError(t, err)
	n := ackstore.NewAction{ActionID: "a1", MachineID: "m1", Type: "job", TTL: 10 * time.Hour}
	_, err = s.Push(t.Context(), timed, [][]ackstore.NewAction{{n}})
	require.NoError(t, err)
	now = now.Add(time.Hour)
	_, err = s.Overview(t.Context(), timed)
	require.NoError(t, err)
	got, err := s.Claim(t.Context(), timed, []ackstore.ClaimReq{{Lease: at[0].Lease}})
	require.NoError(t, err)
	require.Len(t, got[0].Dispatches, 1)
	require.Equal(t, timed.OrphanTimeout, got[0].Dispatches[0].AckBy.Sub(got[0].Dispatches[0].DispatchedAt))
}

// A record that cannot be read is refused to who asks for it, and to nobody who
// happens to share the commit.
func TestADamagedRecordStopsNobodyElse(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	pushMany(t, s, 10, 1)
	require.NoError(t, s.submit(t.Context(), roomy, func(t *tx) { t.put(bucketActions, be(8), []byte("no row")) }))
	begun, release := make(chan struct{}), make(chan struct{})
	held := make(chan error, 1)
	go func() { held <- s.submit(t.Context(), roomy, func(*tx) { close(begun); <-release }) }()
	<-begun
	asked, pushed := make(chan error, 2), make(chan error, 2)
	for i := range 2 {
		go func() {
			_, err := s.Get(t.Context(), roomy, "a000007")
			asked <- err
		}()
		go func() {
			_, err := s.Push(t.Context(), roomy, [][]ackstore.NewAction{{{ActionID: fmt.Sprint("b", i), MachineID: "m1", Type: "job"}}})
			pushed <- err
		}()
	}
	require.Eventually(t, func() bool { s.in.mu.Lock(); defer s.in.mu.Unlock(); return len(s.in.calls) == 4 }, time.Minute, time.Millisecond)
	close(release)
	require.NoError(t, <-held)
	for range 2 {
		require.ErrorIs(t, <-asked, ackstore.ErrUnavailable)
		require.NoError(t, <-pushed)
	}
	_, err = s.Get(t.Context(), roomy, "b1")
	require.NoError(t, err)
}
