package boltstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

func rules() ackstore.Rules {
	return ackstore.Rules{OrphanTimeout: 15 * time.Second, PollOrphanTimeout: 30 * time.Second, InactivityTimeout: 600 * time.Second,
		Ceiling: 4 * time.Hour, MaxDisconnectResends: 8, DisconnectGrace: 10 * time.Second, ReconnectGrace: time.Minute, CancelGrace: 30 * time.Second,
		SuspectAfter: 45 * time.Second, ErrorDelay: time.Second, BackoffBase: 10 * time.Second, BackoffMax: 10 * time.Minute, QuotaDelay: 15 * time.Minute,
		ReleaseDelay: 250 * time.Millisecond, BreakerThreshold: 3, BreakerPause: 5 * time.Minute, MaxInFlightBytes: 8 << 20, MaxQueued: 100000, MaxMachines: 100000}
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	s, err := boltstore.Open(boltstore.Config{Dir: dir})
	require.NoError(t, err)
	ctx := t.Context()
	r := rules()
	for i := range 10 {
		got, err := s.Push(ctx, r, [][]ackstore.NewAction{{{ActionID: fmt.Sprint("a", i), MachineID: "m1", Type: "job", Payload: []byte("1"), SessionID: fmt.Sprint("s", i%2), MaxResends: 2, MaxAttempts: 2, TransientMaxAttempts: 5}}})
		require.NoError(t, err)
		require.NoError(t, got[0].Err)
	}
	at, err := s.Attach(ctx, r, []ackstore.AttachReq{{MachineID: "m1", MaxInFlight: 3}})
	require.NoError(t, err)
	lease := at[0].Lease
	n := 0
	for n < 10 {
		c, err := s.Claim(ctx, r, []ackstore.ClaimReq{{Lease: lease}})
		require.NoError(t, err)
		require.NoError(t, c[0].Err)
		require.NotEmpty(t, c[0].Dispatches)
		for _, d := range c[0].Dispatches {
			n++
			res, err := s.Settle(ctx, r, []ackstore.Ack{{ActionID: d.ActionID, Verb: ackstore.SaysDone, Result: []byte("true")}})
			require.NoError(t, err)
			require.Equal(t, ackstore.Settled, res[0].Outcome)
		}
	}
	require.NoError(t, s.Close())
	problems, err := boltstore.Verify(dir)
	require.NoError(t, err)
	require.Empty(t, problems)
	s, err = boltstore.Open(boltstore.Config{Dir: dir})
	require.NoError(t, err)
	rec, err := s.Get(ctx, r, "a3")
	require.NoError(t, err)
	require.Equal(t, ackstore.Done, rec.State)
	require.Equal(t, "true", string(rec.Result))
	_, err = boltstore.Open(boltstore.Config{Dir: dir})
	require.ErrorIs(t, err, ackstore.ErrInUse)
	require.NoError(t, s.Close())
}
