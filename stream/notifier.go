package stream

import (
	"slices"
	"sync"
)

// Notifier wakes the streams and polls of a machine. A wake-up says no more than
// "claim again": several that come at once are one, and one too many does no harm.
type Notifier struct {
	mu   sync.Mutex
	subs map[string][]chan struct{}
}

// NewNotifier returns a Notifier to which nobody listens yet.
func NewNotifier() *Notifier {
	return &Notifier{subs: make(map[string][]chan struct{})}
}

// Subscribe returns a channel of capacity one that receives after each Wake of
// the machine. The channel is never closed; stop may be called more than once.
func (n *Notifier) Subscribe(machineID string) (wake <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subs[machineID] = append(n.subs[machineID], ch)
	return ch, func() { n.drop(machineID, ch) }
}

func (n *Notifier) drop(machineID string, ch chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	left := slices.DeleteFunc(n.subs[machineID], func(c chan struct{}) bool { return c == ch })
	if len(left) == 0 {
		delete(n.subs, machineID)
		return
	}
	n.subs[machineID] = left
}

// Wake wakes all who listen for the machine. It never blocks: who has not taken
// the last wake-up yet will claim after it anyway.
func (n *Notifier) Wake(machineID string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ch := range n.subs[machineID] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
