package ackstore

import "time"

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
