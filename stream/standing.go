package stream

import "pushd/ackstore"

// Standing is what has become of a stream.
type Standing uint8

// A stream that is not remembered is Gone: reconnect. After Replaced wait.
const (
	Gone Standing = iota
	Live
	Replaced
)

// Standing tells what has become of a stream of a machine. The lease is valid
// only with Live.
func (r *Registry) Standing(machineID, streamID string) (ackstore.Lease, Standing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.machines[machineID]; m != nil {
		for _, s := range m.live {
			if s.req.StreamID == streamID && s.seated && !s.over() {
				return s.attached.Lease, Live
			}
		}
	}
	if r.replaced.has(machineID, streamID) {
		return ackstore.Lease{}, Replaced
	}
	return ackstore.Lease{}, Gone
}

// Contested tells whether a machine is fought over: a contest is shown until an
// hour has passed without another.
func (r *Registry) Contested(machineID string) (Contest, bool) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contests.shown(machineID, now)
}

// RegistryCounts are numbers for metrics. All but the first three only grow.
type RegistryCounts struct {
	Machines, Streams, Polls               int // live now
	Admitted, Takeovers, Contests, Refused uint64
	Cuts                                   uint64 // replaced streams that hung and were cut off
}

// Counts of what is live, and of what happened since the start.
func (r *Registry) Counts() RegistryCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// recall remembers which streams were replaced: the last ones, for an agent
// asks soon or never.
type recall struct {
	machine map[string]string // by stream id
	ring    []string
	next    int
}

const recallSize = 4096

func newRecall() recall {
	return recall{machine: make(map[string]string), ring: make([]string, recallSize)}
}

func (m *recall) add(machineID, streamID string) {
	delete(m.machine, m.ring[m.next])
	m.ring[m.next] = streamID
	m.next = (m.next + 1) % len(m.ring)
	m.machine[streamID] = machineID
}

func (m *recall) has(machineID, streamID string) bool {
	of, ok := m.machine[streamID]
	return ok && of == machineID
}
