package alert

import (
	"context"
	"fmt"
	"time"

	"pushd/ackstore"
)

// lookEvery is how often it is looked for what no change tells of.
const lookEvery = 15 * time.Second

// look finds machines that are away and a store that cannot write.
func (b *Bureau) look(ctx context.Context) {
	var last *office
	away := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(b.lookPause()):
		}
		now := b.office.Load()
		if len(now.desks) > 0 && b.lookAtStore(ctx) {
			b.lookAtMachines(ctx, away, now != last)
			last = now
		}
	}
}

func (b *Bureau) lookPause() time.Duration {
	return min(lookEvery, max(b.office.Load().cfg.OfflineAfter/4, 10*time.Millisecond))
}

func (b *Bureau) lookAtStore(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := b.store.Writable(asking)
	if ctx.Err() != nil {
		return false
	}
	e := Event{Kind: Store, Key: "store", Text: "the store cannot write: pushes and acks are answered 503", At: b.deps.Now()}
	if err == nil {
		e.Passed, e.Text = true, "the store can write again"
	}
	b.add(e)
	return err == nil
}

// lookAtMachines tells of those that have been offline or silent for long, and of
// those that are back. All that are away are told again to receivers that may be new.
func (b *Bureau) lookAtMachines(ctx context.Context, away map[string]bool, again bool) {
	const page = 1000
	after := ""
	for {
		machines, err := b.store.Machines(ctx, b.deps.Rules(), after, page)
		if err != nil {
			return
		}
		for i := range machines {
			b.lookAtMachine(&machines[i], away, again)
			after = machines[i].ID
		}
		if len(machines) < page {
			return
		}
	}
}

func (b *Bureau) lookAtMachine(m *ackstore.Machine, away map[string]bool, again bool) {
	now := b.deps.Now()
	gone := m.Presence == ackstore.Offline && m.EverSubscribed || m.Presence == ackstore.Suspect
	long := gone && !m.Since.IsZero() && now.Sub(m.Since) >= b.office.Load().cfg.OfflineAfter
	if long == away[m.ID] && !(long && again) {
		return
	}
	e := Event{Kind: Offline, Key: "machine/" + m.ID, Machine: m.ID, At: now}
	if long {
		away[m.ID] = true
		e.Text = fmt.Sprintf("machine %s is %s since %s, with %d waiting", m.ID, m.Presence, m.Since.UTC().Format(time.RFC3339), m.Queued)
	} else {
		delete(away, m.ID)
		e.Passed, e.Text = true, "machine "+m.ID+" is back"
		if gone { // again, or the settings are more patient now
			e.Text = fmt.Sprintf("machine %s is %s, but not for long", m.ID, m.Presence)
		}
	}
	b.add(e)
}
