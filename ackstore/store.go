package ackstore

import (
	"context"
	"time"
)

// Store keeps every action until its result is acked, and for a while after.
// It is the union of what its readers need; each of them declares the few
// methods it calls.
type Store interface {
	Line
	Control
	Reader
	Close() error
}

// Line is the way of an action: push, claim, settle, and what sends it back.
type Line interface {
	// Push takes groups of new actions. A group is all or nothing; its Err is
	// a *ConflictError, a *LateError, a *LimitError or a *ClosedError. What is
	// known is only compared: neither lateness nor a limit refuses a repeat.
	Push(ctx context.Context, r Rules, groups [][]NewAction) ([]Pushed, error)
	// Attach begins a stream or a poll: it raises the machine's epoch, judges
	// what an earlier stream left behind (protocol section 7) and dispatches.
	// One machine too many is refused with a *LimitError, as in SetCredit.
	Attach(ctx context.Context, r Rules, reqs []AttachReq) ([]Attached, error)
	// Claim hands over what was dispatched to a lease, dispatching what is due,
	// and the cancels it must be told. With nothing to hand over the lease is
	// parked: the next commit that makes something due dispatches it at once
	// and wakes the machine. Err is ErrFenced once another lease was attached.
	Claim(ctx context.Context, r Rules, reqs []ClaimReq) ([]Claimed, error)
	// Detach ends a stream or a poll. One that was fenced meanwhile changes
	// nothing but its unwritten deliveries, if they are still its own.
	Detach(ctx context.Context, r Rules, reqs []DetachReq) error
	// Settle applies acks in order.
	Settle(ctx context.Context, r Rules, acks []Ack) ([]AckResult, error)
	// Sweep applies what time has brought: losses, stalls, graces, expiry,
	// schedules, pauses that end. At most limit of them; More tells of a rest.
	Sweep(ctx context.Context, r Rules, limit int) (Swept, error)
	// Beat notes a sign of life of leases; it is not on disk. Err is ErrFenced
	// for a lease that is not the machine's.
	Beat(ctx context.Context, r Rules, leases []Lease) ([]error, error)
	// SetCredit changes max_in_flight of machines; it makes those it does not know.
	SetCredit(ctx context.Context, r Rules, reqs []CreditReq) ([]Machine, error)
}

// Control is what an operator does.
type Control interface {
	// Cancel, Redrive and Resolve follow the second table of protocol section
	// 12; an item's Err is ErrUnknown or ErrNotEligible.
	Cancel(ctx context.Context, r Rules, acts []Act) ([]Acted, error)
	Redrive(ctx context.Context, r Rules, acts []Act) ([]Acted, error)
	Resolve(ctx context.Context, r Rules, acts []Act) ([]Acted, error)
	// Bulk cancels or redrives what a filter selects, a slice per call: Next
	// is the cursor of the following call, empty when all was seen.
	Bulk(ctx context.Context, r Rules, req BulkReq) (BulkResult, error)
	// Hold pauses a scope for a cause; the same cause again replaces its words.
	Hold(ctx context.Context, r Rules, h Hold) error
	// Unhold ends every cause of a scope and opens a closed label. With a
	// machineID it ends those on that machine, and leaves the others.
	Unhold(ctx context.Context, r Rules, scope Scope, id, machineID string) error
	// CloseLabel refuses new actions of a session or replay until Unhold.
	CloseLabel(ctx context.Context, scope Scope, id string) error
	// CloseBreaker closes the breaker of machine and target (machine empty: a shared one).
	CloseBreaker(ctx context.Context, r Rules, machineID, target string) error
	// DropMachine forgets a machine that is offline with nothing unsettled;
	// else ErrNotEligible or ErrUnknown.
	DropMachine(ctx context.Context, r Rules, machineID string) error

	PutToken(ctx context.Context, t Token) error
	DropToken(ctx context.Context, id string) error // ErrUnknown
}

// Reader tells what is there.
type Reader interface {
	Get(ctx context.Context, r Rules, id string) (Record, error) // ErrUnknown
	// Owners tells which machine each action is for; empty for those not known.
	Owners(ctx context.Context, ids []string) ([]string, error)
	// List pages through actions, newest first. Payloads and results stay away.
	List(ctx context.Context, f Filter, cursor string, limit int) (items []Action, next string, err error)
	Overview(ctx context.Context, r Rules) (Overview, error)
	Machine(ctx context.Context, r Rules, id string) (Machine, error) // ErrUnknown
	Machines(ctx context.Context, r Rules, after string, limit int) ([]Machine, error)
	Label(ctx context.Context, scope Scope, id string) (Label, error) // ErrUnknown
	Labels(ctx context.Context, scope Scope, after string, limit int) ([]Label, error)
	Tokens(ctx context.Context) ([]Token, error)
	// Writable tells whether a commit succeeds now.
	Writable(ctx context.Context) error
	Now() time.Time
}

// Listener hears, after a commit, what others may want to act on. Its methods
// must not block; a call may be lost on the way to another node, so nothing but
// speed may depend on it.
type Listener interface {
	// Wake: the machine's stream or polls have something to claim.
	Wake(machineID string)
	// Due: the next moment at which Sweep has something to do; zero is never.
	Due(next time.Time)
	// Changed: what happened to actions and machines, in the order of commits.
	Changed(changes []Change)
}

// Change is one thing that happened. ActionID is empty where it happened to a
// machine, a session, a replay or a breaker.
type Change struct {
	ActionID, MachineID string
	State               State
	Event, Detail       string
	At                  time.Time

	Was      State     // of the action before; 0: it was not there
	Lost     Cause     // by which its delivery was lost, where that waited to be sent again
	Delivery int       // the newest then
	Sent     time.Time // when it was dispatched; zero: never
	Trace    string    // the action's
}

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

// Act is an operator's word on one action.
type Act struct {
	ActionID string
	By, Note string
	As       State // of Resolve: Done or Failed
}

// Acted answers an Act.
type Acted struct {
	Action Action
	Err    error
}

// BulkReq selects what to cancel or redrive.
type BulkReq struct {
	Redrive bool
	Filter  Filter
	DryRun  bool
	Cursor  string
	Limit   int // of records looked at in this call
	By      string
}

// BulkResult answers a BulkReq.
type BulkResult struct {
	Count int
	Next  string
}

// Filter is an AND of its non-empty fields.
type Filter struct {
	MachineID, SessionID, ReplayID, Type string
	States                               []State
	Labels                               map[string]string
	Before                               time.Time         // created before
	Reach                                func(string) bool // machines the caller may see; nil: all
}

// Scope is what a pause holds.
type Scope string

// The scopes.
const (
	OfMachine Scope = "machine"
	OfSession Scope = "session"
	OfReplay  Scope = "replay"
)

// Causes of a pause.
const (
	HeldByOperator = "operator"
	HeldOnDead     = "on_dead"
	HeldNeedHelp   = "need_help"
)

// Hold is one cause for which a scope is paused.
type Hold struct {
	Scope     Scope     `cbor:"1,keyasint"`
	ID        string    `cbor:"2,keyasint"`
	MachineID string    `cbor:"3,keyasint,omitempty"` // a session on this machine only
	Cause     string    `cbor:"4,keyasint"`
	Note      string    `cbor:"5,keyasint,omitempty"`
	By        string    `cbor:"6,keyasint,omitempty"`
	Since     time.Time `cbor:"7,keyasint"`
	Until     time.Time `cbor:"8,keyasint,omitzero"`
	ActionID  string    `cbor:"9,keyasint,omitempty"` // that caused an on_dead
}

// Breaker is a door that is not closed.
type Breaker struct {
	MachineID, Target string // MachineID empty: shared
	State             string // open, half_open
	Until             time.Time
	Reason            string
	Since             time.Time
	Probe             string // action_id of the probe, when one is out
}

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
	Credit                  int // in force
	InFlight, Queued        int // Queued counts queued and scheduled
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
