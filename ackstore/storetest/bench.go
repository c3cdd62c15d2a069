package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// Bench measures the cycle of an action by 1, 16 and 64 callers at a time, each
// with a machine of its own. One round is one act of every caller; what counts
// is acts/s, for callers share commits.
func Bench(b *testing.B, open Factory) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("push/callers=%d", callers), func(b *testing.B) {
			rounds(b, open, callers, func(c *caller) error {
				_, err := c.push()
				return err
			})
		})
		b.Run(fmt.Sprintf("cycle/callers=%d", callers), func(b *testing.B) {
			rounds(b, open, callers, (*caller).cycle)
		})
	}
}

// caller is one client of the store and its machine.
type caller struct {
	store ackstore.Store
	rules ackstore.Rules
	lease ackstore.Lease
	n     int
}

func (c *caller) push() (string, error) {
	c.n++
	id := fmt.Sprintf("%s-%d", c.lease.MachineID, c.n)
	got, err := c.store.Push(ctx, c.rules, [][]ackstore.NewAction{{action(id, of(c.lease.MachineID), lane("s"))}})
	if err == nil {
		err = got[0].Err
	}
	return id, err
}

func (c *caller) claim() ([]ackstore.Dispatch, error) {
	got, err := c.store.Claim(ctx, c.rules, []ackstore.ClaimReq{{Lease: c.lease}})
	if err != nil {
		return nil, err
	}
	return got[0].Dispatches, got[0].Err
}

// cycle is a push, its dispatch and its done.
func (c *caller) cycle() error {
	id, err := c.push()
	for err == nil {
		var sent []ackstore.Dispatch
		if sent, err = c.claim(); len(sent) > 0 {
			break
		}
	}
	if err != nil {
		return err
	}
	got, err := c.store.Settle(ctx, c.rules, []ackstore.Ack{done(id)})
	if err == nil && got[0].Outcome != ackstore.Settled {
		err = fmt.Errorf("done of %s: %s", id, got[0].Outcome)
	}
	if err == nil {
		_, err = c.claim() // parks the lease: the next push rides
	}
	return err
}

// rounds lets every caller act once per iteration.
func rounds(b *testing.B, open Factory, callers int, act func(*caller) error) {
	b.Helper()
	s := open(b, b.TempDir(), time.Now, newEar())
	all := make([]*caller, callers)
	for i := range all {
		m := fmt.Sprintf("m%02d", i)
		got, err := s.Attach(ctx, defaults(), []ackstore.AttachReq{{MachineID: m, InstanceID: "i", MaxInFlight: 1}})
		require.NoError(b, err)
		all[i] = &caller{store: s, rules: defaults(), lease: got[0].Lease}
		all[i].rules.MaxQueued = 1 << 30
	}
	errs := make([]error, callers)
	acts := 0
	for b.Loop() {
		var wait sync.WaitGroup
		for i, c := range all {
			wait.Go(func() { errs[i] = act(c) })
		}
		wait.Wait()
		for _, err := range errs {
			require.NoError(b, err)
		}
		acts += callers
	}
	b.ReportMetric(float64(acts)/b.Elapsed().Seconds(), "acts/s")
	require.NoError(b, s.Close())
}
