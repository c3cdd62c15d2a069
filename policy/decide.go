package policy

import "time"

// Kind says why an execution failed (error.kind of protocol section 11).
type Kind string

// The first five come from agents, the last three are the server's own word.
// Any other text is decided like Error.
const (
	Error     Kind = "error"     // the work itself failed
	Permanent Kind = "permanent" // it failed and would fail again
	Transient Kind = "transient" // a service was missing: 429, overload, network
	Quota     Kind = "quota"     // a usage limit, which ends at some time
	Config    Kind = "config"    // this machine cannot: no login, no program, no money
	Stalled   Kind = "stalled"   // the watchdog saw no activity
	Ceiling   Kind = "ceiling"   // the watchdog saw it run too long
	Released  Kind = "released"  // handed back more often than MaxReleases
)

// Bounds of protocol sections 9 and 11 that no setting moves.
const (
	MaxRetryAfter      = 24 * time.Hour     // retry_after_s and retry_at count up to here
	MaxQuotaRetryAfter = 8 * 24 * time.Hour // the same for quota: a weekly limit and a day
	MaxErrorDelay      = time.Hour          // the doubling of ErrorDelay ends here (our choice, as the breaker's)
	MaxQuotaDelay      = 4 * time.Hour      // the doubling of QuotaDelay ends here
	MaxReleaseDelay    = time.Minute        // the doubling of ReleaseDelay ends here
	MaxQuotaWaits      = 3                  // the next quota failure is failed
	MaxConfigWaits     = 3                  // the next config failure is failed
	MaxReleases        = 30                 // in a row; the next one is failed
)

// Numbers are the settings policy.* that a decision needs.
type Numbers struct {
	ErrorDelay   time.Duration // before a failed execution runs again; doubles
	BackoffBase  time.Duration // before the first retry of a transient failure; doubles
	BackoffMax   time.Duration // where that doubling ends
	QuotaDelay   time.Duration // when nobody knows the end of a usage limit; doubles
	ReleaseDelay time.Duration // least wait after a release; doubles
}

// Counters are an execution's counters before the failure, or after it in a Verdict.
type Counters struct {
	Attempts  int // failed for a reason of their own: error, permanent, stalled, ceiling
	Transient int
	Quota     int
	Config    int
	Releases  int // in a row: any failure ends the row
}

// Caps are how many executions may fail before the action does: max_attempts
// and transient_max_attempts, of the action or of the server.
type Caps struct{ Attempts, Transient int }

// Failure is one execution's end, as far as a decision needs it.
type Failure struct {
	Kind       Kind
	RetryAfter time.Duration // how long from now the agent asks to wait; <= 0: not said, or past
	Final      bool          // at_most_once: any failure is final
	Jitter     float64       // 0 to 1, the caller's random number
}

// Verdict is what follows from a failure or a release.
type Verdict struct {
	Counters Counters      // after it
	Failed   bool          // settle as failed
	Wait     time.Duration // else: until the next dispatch; 0 with Config: at once, behind the breaker
	Door     Door          // what it does to the breaker, whether Failed or not
	DoorFor  time.Duration // how long DoorShut shuts it
}

// Door is what an end of an execution says of the service behind it.
type Door uint8

// The words that Breaker.Report takes.
const (
	DoorNone     Door = iota // says nothing of the service
	DoorAnswered             // the service answered
	DoorStrike               // one more transient failure
	DoorShut                 // a usage limit: open for DoorFor
	DoorLocked               // this machine cannot: open until closed by hand or a new instance
)

// Decide says what follows from a failure (the table of protocol section 11).
func Decide(f Failure, c Counters, caps Caps, n Numbers) Verdict {
	c.Releases = 0
	v := Verdict{Counters: c}
	switch f.Kind {
	case Permanent:
		v.Counters.Attempts++
		v.Door, v.Failed = DoorAnswered, true
	case Transient:
		v.Counters.Transient++
		v.Door = DoorStrike
		v.Failed = v.Counters.Transient >= caps.Transient
		v.Wait = transientWait(f, v.Counters.Transient, n)
	case Quota:
		v.Counters.Quota++
		v.Failed = v.Counters.Quota > MaxQuotaWaits
		v.Wait = quotaWait(f, v.Counters.Quota, n)
		v.Door, v.DoorFor = DoorShut, v.Wait
	case Config:
		v.Counters.Config++
		v.Door = DoorLocked
		v.Failed = v.Counters.Config > MaxConfigWaits
	default:
		v.Counters.Attempts++
		v.Door = errorDoor(f.Kind)
		v.Failed = v.Counters.Attempts >= caps.Attempts
		v.Wait = errorWait(f, v.Counters.Attempts, n)
	}
	v.Failed = v.Failed || f.Final
	if v.Failed {
		v.Wait = 0
	}
	return v
}

// Release says what follows when an agent hands an action back after delay
// (protocol section 9). The action waits at least ReleaseDelay, doubled with
// each release in a row, so that an agent that can never take it does not spin.
func Release(delay time.Duration, c Counters, n Numbers) Verdict {
	c.Releases++
	if c.Releases > MaxReleases {
		return Verdict{Counters: c, Failed: true}
	}
	return Verdict{Counters: c, Wait: max(delay, doubled(n.ReleaseDelay, c.Releases, MaxReleaseDelay))}
}

// errorDoor: the watchdog's own verdicts say nothing of the service.
func errorDoor(k Kind) Door {
	if k == Stalled || k == Ceiling {
		return DoorNone
	}
	return DoorAnswered
}
