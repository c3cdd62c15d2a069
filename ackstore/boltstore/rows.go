package boltstore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fxamacker/cbor/v2"

	"pushd/ackstore"
	"pushd/policy"
)

// counts counts actions by state.
type counts [ackstore.Cancelled + 1]int

func (c *counts) byState() map[ackstore.State]int {
	m := map[ackstore.State]int{}
	for s, n := range c {
		if n != 0 {
			m[ackstore.State(s)] = n
		}
	}
	return m
}

func (c *counts) unsettled() int {
	return c[ackstore.Scheduled] + c[ackstore.Queued] + c[ackstore.InFlight] + c[ackstore.InDoubt]
}

// move keeps the unsettled ones only: a machine may be forgotten when it has none.
func (c *counts) move(old, a *ackstore.Action) {
	if old != nil && !old.State.Settled() {
		c[old.State]--
	}
	if !a.State.Settled() {
		c[a.State]++
	}
}

func (c *counts) waiting() int { return c[ackstore.Scheduled] + c[ackstore.Queued] }

// machineRow is what is kept of a machine.
type machineRow struct {
	Seq         uint64        `cbor:"1,keyasint"` // the last given
	EventID     uint64        `cbor:"2,keyasint"` // the last given
	Epoch       uint64        `cbor:"3,keyasint"` // of the last lease
	Instance    string        `cbor:"4,keyasint,omitempty"`
	Address     string        `cbor:"5,keyasint,omitempty"`
	StreamID    string        `cbor:"6,keyasint,omitempty"`
	Via         ackstore.Via  `cbor:"7,keyasint,omitempty"`
	Ever        bool          `cbor:"8,keyasint,omitempty"` // has subscribed
	SubCredit   int           `cbor:"9,keyasint,omitempty"`
	AgentCredit *int          `cbor:"10,keyasint,omitempty"`
	OpCredit    *int          `cbor:"11,keyasint,omitempty"`
	AgentWhy    string        `cbor:"20,keyasint,omitempty"` // the reason of AgentCredit
	OpWhy       string        `cbor:"21,keyasint,omitempty"` // and of OpCredit
	SubOrphan   time.Duration `cbor:"12,keyasint,omitempty"` // orphan timeout of the subscription
	Attached    time.Time     `cbor:"13,keyasint,omitzero"`
	Detached    time.Time     `cbor:"14,keyasint,omitzero"`
	LastSeen    time.Time     `cbor:"15,keyasint,omitzero"`
	Counts      counts        `cbor:"16,keyasint"`
	// Give-ups that nobody has answered for since (protocol section 8).
	Gone        bool                 `cbor:"19,keyasint,omitempty"` // forgotten, but for its numbers, which must not begin again
	GiveUps     int                  `cbor:"17,keyasint,omitempty"`
	LaneGiveUps map[string]time.Time `cbor:"18,keyasint,omitempty"`
}

// labelRow is what is kept of a session or replay.
type labelRow struct {
	Counts counts `cbor:"1,keyasint"`
	Closed bool   `cbor:"2,keyasint,omitempty"`
}

// breakerRow is a breaker and who knocks on it.
type breakerRow struct {
	Machine string              `cbor:"1,keyasint"` // empty: shared
	Target  string              `cbor:"2,keyasint"`
	Strikes int                 `cbor:"3,keyasint,omitempty"`
	Pause   time.Duration       `cbor:"4,keyasint,omitempty"`
	State   policy.BreakerState `cbor:"5,keyasint,omitempty"`
	Locked  bool                `cbor:"6,keyasint,omitempty"`
	Until   time.Time           `cbor:"7,keyasint,omitzero"`
	Reason  string              `cbor:"8,keyasint,omitempty"`
	Since   time.Time           `cbor:"9,keyasint,omitzero"`
	Stamp   uint64              `cbor:"10,keyasint,omitempty"` // of its last change: older deliveries say nothing of it
	Probe   uint64              `cbor:"11,keyasint,omitempty"` // ord of the probe; 0: none is out
	ProbeID string              `cbor:"12,keyasint,omitempty"`
	woken   bool                // its end has passed, and who waits for it was told
}

// waits tells whether it opens by itself at Until.
func (b *breakerRow) waits() bool {
	return b.State == policy.Open && !b.Locked && !b.woken
}

func (b *breakerRow) value() policy.Breaker {
	return policy.Breaker{
		Strikes: b.Strikes, Pause: b.Pause, State: b.State, Locked: b.Locked,
		Until: b.Until, Reason: b.Reason, Since: b.Since,
	}
}

func (b *breakerRow) set(v policy.Breaker) {
	b.Strikes, b.Pause, b.State, b.Locked = v.Strikes, v.Pause, v.State, v.Locked
	b.Until, b.Reason, b.Since = v.Until.Round(0), v.Reason, v.Since // as it is kept: by the wall clock
}

// known is what an action_id leads to; the record may be gone, the id stays.
type known struct {
	_      struct{} `cbor:",toarray"`
	Ord    uint64
	Digest [16]byte
	Gone   bool // its record is past retention; State and Seq are what it was
	State  ackstore.State
	Seq    uint64
}

// Times are kept to the microsecond, as floats that are exact to a quarter of
// one: what is read is rounded, and what is written was cut to it before.
var (
	encoder = must(cbor.EncOptions{Time: cbor.TimeUnixMicro}.EncMode())
	decoder = must(cbor.DecOptions{ // whatever was written is read again
		UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32,
	}.DecMode())
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// errDamaged is a row that is none of ours: a disk has changed it.
var errDamaged = errors.New("boltstore: damaged row")

// encode cannot fail on our own rows: they hold nothing that CBOR lacks.
func encode(v any) []byte { return must(encoder.Marshal(v)) }

func decode(b []byte, v any) error {
	if err := decoder.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	for _, at := range timesOf(v) {
		*at = at.Round(time.Microsecond)
	}
	for _, at := range instantsOf(v) {
		*at = at.Round(time.Millisecond)
	}
	return nil
}

// instantsOf are the times of a row that a client may have put far away, where a
// float is less exact. They are whole milliseconds.
func instantsOf(v any) []*time.Time {
	switch r := v.(type) {
	case *ackstore.Action:
		return []*time.Time{&r.AvailableAt, &r.ExpiresAt}
	case *ackstore.Hold:
		return []*time.Time{&r.Until}
	case *ackstore.Token:
		return []*time.Time{&r.ExpiresAt}
	}
	return nil
}

// timesOf are the times of a row.
func timesOf(v any) []*time.Time {
	switch r := v.(type) {
	case *ackstore.Action:
		all := []*time.Time{
			&r.CreatedAt, &r.DispatchedAt, &r.ReceivedAt, &r.LastAckAt, &r.ActiveAt,
			&r.LostSince, &r.StalledAt, &r.CancelAskedAt, &r.FirstDispatchedAt, &r.LastResentAt, &r.SettledAt,
		}
		for i := range r.Timeline {
			all = append(all, &r.Timeline[i].At)
		}
		return all
	case *machineRow:
		for session, at := range r.LaneGiveUps {
			r.LaneGiveUps[session] = at.Round(time.Microsecond)
		}
		return []*time.Time{&r.Attached, &r.Detached, &r.LastSeen}
	case *ackstore.Hold:
		return []*time.Time{&r.Since}
	case *breakerRow:
		return []*time.Time{&r.Until, &r.Since}
	case *ackstore.Token:
		return []*time.Time{&r.CreatedAt}
	}
	return nil
}

// toMicro cuts a moment to what is kept of it. It keeps the monotonic reading,
// which time.Truncate would take away, so that a step of the wall clock does not
// move what is in flight.
func toMicro(t time.Time) time.Time { return t.Add(-time.Duration(t.Nanosecond() % 1000)) }
