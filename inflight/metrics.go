package inflight

import (
	"sync/atomic"
	"time"

	"pushd/ackstore"
)

// counters are since the start of the process.
type counters struct {
	detected, resent, gaveUp atomic.Int64
	scans, failed            atomic.Int64
	lastScan, lastTook       atomic.Int64 // unix ns, ns
	sweptAt                  atomic.Int64 // unix ns
}

// Metrics are what the watchdog has seen since the server started.
type Metrics struct {
	OrphansDetected, OrphansResent, OrphansGivenUp int64
	Scans, ScansFailed                             int64
	LastScan                                       time.Time // zero: none yet
	LastScanTook                                   time.Duration
}

// Metrics reads the counters.
func (w *Watchdog) Metrics() Metrics {
	m := Metrics{
		OrphansDetected: w.count.detected.Load(), OrphansResent: w.count.resent.Load(), OrphansGivenUp: w.count.gaveUp.Load(),
		Scans: w.count.scans.Load(), ScansFailed: w.count.failed.Load(),
		LastScanTook: time.Duration(w.count.lastTook.Load()),
	}
	if at := w.count.lastScan.Load(); at != 0 {
		m.LastScan = time.Unix(0, at)
	}
	return m
}

// Changed counts what became of deliveries and says it in the log, whoever found
// it: a sweep, a returning agent or an ack.
func (w *Watchdog) Changed(changes []ackstore.Change) {
	for i := range changes {
		c := &changes[i]
		switch c.Event {
		case "orphan":
			w.count.detected.Add(1)
			w.tell(c, "a delivery was taken for lost")
		case "resent":
			w.count.resent.Add(1)
		case "gave_up":
			w.count.gaveUp.Add(1)
			w.tell(c, "given up: its resends are used up")
		case "in_doubt":
			w.tell(c, "in doubt: its outcome is unknown, and it is not sent again; ask its machine, then resolve or redrive it")
		case "stalled", "ceiling":
			w.tell(c, "told to stop")
		case "paused", "resumed", "breaker_open", "breaker_closed":
			w.tell(c, c.Event)
		}
	}
}

func (w *Watchdog) tell(c *ackstore.Change, what string) {
	e := w.cfg.Logger.Info()
	if c.Event == "gave_up" || c.Event == "in_doubt" {
		e = w.cfg.Logger.Warn()
	}
	if c.ActionID != "" {
		e = e.Str("action_id", c.ActionID)
	}
	if c.MachineID != "" {
		e = e.Str("machine_id", c.MachineID)
	}
	if c.Detail != "" {
		e = e.Str("why", c.Detail)
	}
	e.Str("event", c.Event).Msg(what)
}
