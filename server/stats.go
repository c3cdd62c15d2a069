package server

import (
	"sync"
	"sync/atomic"
	"time"

	"pushd/ackstore"
)

// Bounds of what stats remembers. Together they are below 10 MB, whatever happens.
const (
	statsSeconds  = 3600   // the ring: one bucket a second, one hour
	statsSteps    = 30     // of a machine's sparkline, over the same hour
	statsMachines = 10_000 // with a sparkline of their own; later ones have none
	statsTimed    = 16_384 // actions whose two waits are being measured
	statsLost     = 50_000 // orphans known one by one
	stepSeconds   = statsSeconds / statsSteps
)

// tally counts what happened in a while.
type tally struct {
	Pushed, Deliveries, Resends, GiveUps, Done, Failed uint32
}

func (t *tally) add(o tally) {
	t.Pushed += o.Pushed
	t.Deliveries += o.Deliveries
	t.Resends += o.Resends
	t.GiveUps += o.GiveUps
	t.Done += o.Done
	t.Failed += o.Failed
}

// second is one bucket of the ring.
type second struct {
	at     int64 // unix second it holds; anything else is stale
	counts tally
	toWire histogram // push to dispatch: its bytes leave at once after that
	toAck  histogram // dispatch to the first ack
}

// timing is an action between its push and its first ack.
type timing struct{ pushed, sent time.Time }

// stats is the last hour in memory, fed by what the store says has changed. It is
// what a dashboard draws; what must be exact is read from the store.
type stats struct {
	now     func() time.Time
	started time.Time

	mu       sync.Mutex
	ring     [statsSeconds]second
	timed    map[string]timing
	machines map[string]*machineStats
	lost     map[string]string // action to machine: waits to be resent
	lostOn   map[string]int    // machine to how many of those
	unacked  map[string]unacked
	early    map[string]struct{} // actions heard of before the seed of unacked; nil: it is read

	deaths atomic.Uint64 // changes of what is a dead letter
}

func newStats(now func() time.Time) *stats {
	return &stats{
		now: now, started: now(),
		timed: map[string]timing{}, machines: map[string]*machineStats{},
		lost: map[string]string{}, lostOn: map[string]int{}, unacked: map[string]unacked{}, early: map[string]struct{}{},
	}
}

// take counts changes in the order of commits. It is on the store's path, so it
// does nothing but count.
func (s *stats) take(changes []ackstore.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.ActionID == "" || c.State == 0 {
			continue
		}
		if c.State.DeadLetter() || c.Event == "redriven" || c.Event == "resolved" || c.Event == "done" {
			s.deaths.Add(1)
		}
		s.count(c)
		s.trackUnacked(c)
		s.trackLost(c.ActionID, c.MachineID, c.Event == "orphan" && c.State.Waits())
	}
}

// count puts one change into its second and into its machine's step.
func (s *stats) count(c *ackstore.Change) {
	var t tally
	switch c.Event {
	case "pushed":
		t.Pushed = 1
	case "dispatched":
		t.Deliveries = 1
	case "resent":
		t.Deliveries, t.Resends = 1, 1
	case "gave_up":
		t.GiveUps = 1
	case "done":
		t.Done = 1
	case "failed":
		t.Failed = 1
	}
	b := s.bucket(c.At)
	b.counts.add(t)
	m := s.machine(c.MachineID)
	if m != nil {
		m.step(c.At).add(t)
	}
	s.measure(c, b, m)
}

// measure times push to dispatch, once an action, and dispatch to first ack, once
// a delivery.
func (s *stats) measure(c *ackstore.Change, b *second, m *machineStats) {
	switch c.Event {
	case "pushed":
		if len(s.timed) < statsTimed {
			s.timed[c.ActionID] = timing{pushed: c.At}
		}
		return
	case "dispatched", "resent":
		t, known := s.timed[c.ActionID]
		if known && t.sent.IsZero() {
			b.toWire.add(c.At.Sub(t.pushed))
		}
		if known || len(s.timed) < statsTimed {
			s.timed[c.ActionID] = timing{pushed: t.pushed, sent: c.At}
		}
		return
	case "received", "done", "failed", "released":
		if t, known := s.timed[c.ActionID]; known && !t.sent.IsZero() {
			took := max(0, c.At.Sub(t.sent))
			b.toAck.add(took)
			if m != nil {
				m.rtt = took
			}
		}
		if m != nil {
			m.lastAck = c.At
		}
	}
	delete(s.timed, c.ActionID)
}

// trackLost keeps the orphans by machine: the store only knows how many there are.
func (s *stats) trackLost(action, machine string, lost bool) {
	was, known := s.lost[action]
	switch {
	case lost && !known && len(s.lost) < statsLost:
		s.lost[action] = machine
		s.lostOn[machine]++
	case !lost && known:
		delete(s.lost, action)
		if s.lostOn[was]--; s.lostOn[was] <= 0 {
			delete(s.lostOn, was)
		}
	}
}

func (s *stats) bucket(at time.Time) *second {
	b := &s.ring[mod(at.Unix(), statsSeconds)]
	if b.at != at.Unix() {
		*b = second{at: at.Unix()}
	}
	return b
}

// machineStats are a machine's hour in steps of two minutes, and its last ack.
type machineStats struct {
	newest  int64 // number of the newest step
	steps   [statsSteps]stepTally
	lastAck time.Time
	rtt     time.Duration
}

// stepTally is a tally in little space: it stops at 65,535.
type stepTally struct{ deliveries, resends, giveUps, done, failed uint16 }

func (t *stepTally) add(o tally) {
	up := func(n *uint16, by uint32) { *n = uint16(min(uint32(*n)+by, 1<<16-1)) }
	up(&t.deliveries, o.Deliveries)
	up(&t.resends, o.Resends)
	up(&t.giveUps, o.GiveUps)
	up(&t.done, o.Done)
	up(&t.failed, o.Failed)
}

// machine is a machine's hour; nil where there is no room for another.
func (s *stats) machine(id string) *machineStats {
	m := s.machines[id]
	if m == nil && id != "" && len(s.machines) < statsMachines {
		m = &machineStats{newest: s.now().Unix() / stepSeconds}
		s.machines[id] = m
	}
	return m
}

// step is the step of an instant; those that nothing happened in are emptied.
func (m *machineStats) step(at time.Time) *stepTally {
	n := at.Unix() / stepSeconds
	for i := max(m.newest+1, n-statsSteps+1); i <= n; i++ {
		m.steps[mod(i, statsSteps)] = stepTally{}
	}
	m.newest = max(m.newest, n)
	return &m.steps[mod(n, statsSteps)]
}

// hour is a machine's steps from old to new, ending now.
func (m *machineStats) hour(now time.Time) [statsSteps]stepTally {
	var out [statsSteps]stepTally
	newest := now.Unix() / stepSeconds
	for i := range out {
		n := newest - int64(statsSteps-1-i)
		if n <= m.newest && n > m.newest-statsSteps {
			out[i] = m.steps[mod(n, statsSteps)]
		}
	}
	return out
}

func mod(n, by int64) int64 { return ((n % by) + by) % by }
