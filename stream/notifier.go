package stream

import (
	"slices"
	"sync"
)

// Notifier wakes the streams and polls of a machine. A wake-up says no more than
// "claim again": several that come at once are one, and one too many does no harm.
type Notifier struct {
	mu   sync.Mutex
	subs map[string][]bell
}

// bell is rung by a Wake; it must not block.
type bell interface{ ring() }

// chime is a bell with somebody waiting at it.
type chime chan struct{}

func (c chime) ring() {
	select {
	case c <- struct{}{}:
	default: // who has not taken the last wake-up yet will claim after it anyway
	}
}

// NewNotifier returns a Notifier to which nobody listens yet.
func NewNotifier() *Notifier {
	return &Notifier{subs: make(map[string][]bell)}
}

// Subscribe returns a channel of capacity one that receives after each Wake of
// the machine. The channel is never closed; stop may be called more than once.
func (n *Notifier) Subscribe(machineID string) (wake <-chan struct{}, stop func()) {
	c := make(chime, 1)
	n.add(machineID, c)
	return c, func() { n.drop(machineID, c) }
}

func (n *Notifier) add(machineID string, b bell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subs[machineID] = append(n.subs[machineID], b)
}

func (n *Notifier) drop(machineID string, b bell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := slices.DeleteFunc(n.subs[machineID], func(other bell) bool { return other == b })
	if len(left) == 0 {
		delete(n.subs, machineID)
		return
	}
	n.subs[machineID] = left
}

// Wake wakes all who listen for the machine. It never blocks.
func (n *Notifier) Wake(machineID string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.subs[machineID] {
		b.ring()
	}
}
