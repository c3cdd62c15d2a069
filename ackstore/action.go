package ackstore

import "time"

// NewAction is an action as it is pushed, its defaults filled in.
type NewAction struct {
	ActionID, MachineID  string
	SessionID, ReplayID  string // empty: none
	Type, Target         string
	Payload              []byte // compact JSON; kept as it is
	Priority             int    // 0 to 9
	Guarantee            Guarantee
	OnDead               OnDead
	Delay                time.Duration // earliest dispatch, from the store's now
	AvailableAt          time.Time     // or as the client said
	TTL                  time.Duration // latest dispatch, from the store's now; 0 is none
	ExpiresAt            time.Time     // or as the client said
	OrphanTimeout        time.Duration // 0: the subscription's or the server's
	InactivityTimeout    time.Duration // 0: the server's
	Ceiling              time.Duration // 0: the server's
	MaxResends           int
	MaxAttempts          int
	TransientMaxAttempts int
	Labels               map[string]string
	Trace                string   // W3C traceparent of the push; empty: none
	Digest               [16]byte // of the content as it was sent
	Late                 bool     // it could never be sent: refused if it is new, for a repeat is not
}

// Action is an action as the store keeps it, but for its payload and its result.
type Action struct {
	Ord       uint64            `cbor:"1,keyasint"` // order of acceptance in this store, over all machines
	ID        string            `cbor:"2,keyasint"`
	MachineID string            `cbor:"3,keyasint"`
	SessionID string            `cbor:"4,keyasint,omitempty"`
	ReplayID  string            `cbor:"5,keyasint,omitempty"`
	Type      string            `cbor:"6,keyasint"`
	Target    string            `cbor:"7,keyasint,omitempty"`
	Priority  int               `cbor:"8,keyasint,omitempty"`
	Guarantee Guarantee         `cbor:"9,keyasint,omitempty"`
	OnDead    OnDead            `cbor:"10,keyasint,omitempty"`
	Labels    map[string]string `cbor:"11,keyasint,omitempty"`

	OrphanTimeout        time.Duration `cbor:"12,keyasint,omitempty"` // as pushed; 0 is not given
	InactivityTimeout    time.Duration `cbor:"13,keyasint,omitempty"`
	Ceiling              time.Duration `cbor:"14,keyasint,omitempty"`
	MaxResends           int           `cbor:"15,keyasint,omitempty"`
	MaxAttempts          int           `cbor:"16,keyasint,omitempty"`
	TransientMaxAttempts int           `cbor:"17,keyasint,omitempty"`
	PayloadBytes         int           `cbor:"18,keyasint,omitempty"`

	Seq         uint64    `cbor:"20,keyasint"` // place in its machine's queue
	State       State     `cbor:"21,keyasint"`
	CreatedAt   time.Time `cbor:"22,keyasint"`
	AvailableAt time.Time `cbor:"23,keyasint,omitzero"` // earliest dispatch; zero: at once
	ExpiresAt   time.Time `cbor:"24,keyasint,omitzero"` // latest dispatch; zero: none
	// A wait that was worked out from a duration keeps its length when the wall
	// clock steps; one until an instant that a client named does not.
	Delayed bool `cbor:"25,keyasint,omitempty"` // AvailableAt comes from a duration
	TTL     bool `cbor:"26,keyasint,omitempty"` // ExpiresAt does

	// The newest delivery.
	Delivery      int           `cbor:"30,keyasint,omitempty"` // its number; 0 before the first dispatch
	EventID       uint64        `cbor:"31,keyasint,omitempty"`
	Stamp         uint64        `cbor:"32,keyasint,omitempty"` // when it was sent, in the store's logical time
	Epoch         uint64        `cbor:"33,keyasint,omitempty"` // of the lease it was sent under
	Via           Via           `cbor:"34,keyasint,omitempty"`
	SentTo        string        `cbor:"35,keyasint,omitempty"` // instance_id it was sent to
	DispatchedAt  time.Time     `cbor:"36,keyasint,omitzero"`
	OrphanAfter   time.Duration `cbor:"37,keyasint,omitempty"` // orphan timeout in force for it
	Acked         bool          `cbor:"38,keyasint,omitempty"` // an ack has named it, or a Last-Event-ID covers it
	ReceivedAt    time.Time     `cbor:"39,keyasint,omitzero"`
	LastAckAt     time.Time     `cbor:"40,keyasint,omitzero"`
	ActiveAt      time.Time     `cbor:"41,keyasint,omitzero"` // inactivity runs from here
	ActivityToken *uint64       `cbor:"42,keyasint,omitempty"`
	LostSince     time.Time     `cbor:"43,keyasint,omitzero"`  // its stream has ended: graces run from here
	Stall         string        `cbor:"44,keyasint,omitempty"` // "stalled" or "ceiling" once told to stop
	StalledAt     time.Time     `cbor:"45,keyasint,omitzero"`
	SentAs        Cause         `cbor:"46,keyasint,omitempty"` // the loss that this dispatch made good; 0: none

	Orphan          Cause     `cbor:"50,keyasint,omitempty"` // waits to be resent, lost by this
	CancelAskedAt   time.Time `cbor:"51,keyasint,omitzero"`
	CancelReason    string    `cbor:"52,keyasint,omitempty"`
	CancelConfirmed *bool     `cbor:"53,keyasint,omitempty"`

	FirstDispatchedAt time.Time `cbor:"60,keyasint,omitzero"`
	LastResentAt      time.Time `cbor:"61,keyasint,omitzero"`
	Deliveries        int       `cbor:"62,keyasint,omitempty"` // dispatches, but for those of which no byte was written
	ResentTimeout     int       `cbor:"63,keyasint,omitempty"`
	ResentDisconnect  int       `cbor:"64,keyasint,omitempty"`
	Attempts          int       `cbor:"65,keyasint,omitempty"`
	TransientAttempts int       `cbor:"66,keyasint,omitempty"`
	QuotaWaits        int       `cbor:"67,keyasint,omitempty"`
	ConfigWaits       int       `cbor:"68,keyasint,omitempty"`
	Releases          int       `cbor:"69,keyasint,omitempty"` // in a row
	Redrives          int       `cbor:"70,keyasint,omitempty"`

	Verdicts        []Verdict `cbor:"80,keyasint,omitempty"`
	SettledAt       time.Time `cbor:"81,keyasint,omitzero"`
	SettledBy       Settler   `cbor:"82,keyasint,omitempty"`
	SettledDelivery int       `cbor:"83,keyasint,omitempty"` // whose result was taken
	Error           *Failure  `cbor:"84,keyasint,omitempty"`
	HasResult       bool      `cbor:"85,keyasint,omitempty"`
	Progress        *Progress `cbor:"86,keyasint,omitempty"`
	Late            bool      `cbor:"87,keyasint,omitempty"`
	Timeline        []Entry   `cbor:"88,keyasint,omitempty"`
	TimelineCut     int       `cbor:"89,keyasint,omitempty"` // entries dropped from the middle
	Note            string    `cbor:"90,keyasint,omitempty"` // of the operator who resolved it

	Trace string `cbor:"91,keyasint,omitempty"` // W3C traceparent of its push
}

// Resent is how often this execution was lost in transport and sent again.
func (a *Action) Resent() int { return a.ResentTimeout + a.ResentDisconnect }

// CancelAsked tells whether an operator wants it stopped and its agent has not answered.
func (a *Action) CancelAsked() bool { return !a.CancelAskedAt.IsZero() }

// Settler is who settled an action.
type Settler uint8

// An ack's word is kept against the watchdog's (protocol section 9).
const (
	ByAck Settler = iota + 1
	ByWatchdog
	ByOperator
)

// Verdict is what an agent said at the end of a delivery.
type Verdict struct {
	_        struct{} `cbor:",toarray"`
	Delivery int
	Verb     Verb
}

// Failure is why an execution failed. Kind is one of error, permanent,
// transient, quota, config (protocol section 11), or, by the server's own word,
// stalled, ceiling or released.
type Failure struct {
	Kind    string `cbor:"1,keyasint" json:"kind"`
	Message string `cbor:"2,keyasint,omitempty" json:"message,omitempty"`
	Code    string `cbor:"3,keyasint,omitempty" json:"code,omitempty"`
}

// Progress is what a working agent tells of itself.
type Progress struct {
	Percent *float64 `cbor:"1,keyasint,omitempty" json:"percent,omitempty"`
	Note    string   `cbor:"2,keyasint,omitempty" json:"note,omitempty"`
}

// Entry is one line of an action's timeline.
type Entry struct {
	_        struct{} `cbor:",toarray"`
	At       time.Time
	Event    string
	Delivery int
	Detail   string
}

// Timeline bounds (protocol section 12).
const (
	TimelineFirst = 16
	TimelineLast  = 48
)

// Record appends a line to the timeline; what is in the middle of a long one goes.
func (a *Action) Record(at time.Time, event, detail string) {
	if len(a.Timeline) >= TimelineFirst+TimelineLast {
		kept := append([]Entry(nil), a.Timeline[:TimelineFirst]...)
		a.Timeline = append(kept, a.Timeline[TimelineFirst+1:]...)
		a.TimelineCut++
	}
	a.Timeline = append(a.Timeline, Entry{At: at, Event: event, Delivery: a.Delivery, Detail: detail})
}
