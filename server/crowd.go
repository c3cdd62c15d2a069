package server

import (
	"sync"
	"time"
)

// crowd counts the requests in progress. A WaitGroup would not do: a request may
// begin while the drain already waits.
type crowd struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n falls to zero; nil: nobody waits
}

func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 && c.empty != nil {
		close(c.empty)
		c.empty = nil
	}
}

// await waits until nobody is there, at most for a time; false: somebody still is.
func (c *crowd) await(most time.Duration) bool {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return true
	}
	if c.empty == nil {
		c.empty = make(chan struct{})
	}
	empty := c.empty
	c.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-empty:
		return true
	case <-timer.C:
		return false
	}
}
