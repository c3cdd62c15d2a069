package boltstore

import (
	"time"

	"pushd/ackstore"
	"pushd/inflight/ledger"
	"pushd/policy"
)

// stepLeast is what counts as a step of the wall clock and not as its drift.
const stepLeast = 2 * time.Second

// clock tells when the wall clock has been set. In memory deadlines carry a
// monotonic reading and are not touched by that; what waits on disk has only the
// wall clock's, and would all come due at once, or stand still.
type clock struct {
	wall    time.Time // the last reading
	elapsed time.Duration
}

// step is by how much the wall clock was set since the last call; 0 if it was not.
func (c *clock) step(now time.Time, elapsed func() time.Duration) time.Duration {
	last := *c
	c.wall = now
	passed := now.Sub(last.wall) // by the monotonic readings, where there are
	if elapsed != nil {
		c.elapsed = elapsed()
		passed = c.elapsed - last.elapsed
	}
	if last.wall.IsZero() {
		return 0
	}
	step := now.Round(0).Sub(last.wall.Round(0)) - passed
	if step.Abs() < stepLeast {
		return 0
	}
	return step.Round(time.Millisecond)
}

// watchClock makes good a step of the wall clock, by the rules in force: what it
// moves may be dispatched with the batch.
func (t *tx) watchClock(batch []*call) {
	was := t.s.clock
	t.undo = append(t.undo, func() { t.s.clock = was }) // the next commit sees it again
	step := t.s.clock.step(t.now, t.s.cfg.Elapsed)
	if step == 0 {
		return
	}
	t.r = t.s.rules
	for i := 0; i < len(batch) && t.r == (ackstore.Rules{}); i++ {
		t.r = batch[i].rules
	}
	t.stepped(step)
}

// stepped moves what waits for a duration, so that it waits as long as it was to.
// Instants that a client or an operator named stay where they are.
func (t *tx) stepped(step time.Duration) {
	t.s.log.Warn().Dur("step", step).Msg("the wall clock was set; what waits for a duration keeps it")
	t.seen(func(s *seen) { s.jump(step) })
	seen := map[uint64]bool{}
	var ords []uint64
	t.fail(t.bucket(bucketTimes).ForEach(func(key, _ []byte) error {
		if ord := ordOf(key[8:]); !seen[ord] {
			seen[ord] = true
			ords = append(ords, ord)
		}
		return nil
	}))
	for _, ord := range ords {
		if r := t.sound(ord); r != nil && (r.a.Delayed || r.a.TTL) {
			t.change(r, func(a *ackstore.Action) ledger.Effect { return shift(a, step) })
		}
	}
	for id, b := range t.s.breakers {
		if b.State == policy.Open && !b.Until.IsZero() {
			b.Until = b.Until.Add(step)
			t.putBreaker(id, b)
		}
	}
}

// seen is what an overview tells of the time since the store was opened.
type seen struct {
	evicted map[ackstore.State]uint64
	jumps   ackstore.ClockJumps
}

func (s *seen) jump(step time.Duration) {
	if step < 0 {
		s.jumps.Back++
	} else {
		s.jumps.Forward++
	}
}

// seen notes something once the commit stands.
func (t *tx) seen(note func(*seen)) { t.notes = append(t.notes, note) }

func shift(a *ackstore.Action, step time.Duration) ledger.Effect {
	if a.Delayed && !a.AvailableAt.IsZero() {
		a.AvailableAt = a.AvailableAt.Add(step)
	}
	if a.TTL && !a.ExpiresAt.IsZero() {
		a.ExpiresAt = a.ExpiresAt.Add(step)
	}
	return ledger.Effect{}
}
