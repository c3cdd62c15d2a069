package agentexec

import (
	"net/http"
	"time"

	"pushd/server/api"
)

// Waits of protocol 6, and our own of issue 4.
const (
	backoffFirst  = time.Second
	backoffMost   = time.Minute
	replacedFirst = 30 * time.Second
	replacedMost  = time.Hour
	deniedWait    = time.Minute
)

// why is how a connection ended.
type why uint8

// The ways.
const (
	lost     why = iota // broken, silent, refused for the moment
	told                // the server names the time of return
	replaced            // another agent has the machine, or the contest is lost
	denied              // 401, 403
	leapt               // the computer slept
	held                // a proxy keeps the stream
	finished            // a spell of polling is over
)

// ending is how a connection ended and what was said of the return.
type ending struct {
	why   why
	err   error
	after time.Duration // what the server asks: Retry-After, retry_ms, or retry:
	open  time.Duration // how long it was there
}

// patience knows how long to wait before the next connection.
type patience struct {
	rand     func() float64
	healthy  time.Duration
	failures int
	replaced time.Duration // the last wait for that cause
}

func (p *patience) next(e ending) time.Duration {
	if e.open >= p.healthy {
		p.failures = 0
	}
	if e.open >= replacedMost {
		p.replaced = 0
	}
	switch e.why {
	case leapt, held, finished:
		return 0
	case told:
		return e.after
	case denied:
		return spread(deniedWait, p.rand())
	case replaced:
		p.replaced = min(max(2*p.replaced, replacedFirst), replacedMost)
		return max(p.replaced, e.after)
	}
	first := p.failures == 0
	limit := backoffFirst << min(p.failures, 10)
	limit = min(limit, backoffMost)
	p.failures++
	switch {
	case e.after > 0 && e.open == 0: // Retry-After of a refusal
		return spread(e.after, p.rand())
	case first && e.open > 0 && e.after > 0: // retry: is random per connection already
		return e.after
	}
	return time.Duration(float64(limit) * p.rand())
}

// spread lengthens a wait that many share by up to a fifth.
func spread(d time.Duration, share float64) time.Duration {
	return d + time.Duration(float64(d)/5*share)
}

// refused is the ending that a refusal means.
func refused(err error) ending {
	e := ending{err: err}
	e.after = retryAfter(err)
	switch {
	case api.IsStatus(err, http.StatusUnauthorized, http.StatusForbidden):
		e.why = denied
	case api.IsStatus(err, http.StatusConflict):
		e.why = replaced
	}
	return e
}
