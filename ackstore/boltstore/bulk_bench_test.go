package boltstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

// BenchmarkDeliveryDuringBulk is the time from a push to its dispatch in the
// hands of a stream, alone and while 100,000 other actions are cancelled in
// slices of 500. The figures to compare are p50-ms and p99-ms of the two.
func BenchmarkDeliveryDuringBulk(b *testing.B) {
	for _, bulk := range []bool{false, true} {
		b.Run(fmt.Sprintf("bulk=%v", bulk), func(b *testing.B) {
			s, err := boltstore.Open(boltstore.Config{Dir: b.TempDir()})
			require.NoError(b, err)
			defer func() { require.NoError(b, s.Close()) }()
			for batch := range 100 {
				var group []ackstore.NewAction
				for i := range 1000 {
					group = append(group, job(fmt.Sprintf("q%d-%d", batch, i), "other", ""))
				}
				_, err := s.Push(b.Context(), rules, [][]ackstore.NewAction{group})
				require.NoError(b, err)
			}
			at, err := s.Attach(b.Context(), rules, []ackstore.AttachReq{{MachineID: "m1", MaxInFlight: 1000}})
			require.NoError(b, err)
			lease := []ackstore.ClaimReq{{Lease: at[0].Lease}}
			_, err = s.Claim(b.Context(), rules, lease)
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			var worker sync.WaitGroup
			if bulk {
				worker.Go(func() { cancelAll(ctx, s) })
			}
			var took []time.Duration
			n := 0
			for b.Loop() {
				n++
				id := fmt.Sprintf("a%d", n)
				begun := time.Now()
				_, err := s.Push(b.Context(), rules, [][]ackstore.NewAction{{job(id, "m1", "")}})
				require.NoError(b, err)
				got, err := s.Claim(b.Context(), rules, lease)
				require.NoError(b, err)
				require.Len(b, got[0].Dispatches, 1)
				took = append(took, time.Since(begun))
				_, err = s.Settle(b.Context(), rules, []ackstore.Ack{{ActionID: id, Verb: ackstore.SaysDone}})
				require.NoError(b, err)
				_, err = s.Claim(b.Context(), rules, lease)
				require.NoError(b, err)
			}
			stop()
			worker.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		})
	}
}

// cancelAll cancels what is queued for the other machine, as the server does.
func cancelAll(ctx context.Context, s *boltstore.Store) {
	req := ackstore.BulkReq{Filter: ackstore.Filter{MachineID: "other"}, Limit: 500}
	for ctx.Err() == nil {
		done, err := s.Bulk(ctx, rules, req)
		if err != nil || done.Next == "" {
			return
		}
		req.Cursor = done.Next
	}
}
