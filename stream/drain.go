package stream

import (
	"context"
	"time"
)

// CloseAll admits nobody from now on and ends every stream with reason, every
// poll empty-handed. It returns when all are gone; those that are not when ctx
// is done are cut off, and its error says so.
func (r *Registry) CloseAll(ctx context.Context, reason Reason) error {
	r.mu.Lock()
	r.draining = true
	var all []*Seat
	for _, m := range r.machines {
		all = append(append(all, m.live...), m.leaving...)
	}
	r.mu.Unlock()
	for _, s := range all {
		s.ask(reason, "")
	}
	if awaitAll(all, forever, nil, ctx.Done()) {
		return nil
	}
	r.cut(all)
	r.giveUp.Do(func() { close(r.stop) })
	awaitAll(all, cutWait, nil, nil)
	return context.Cause(ctx)
}

const forever = time.Duration(1<<63 - 1)

// CloseTokens ends, as revoked, every stream and poll whose token match selects.
// match must not block.
func (r *Registry) CloseTokens(match func(tokenID string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.machines {
		for _, s := range m.live {
			if match(s.tokenID) {
				s.ask(ByeRevoked, "")
			}
		}
	}
}
