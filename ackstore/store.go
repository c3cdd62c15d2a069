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
