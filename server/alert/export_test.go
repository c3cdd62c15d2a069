package alert

import "time"

// Ledger is what one receiver was told, for tests of grouping.
type Ledger struct{ l *ledger }

// NewLedger returns an empty one.
func NewLedger(gather, every time.Duration) Ledger { return Ledger{newLedger(gather, every)} }

// Add takes an event.
func (l Ledger) Add(e Event, now time.Time) { l.l.add(e, now) }

// Due is the message to be told now, or nil.
func (l Ledger) Due(now time.Time) *Message { return l.l.due(now) }

// EventOf is what a change says to people.
var EventOf = eventOf

// Retries are the waits between tries.
var Retries = retries
