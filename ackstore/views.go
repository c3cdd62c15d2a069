package ackstore

import "time"

// Record is an action with all that is kept of it.
type Record struct {
	Action
	Payload    []byte
	Result     []byte
	WaitingFor *Waiting // nil unless it waits
}

// Waiting is why an action is not dispatched (protocol section 12).
type Waiting struct {
	Reason    string
	Resend    bool
	Hold      *Hold    // of paused
	ActionID  string   // of lane: the one in front
	InFlight  []string // of credit
	MachineID string   // of breaker_open, machine_*
	Target    string   // of breaker_open
	Until     time.Time
}

// Overview is the whole of a store at a glance.
type Overview struct {
	Counts       map[State]int
	Orphans      int // waiting to be resent
	Machines     int
	Holds        []Hold
	Breakers     []Breaker
	OldestQueued time.Time
	Commits      uint64 // since the store was opened
	Bytes        int64  // size of the file

	Presences      map[Presence]int
	OldestInFlight time.Time        // dispatched first of what is in flight
	CreditUsed     int              // in flight on machines with a live stream or poll
	Credit         int              // of those machines
	Evicted        map[State]uint64 // records past their retention, since the store was opened
	ClockJumps     ClockJumps       // of the wall clock, likewise
}

// ClockJumps counts how often the wall clock was set.
type ClockJumps struct{ Forward, Back uint64 }

// Presence of a machine.
type Presence string

// The presences.
const (
	Online  Presence = "online"
	Suspect Presence = "suspect"
	Grace   Presence = "grace"
	Offline Presence = "offline"
)

// Machine is a machine as it stands.
type Machine struct {
	ID, InstanceID, Address string
	Presence                Presence
	Since                   time.Time // of the presence
	LastSeenAt              time.Time
	Credit                  int    // in force
	CreditReason            string // of the limit that is in force, if one was set and said why
	InFlight, Queued        int    // Queued counts queued and scheduled
	Unsettled               int
	OldestQueuedAt          time.Time
	LastEventID             uint64
	EverSubscribed          bool
	Via                     Via
	StreamID                string
	Holds                   []Hold
	Breakers                []Breaker
}

// Label is a session or a replay as it stands.
type Label struct {
	Scope  Scope
	ID     string
	Status string // active, paused, paused_need_help, closed
	Closed bool
	Counts map[State]int
	Holds  []Hold
}

// Token is a bearer token as it is kept: its text only as a hash.
type Token struct {
	ID        string    `cbor:"1,keyasint"`
	Name      string    `cbor:"2,keyasint"`
	Scopes    []string  `cbor:"3,keyasint"`
	Hash      [32]byte  `cbor:"4,keyasint"`
	CreatedAt time.Time `cbor:"5,keyasint"`
	ExpiresAt time.Time `cbor:"6,keyasint,omitzero"`

	LastUsedAt time.Time `cbor:"7,keyasint,omitzero"` // written seldom
}
