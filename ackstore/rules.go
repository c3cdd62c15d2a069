package ackstore

import "time"

// Rules are the numbers a verb decides by: caps, graces, backoffs and limits, as
// data, so that a verdict is made on the counters of its own transaction.
type Rules struct {
	WatchdogOff          bool          // nothing is resent or given up by time
	OrphanTimeout        time.Duration // until the first ack of what went out on a stream
	PollOrphanTimeout    time.Duration // the same for what went out by poll
	InactivityTimeout    time.Duration
	Ceiling              time.Duration
	MaxDisconnectResends int
	RepushTail           bool // an orphan goes behind its lane

	DisconnectGrace time.Duration
	ReconnectGrace  time.Duration
	CancelGrace     time.Duration
	SuspectAfter    time.Duration

	ErrorDelay       time.Duration
	BackoffBase      time.Duration
	BackoffMax       time.Duration
	QuotaDelay       time.Duration
	ReleaseDelay     time.Duration
	BreakerThreshold int
	BreakerPause     time.Duration

	MaxInFlightBytes int64 // payload bytes in flight per machine; one action always may be
	MaxQueued        int   // queued or scheduled per machine
	MaxMachines      int

	KeepSettled    time.Duration // done, cancelled
	KeepDead       time.Duration // dead letters
	KeepTombstones time.Duration // id, digest, final state
}
