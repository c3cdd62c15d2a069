package stream

import (
	"slices"
	"time"
)

// How often agents that do not know each other may take a machine from one
// another (protocol section 6), and for how long it is shown.
const (
	fewContests, soon  = 3, time.Minute
	manyContests, late = 6, time.Hour
	maxContestants     = 16 // addresses remembered per machine
)

// Contest tells between whom a machine is contested.
type Contest struct {
	Addresses []string // hosts, in the order in which they appeared
	Since     time.Time
}

// contest is one machine's: its accepted takeovers, the newest last.
type contest struct {
	Contest
	times []time.Time
}

// contests are those of all machines. Its owner locks.
type contests struct {
	of    map[string]*contest
	swept time.Time
}

// wait is how long a takeover must wait; 0: it may be now. Those refused are not
// counted, so that a loop of refusals ends.
func (c *contests) wait(machineID string, now time.Time) time.Duration {
	m := c.of[machineID]
	if m == nil {
		return 0
	}
	return max(m.until(fewContests, soon, now), m.until(manyContests, late, now), 0)
}

// until is how long it takes for fewer than n to lie within span.
func (m *contest) until(n int, span time.Duration, now time.Time) time.Duration {
	if len(m.times) < n {
		return 0
	}
	return m.times[len(m.times)-n].Add(span).Sub(now)
}

// record notes a takeover that was let through.
func (c *contests) record(machineID string, now time.Time, hosts ...string) {
	c.sweep(now)
	m := c.of[machineID]
	if m == nil || m.over(now) {
		m = &contest{Contest: Contest{Since: now}}
		c.of[machineID] = m
	}
	m.times = append(m.times, now)
	m.times = m.times[max(0, len(m.times)-manyContests):]
	for _, host := range hosts {
		if !slices.Contains(m.Addresses, host) && len(m.Addresses) < maxContestants {
			m.Addresses = append(m.Addresses, host)
		}
	}
}

// over tells whether an hour has passed without one.
func (m *contest) over(now time.Time) bool {
	return now.Sub(m.times[len(m.times)-1]) >= late
}

func (c *contests) shown(machineID string, now time.Time) (Contest, bool) {
	m := c.of[machineID]
	if m == nil || m.over(now) {
		return Contest{}, false
	}
	return Contest{Addresses: slices.Clone(m.Addresses), Since: m.Since}, true
}

// sweep forgets what is over, now and then.
func (c *contests) sweep(now time.Time) {
	if now.Sub(c.swept) < soon {
		return
	}
	c.swept = now
	for id, m := range c.of {
		if m.over(now) {
			delete(c.of, id)
		}
	}
}
