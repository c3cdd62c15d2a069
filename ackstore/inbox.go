package ackstore

import (
	"context"
	"time"
)

// Inbox keeps what senders outside have delivered, beside the actions that it
// became, and is how a repeated delivery is known again.
type Inbox interface {
	// Receive records deliveries and pushes the actions of each: a delivery is on
	// disk with all of its actions, or not at all. An item's Err is that of Push.
	// Records older than keep are thrown away as it goes.
	Receive(ctx context.Context, r Rules, keep time.Duration, in []Receipt) ([]Received, error)
	// Known is the delivery of a route that a key leads to, if it made actions and
	// is younger than window; else ErrUnknown. It waits for no commit.
	Known(ctx context.Context, route, key string, window time.Duration) (Delivery, error)
	// Delivery is a record with its body; ErrUnknown.
	Delivery(ctx context.Context, serial uint64) (Delivery, error)
	// Deliveries pages through the records of a route, or of all (route empty),
	// newest first and without bodies.
	Deliveries(ctx context.Context, route, cursor string, limit int) (items []Delivery, next string, err error)
}

// Ends tells of actions that ended, to whoever goes on from there. A note is
// written in the transaction of the end and stays until Receive has answered it,
// so that nothing that follows is lost or done twice.
type Ends interface {
	// Follow says of which ends notes are kept from now on, instead of those of
	// the call before. It is not on disk: it is called before anything settles.
	Follow(ctx context.Context, rules []Following) error
	// Ended are the notes nobody has answered, oldest first.
	Ended(ctx context.Context, limit int) ([]End, error)
	// DropEnds forgets notes that nothing follows from.
	DropEnds(ctx context.Context, serials []uint64) error
}

// Outbox keeps what is to be told to somebody who may not be there.
type Outbox interface {
	Post(ctx context.Context, letters []Letter) error
	// Letters are those to a receiver, oldest first, whether due or not.
	Letters(ctx context.Context, to string, limit int) ([]Letter, error)
	// Addressees are those for whom letters wait.
	Addressees(ctx context.Context) ([]string, error)
	// Answer says what became of tries.
	Answer(ctx context.Context, tries []Tried) error
}

// Delivery is what one request of a sender said and became.
type Delivery struct {
	Serial    uint64            `cbor:"1,keyasint"` // given by the store; it grows
	Route     string            `cbor:"2,keyasint"`
	Source    string            `cbor:"3,keyasint,omitempty"`
	Key       string            `cbor:"4,keyasint,omitempty"` // by which it is known again; empty: it never is
	ID        string            `cbor:"5,keyasint,omitempty"` // the sender's name for it
	Event     string            `cbor:"6,keyasint,omitempty"`
	At        time.Time         `cbor:"7,keyasint"`
	Fate      Fate              `cbor:"8,keyasint"`
	Detail    string            `cbor:"9,keyasint,omitempty"`
	Secret    int               `cbor:"10,keyasint"` // which of the route's secrets signed it; -1 none
	ActionIDs []string          `cbor:"11,keyasint,omitempty"`
	Header    map[string]string `cbor:"12,keyasint,omitempty"`
	BodyBytes int               `cbor:"13,keyasint,omitempty"`
	Cut       bool              `cbor:"14,keyasint,omitempty"` // the body was too large to keep
	Repeats   int               `cbor:"15,keyasint,omitempty"`
	RepeatAt  time.Time         `cbor:"16,keyasint,omitzero"`
	ReplayOf  uint64            `cbor:"17,keyasint,omitempty"`
	Body      []byte            `cbor:"-"` // its JSON text; only of Delivery and Receive
}

// Fate is what became of a delivery.
type Fate string

// The fates.
const (
	FateQueued   Fate = "queued"   // its actions are on disk
	FateFiltered Fate = "filtered" // the route's conditions do not hold
	FateGreeted  Fate = "greeted"  // a ping or a handshake
	FateFailed   Fate = "failed"   // no action could be made of it; Detail says why
	FateClosed   Fate = "closed"   // its session or replay was cancelled
	FateLooped   Fate = "looped"   // a chain that is too long was ended
)

// Repeat is what Receive does with a delivery whose key is known.
type Repeat uint8

// What Repeat may be.
const (
	RepeatIgnored Repeat = iota // it answers what the first became
	RepeatFailed                // what ended as a dead letter or cancelled is pushed anew
	RepeatAll                   // all is pushed anew
)

// Receipt is a delivery to record, with the actions it makes.
type Receipt struct {
	Delivery Delivery // Serial and At are the store's
	Actions  []NewAction
	Repeat   Repeat
	Window   time.Duration // for how long its key is known
	KeepBody int64         // of Body at most so much; a longer one is not kept at all
	End      uint64        // the note that this answers; 0: none
}

// Received answers a Receipt.
type Received struct {
	Delivery  Delivery // as it is on disk: the first one's where Duplicate
	Duplicate bool
	Answered  bool // the note was answered before: nothing was done
	Err       error
}

// Following selects ends. Empty fields select all.
type Following struct {
	Rule   string // the route that goes on from there
	States []State
	Types  []string
}

// End is the note of an action that ended.
type End struct {
	Serial   uint64    `cbor:"1,keyasint"`
	Rule     string    `cbor:"2,keyasint"`
	ActionID string    `cbor:"3,keyasint"`
	State    State     `cbor:"4,keyasint"`
	At       time.Time `cbor:"5,keyasint"`
}

// Letter is something to be told to a receiver.
type Letter struct {
	Serial    uint64    `cbor:"1,keyasint"` // given by the store; it grows
	To        string    `cbor:"2,keyasint"`
	ID        string    `cbor:"3,keyasint"` // by which its receiver knows a repeat
	Body      []byte    `cbor:"4,keyasint"`
	At        time.Time `cbor:"5,keyasint"`
	DueAt     time.Time `cbor:"6,keyasint"`
	Tries     int       `cbor:"7,keyasint,omitempty"`
	LastError string    `cbor:"8,keyasint,omitempty"`
}

// Tried says what became of a try to tell a letter.
type Tried struct {
	Serial uint64
	Gone   bool          // told, or given up: it is thrown away
	After  time.Duration // until the next try
	Error  string
}
