package server

import (
	"net/netip"
	"sync"
	"time"
)

// maxThrottled bounds the addresses that are remembered.
const maxThrottled = 8192

// throttle counts failed authentications by address: a bucket for each that
// leaks. Who holds a valid token is never held up, for many agents may share an
// address with one whose token has ended; what is limited is the answering and
// logging of those that have none. Guessing is hopeless anyway: a token is 256
// random bits.
type throttle struct {
	now    func() time.Time
	most   float64 // failures that an address has at once; 0: no limit
	window time.Duration

	mu     sync.Mutex
	byHost map[netip.Addr]bucket
}

type bucket struct {
	level float64
	at    time.Time
}

func newThrottle(most int, window time.Duration, now func() time.Time) *throttle {
	return &throttle{now: now, most: float64(most), window: window, byHost: map[netip.Addr]bucket{}}
}

// strike counts a failure, and tells how long the address shall wait if it has
// had too many.
func (t *throttle) strike(address string) (wait time.Duration, limited bool) {
	if t.most <= 0 {
		return 0, false
	}
	host := networkOf(hostAddr(address))
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	b := bucket{t.level(t.byHost[host], now) + 1, now}
	limited = b.level > t.most
	if limited {
		b.level = t.most + 1 // who goes on is not locked out for ever longer
	}
	if _, known := t.byHost[host]; !known && len(t.byHost) >= maxThrottled {
		t.forget(now)
	}
	t.byHost[host] = b
	if limited {
		wait = t.window / time.Duration(t.most)
	}
	return wait, limited
}

func (t *throttle) level(b bucket, now time.Time) float64 {
	leaked := t.most * max(0, now.Sub(b.at).Seconds()) / t.window.Seconds()
	return max(0, b.level-leaked)
}

// forget makes room: what has leaked out goes, or else any one. The lock is held.
func (t *throttle) forget(now time.Time) {
	var any netip.Addr
	for host, b := range t.byHost {
		if t.level(b, now) == 0 {
			delete(t.byHost, host)
		}
		any = host
	}
	if len(t.byHost) >= maxThrottled {
		delete(t.byHost, any)
	}
}

// networkOf is what one client can choose its address from: an IPv6 /64.
func networkOf(a netip.Addr) netip.Addr {
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
