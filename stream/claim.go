package stream

import (
	"context"
	"fmt"

	"pushd/ackstore"
)

// claimNow asks the store what is due for a seat. It does not give up with the
// request: what the store has handed over must be known here, to be given back.
func claimNow(ctx context.Context, store claimer, s *Seat, most int) (ackstore.Claimed, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	got, err := store.Claim(ctx, *s.rules, []ackstore.ClaimReq{{Lease: s.attached.Lease, Max: most}})
	if err != nil {
		return ackstore.Claimed{}, err
	}
	if len(got) != 1 {
		return ackstore.Claimed{}, fmt.Errorf("stream: store answered %d claims to one", len(got))
	}
	return got[0], got[0].Err
}
