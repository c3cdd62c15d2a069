package stream

import "sync"

// signal is given once. Its channel is made only if somebody waits for it:
// for most seats nobody ever does, and thousands of them rest here.
type signal struct {
	given bool
	ch    chan struct{}
}

// signals are those of one seat; the mutex is theirs alone.
type signals struct {
	mu       sync.Mutex
	asked    signal // the holder shall go
	attached signal // the store has answered, or will not be asked; a newcomer's turn
	ended    signal // the holder has left
}

// wait returns a channel that is closed once s is given.
func (of *signals) wait(s *signal) <-chan struct{} {
	of.mu.Lock()
	defer of.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
		if s.given {
			close(s.ch)
		}
	}
	return s.ch
}

// give gives s, and tells whether it had not been given before.
func (of *signals) give(s *signal) bool {
	of.mu.Lock()
	defer of.mu.Unlock()
	if s.given {
		return false
	}
	s.given = true
	if s.ch != nil {
		close(s.ch)
	}
	return true
}

func (of *signals) has(s *signal) bool {
	of.mu.Lock()
	defer of.mu.Unlock()
	return s.given
}
