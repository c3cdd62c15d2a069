package ackstore

import (
	"fmt"
	"strings"
)

// State is where an action stands (protocol section 2).
type State uint8

// The states. The zero State is none of them.
const (
	Scheduled State = iota + 1 // not before AvailableAt
	Queued                     // waits for its lane, its machine or credit
	InFlight                   // dispatched
	InDoubt                    // at most once, and nobody knows its outcome
	Done                       // its agent said so
	Failed                     // it cannot be done, or its attempts are used up
	GaveUp                     // we never heard: its resends are used up
	Expired                    // ExpiresAt passed while it waited
	Cancelled
)

var stateNames = [...]string{"", "scheduled", "queued", "in_flight", "in_doubt", "done", "failed", "gave_up", "expired", "cancelled"}

// States lists every state, in the order of protocol section 2.
func States() []State {
	return []State{Scheduled, Queued, InFlight, InDoubt, Done, Failed, GaveUp, Expired, Cancelled}
}

// Settled tells whether s is final.
func (s State) Settled() bool { return s >= Done }

// Waits tells whether an action in s may still be dispatched without a verdict.
func (s State) Waits() bool { return s == Scheduled || s == Queued }

// DeadLetter tells whether s is a dead letter: failed, gave_up or expired.
func (s State) DeadLetter() bool { return s == Failed || s == GaveUp || s == Expired }

func (s State) String() string { return nameOf(stateNames[:], uint8(s)) }

// MarshalText spells s as the protocol does.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *State) UnmarshalText(b []byte) error { return parseName(stateNames[:], string(b), "state", s) }

// Guarantee is what may happen to an action that may have been received.
type Guarantee uint8

// AtLeastOnce is sent again when it is lost; AtMostOnce never is by itself.
const (
	AtLeastOnce Guarantee = iota
	AtMostOnce
)

var guaranteeNames = [...]string{"at_least_once", "at_most_once"}

func (g Guarantee) String() string { return nameOf(guaranteeNames[:], uint8(g)) }

// MarshalText spells g as the protocol does.
func (g Guarantee) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (g *Guarantee) UnmarshalText(b []byte) error {
	return parseName(guaranteeNames[:], string(b), "guarantee", g)
}

// OnDead is what failed or gave_up does to an action's lane.
type OnDead uint8

// PauseLane stops the lane, SkipDead goes on with the next action.
const (
	PauseLane OnDead = iota
	SkipDead
)

var onDeadNames = [...]string{"pause", "skip"}

func (d OnDead) String() string { return nameOf(onDeadNames[:], uint8(d)) }

// MarshalText spells d as the protocol does.
func (d OnDead) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (d *OnDead) UnmarshalText(b []byte) error {
	return parseName(onDeadNames[:], string(b), "on_dead", d)
}

// Verb is the status of an ack (protocol section 9).
type Verb uint8

// The verbs. The last four are verdicts: a delivery takes one of them.
const (
	SaysReceived Verb = iota + 1
	SaysWorking
	SaysDone
	SaysFailed
	SaysReleased
	SaysCancelled
)

var verbNames = [...]string{"", "received", "working", "done", "failed", "released", "cancelled"}

// Verdict tells whether v ends a delivery.
func (v Verb) Verdict() bool { return v >= SaysDone }

func (v Verb) String() string { return nameOf(verbNames[:], uint8(v)) }

// MarshalText spells v as the protocol does.
func (v Verb) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (v *Verb) UnmarshalText(b []byte) error { return parseName(verbNames[:], string(b), "status", v) }

// Outcome is the answer to an ack (protocol section 9).
type Outcome uint8

// The outcomes.
const (
	Accepted Outcome = iota + 1
	Settled
	Retry
	ReleasedBack
	Revived
	Duplicate
	Stale
	Late
	Conflict
	Unknown
	Forbidden
)

var outcomeNames = [...]string{"", "accepted", "settled", "retry", "released", "revived", "duplicate", "stale", "late", "conflict", "unknown", "forbidden"}

func (o Outcome) String() string { return nameOf(outcomeNames[:], uint8(o)) }

// MarshalText spells o as the protocol does.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (o *Outcome) UnmarshalText(b []byte) error {
	return parseName(outcomeNames[:], string(b), "outcome", o)
}

// Cause is why a delivery was taken for lost.
type Cause uint8

// The causes. The zero Cause is no loss.
const (
	ByTimeout    Cause = iota + 1 // no ack within its orphan timeout
	ByDisconnect                  // its stream ended, or its agent came back without it
)

var causeNames = [...]string{"", "timeout", "disconnect"}

func (c Cause) String() string { return nameOf(causeNames[:], uint8(c)) }

// MarshalText spells c as the protocol does.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (c *Cause) UnmarshalText(b []byte) error { return parseName(causeNames[:], string(b), "cause", c) }

// Via is how a delivery was sent.
type Via uint8

// A delivery goes out on a stream or as the answer to a poll.
const (
	ViaStream Via = iota
	ViaPoll
)

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) && names[i] != "" {
		return names[i]
	}
	return fmt.Sprintf("invalid(%d)", i)
}

func parseName[T ~uint8](names []string, text, what string, out *T) error {
	for i, name := range names {
		if name != "" && name == text {
			*out = T(i)
			return nil
		}
	}
	known := strings.TrimPrefix(strings.Join(names, ", "), ", ")
	return fmt.Errorf("ackstore: %s %q is none of %s", what, text, known)
}
