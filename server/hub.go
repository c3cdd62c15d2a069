package server

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pushd/ackstore"
)

// Hub hands on what the store says has changed: to requests that wait for an
// action, and to the feed. It is made before the store, whose Listener calls it.
type Hub struct {
	watched atomic.Int64 // actions that somebody waits for: the store's hot path asks

	mu      sync.Mutex
	waiting map[string][]chan struct{}

	viewers atomic.Int64 // of the feed
	feed    chan []ackstore.Change
	missed  atomic.Uint64 // changes that the feed was too slow for

	stats *stats // of the last hour
}

// NewHub returns a Hub to which nobody listens yet.
func NewHub() *Hub {
	return &Hub{waiting: map[string][]chan struct{}{}, feed: make(chan []ackstore.Change, 1024), stats: newStats(time.Now)}
}

// Changed takes what happened, in the order of commits. It never blocks: a feed
// that is full loses changes, and tells its viewers so.
func (h *Hub) Changed(changes []ackstore.Change) {
	if h.watched.Load() > 0 {
		h.wake(changes)
	}
	h.stats.take(changes)
	if h.viewers.Load() == 0 || len(changes) == 0 {
		return
	}
	select {
	case h.feed <- slices.Clone(changes): // the caller may use its slice again
	default:
		h.missed.Add(uint64(len(changes)))
	}
}

func (h *Hub) wake(changes []ackstore.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		for _, ch := range h.waiting[c.ActionID] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}

// watch returns a channel of capacity one that receives after changes of an action.
func (h *Hub) watch(actionID string) (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[actionID] = append(h.waiting[actionID], ch)
	h.watched.Add(1)
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.watched.Add(-1)
		left := slices.DeleteFunc(h.waiting[actionID], func(c chan struct{}) bool { return c == ch })
		if len(left) == 0 {
			delete(h.waiting, actionID)
			return
		}
		h.waiting[actionID] = left
	}
}
