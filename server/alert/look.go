package alert

import (
	"context"
	"fmt"
	"time"

	"pushd/ackstore"
)

// lookEvery is how often it is looked for what no change tells of.
const lookEvery = 15 * time.Second

// standing is what does not pass by itself, by its key: what is told of it now, and
// what is told when it is there no more.
type standing map[string]struct{ fired, passed Event }

// look finds what stands: machines that are away, what is paused for help, breakers
// that are not closed, a store that cannot write. Some of it no change tells of,
// and what held before the start, or was missed in a flood, only shows here.
func (b *Bureau) look(ctx context.Context) {
	var last *office
	before := standing{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(b.lookPause()):
		}
		now := b.office.Load()
		if len(now.desks) == 0 || !b.lookAtStore(ctx) {
			continue
		}
		found := standing{}
		b.listenFor(map[string]bool{})
		if b.findMachines(ctx, before, found) != nil || b.findDoors(ctx, found) != nil {
			b.listenFor(nil)
			continue // half of it would look as if the rest had passed
		}
		b.compare(before, found, now != last) // all of it to receivers that may be new
		before, last = found, now
	}
}

func (b *Bureau) lookPause() time.Duration {
	return min(lookEvery, max(b.office.Load().cfg.OfflineAfter/4, 10*time.Millisecond))
}

// listenFor has the keys of what is heard from now on kept, or no more.
func (b *Bureau) listenFor(newer map[string]bool) {
	b.hearing.Lock()
	defer b.hearing.Unlock()
	b.newer = newer
}

// compare tells what is new and what is no more. What was heard meanwhile is newer
// than what was found: the next look sees to that.
func (b *Bureau) compare(before, found standing, again bool) {
	b.hearing.Lock()
	defer b.hearing.Unlock()
	for key := range b.newer {
		delete(found, key)
		if s, known := before[key]; known {
			found[key] = s
		}
	}
	for key, s := range found {
		if _, known := before[key]; !known || again && !b.newer[key] {
			b.add(s.fired)
		}
	}
	for key, s := range before {
		if _, still := found[key]; !still {
			s.passed.At = b.deps.Now()
			b.add(s.passed)
		}
	}
	b.newer = nil
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

// findMachines finds those that have been offline or silent for long.
func (b *Bureau) findMachines(ctx context.Context, before, found standing) error {
	const page = 1000
	after := ""
	for {
		machines, err := b.store.Machines(ctx, b.deps.Rules(), after, page)
		if err != nil {
			return err
		}
		for i := range machines {
			b.findMachine(&machines[i], before, found)
			after = machines[i].ID
		}
		if len(machines) < page {
			return nil
		}
	}
}

func (b *Bureau) findMachine(m *ackstore.Machine, before, found standing) {
	now := b.deps.Now()
	e := Event{Kind: Offline, Key: "machine/" + m.ID, Machine: m.ID, At: now}
	gone := m.Presence == ackstore.Offline && m.EverSubscribed || m.Presence == ackstore.Suspect
	s := before[e.Key]
	if gone && !m.Since.IsZero() && now.Sub(m.Since) >= b.office.Load().cfg.OfflineAfter {
		s.fired, s.passed = e, e
		s.fired.Text = fmt.Sprintf("machine %s is %s since %s, with %d waiting", m.ID, m.Presence, m.Since.UTC().Format(time.RFC3339), m.Queued)
		s.passed.Passed, s.passed.Text = true, "machine "+m.ID+" is no more" // unless it is seen again
		found[e.Key] = s
		return
	}
	s.passed.Text = "machine " + m.ID + " is back"
	if gone { // again, or the settings are more patient now
		s.passed.Text = fmt.Sprintf("machine %s is %s, but not for long", m.ID, m.Presence)
	}
	if _, told := before[e.Key]; told {
		before[e.Key] = s
	}
}

// findDoors finds what is paused for help, and breakers that are not closed.
func (b *Bureau) findDoors(ctx context.Context, found standing) error {
	o, err := b.store.Overview(ctx, b.deps.Rules())
	if err != nil {
		return err
	}
	for i := range o.Holds {
		h := &o.Holds[i]
		found.door(ackstore.Change{ActionID: h.ActionID, MachineID: h.MachineID, Detail: string(h.Scope) + " " + h.ID + " " + h.Cause, At: h.Since}, "paused", "resumed")
	}
	for i := range o.Breakers {
		c := &o.Breakers[i]
		found.door(ackstore.Change{MachineID: c.MachineID, Detail: c.Target, At: c.Since}, "breaker_open", "breaker_closed")
	}
	return nil
}

// door is told in the words of the changes that shut and open it.
func (s standing) door(c ackstore.Change, shut, open string) {
	c.Event = shut
	fired, is := eventOf(&c)
	if !is {
		return
	}
	c.Event = open
	passed, _ := eventOf(&c)
	s[fired.Key] = struct{ fired, passed Event }{fired, passed}
}
