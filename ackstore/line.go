package ackstore

import "time"

// Pushed answers a group of Push.
type Pushed struct {
	Items []PushedAction // in the order of the group; nil with Err
	Err   error
}

// PushedAction answers one action of a group.
type PushedAction struct {
	ActionID       string
	State          State
	Seq            uint64
	Duplicate      bool
	UnknownMachine bool // that machine has never subscribed
}

// Lease is a machine's live stream or poll; its epoch fences all earlier ones.
type Lease struct {
	MachineID string
	Epoch     uint64
}

// AttachReq begins a stream or a poll.
type AttachReq struct {
	MachineID, InstanceID string // InstanceID empty: none given
	StreamID, Address     string
	Via                   Via
	LastEventID           *uint64 // nil: none, or not readable
	MaxInFlight           int
	OrphanTimeout         time.Duration // 0: the server's
}

// Attached answers an AttachReq. A poll of the instance that polls already
// joins its lease.
type Attached struct {
	Lease         Lease
	Credit        int // in force
	OrphanTimeout time.Duration
	InFlight      []Held
	Now           time.Time
}

// Held is what stays in flight on a machine whose stream begins.
type Held struct {
	ActionID     string
	Delivery     int
	Cancel       bool
	CancelReason string
}

// ClaimReq asks for what is due. Max bounds the number of dispatches (0: the
// store's own bound).
type ClaimReq struct {
	Lease Lease
	Max   int
}

// Claimed answers a ClaimReq.
type Claimed struct {
	Dispatches []Dispatch
	Cancels    []CancelNote // to be told after the dispatches
	Err        error
}

// Dispatch is one delivery on its way. Its numbers are on disk.
type Dispatch struct {
	ActionID, MachineID, SessionID, ReplayID, Type string
	Payload                                        []byte
	Guarantee                                      Guarantee
	Labels                                         map[string]string
	Delivery                                       int
	EventID                                        uint64
	Resent, Attempts, TransientAttempts            int
	DispatchedAt, AckBy                            time.Time
	DueSince                                       time.Time // its push, or its earliest dispatch if that is later
	Trace                                          string    // W3C traceparent; empty: none
}

// CancelNote tells a stream to stop an action.
type CancelNote struct {
	ActionID string
	Delivery int
	Reason   string
}

// DetachReq ends a stream or poll. Unwritten are deliveries of which no byte was
// written: they go back uncounted. Quiet says that the server stops: what is in
// flight stays so until its agent returns.
type DetachReq struct {
	Lease     Lease
	Unwritten []Ref
	Quiet     bool
}

// Ref names one delivery.
type Ref struct {
	ActionID string
	Delivery int
}

// Ack is an agent's word about an action (protocol section 9).
type Ack struct {
	ActionID      string
	MachineID     string // empty: not said
	Verb          Verb
	Delivery      int // 0: not said
	ActivityToken *uint64
	Progress      *Progress
	Result        []byte // compact JSON; nil is none
	Error         *Failure
	RetryAfter    time.Duration // 0: not said
	RetryAt       time.Time     // zero: not said
	Delay         time.Duration // of released
	Jitter        float64       // 0 to 1, drawn by the caller: spreads what it leads to
	Forbidden     bool          // the caller may not speak for this machine: only answered
}

// AckResult answers an Ack.
type AckResult struct {
	ActionID    string
	Outcome     Outcome
	State       State // zero for unknown, conflict and forbidden
	Cancel      bool
	AvailableAt time.Time // of a retry
}

// Swept tells what a Sweep did.
type Swept struct {
	Detected, GaveUp, Doubted, Stalled, Expired int
	More                                        bool
}

// CreditReq changes a machine's credit. Max nil lifts the operator's.
type CreditReq struct {
	MachineID  string
	Max        *int
	ByOperator bool
	Reason     string
}
