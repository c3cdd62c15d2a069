package policy

import (
	"cmp"
	"time"
)

// MaxBreakerPause is where the doubling of a breaker's pause ends (protocol
// section 11). A setting above it is kept, it only does not double.
const MaxBreakerPause = time.Hour

// BreakerState is how much a breaker lets through.
type BreakerState uint8

// A zero Breaker is Closed.
const (
	Closed   BreakerState = iota // all goes
	Open                         // nothing goes until Until; then one probe
	HalfOpen                     // the probe is out
)

func (s BreakerState) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return "unknown"
}

// Breaker keeps work away from a service that does not serve (protocol section
// 11). It is a value: every method answers the next one. The caller remembers
// which action is the probe and leaves out reports of deliveries that were sent
// before the last change, but for the probe's own.
type Breaker struct {
	Strikes int           // transient failures in a row while Closed
	Pause   time.Duration // the pause in force where strikes opened it, else 0
	State   BreakerState
	Locked  bool      // by config: Open until Close
	Until   time.Time // end of Open; zero with Locked, kept while HalfOpen
	Reason  string    // the kind of failure that opened it, empty when Closed
	Since   time.Time // of its last change of State, Until or Locked
}

// BreakerNumbers are the settings policy.breaker_threshold (below 1 counts as
// 1) and policy.breaker_pause.
type BreakerNumbers struct {
	Threshold int
	Pause     time.Duration
}

// Pass is how much a breaker lets through now.
type Pass uint8

// Answers of Allows.
const (
	PassNone  Pass = iota // nothing
	PassProbe             // one action; the caller answers with Probe when it goes
	PassAll
)

// Allows says what may go at now.
func (b Breaker) Allows(now time.Time) Pass {
	switch {
	case b.State == Closed:
		return PassAll
	case b.State == Open && !b.Locked && !now.Before(b.Until):
		return PassProbe
	}
	return PassNone
}

// Probe tells that the one action of PassProbe has gone.
func (b Breaker) Probe(now time.Time) Breaker {
	b.State, b.Since = HalfOpen, now
	return b
}

// LoseProbe tells that the probe ended without a word of the service (released,
// cancelled, given up, stalled, in doubt): the next one may go at once. A
// breaker that has no probe out stays as it is.
func (b Breaker) LoseProbe() Breaker {
	if b.State == HalfOpen {
		b.State = Open
	}
	return b
}

// Close is the operator's hand, or, for a Locked one, a new instance's.
func (b Breaker) Close(now time.Time) Breaker { return Breaker{Since: now} }

// Report tells what an execution said of the service: the Door of a Verdict, or
// DoorAnswered for a done; doorFor belongs to DoorShut. It answers the next
// breaker and whether State, Until or Locked changed; Strikes alone are no
// change, but to be kept all the same.
//
// A breaker that is not Closed hears the probe's word only, with two exceptions
// that make it wait longer: DoorShut past its Until, and DoorLocked. DoorNone
// moves nothing; if it was the probe's, the caller calls LoseProbe.
func (b Breaker) Report(d Door, doorFor time.Duration, probe bool, now time.Time, n BreakerNumbers) (Breaker, bool) {
	heard := b.State == Closed || probe && b.State == HalfOpen
	switch {
	case b.Locked || d == DoorNone:
		return b, false
	case d == DoorLocked:
		return Breaker{State: Open, Locked: true, Reason: string(Config), Since: now}, true
	case d == DoorShut && (heard || now.Add(doorFor).After(b.Until)):
		return Breaker{State: Open, Until: now.Add(doorFor), Reason: string(Quota), Since: now}, true
	case d == DoorAnswered && heard:
		if b.State == Closed {
			b.Strikes = 0
			return b, false
		}
		return b.Close(now), true
	case d == DoorStrike && heard:
		return b.strike(now, n)
	}
	return b, false
}

// strike counts one more transient failure in a row, or takes the probe's.
func (b Breaker) strike(now time.Time, n BreakerNumbers) (Breaker, bool) {
	pause := n.Pause
	if b.State == HalfOpen {
		// Opened by a usage limit there is no pause to double but the setting's.
		was := cmp.Or(b.Pause, n.Pause)
		pause = doubled(was, 2, max(MaxBreakerPause, was))
	} else if b.Strikes++; b.Strikes < n.Threshold {
		return b, false
	}
	return Breaker{State: Open, Pause: pause, Until: now.Add(pause), Reason: string(Transient), Since: now}, true
}
