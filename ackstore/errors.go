package ackstore

import (
	"errors"
	"fmt"
)

// What a verb may answer. Anything else is the driver's trouble.
var (
	// ErrUnavailable: the store cannot write now (disk full, closing); nothing
	// was applied and the same call may be made again.
	ErrUnavailable = errors.New("ackstore: cannot write")
	// ErrFenced: a newer lease was attached for the machine.
	ErrFenced = errors.New("ackstore: lease fenced")
	// ErrUnknown: no such thing, or past its retention.
	ErrUnknown = errors.New("ackstore: unknown")
	// ErrNotEligible: the thing's state does not allow the act.
	ErrNotEligible = errors.New("ackstore: not eligible")
	// ErrCursor: a cursor that no List gave.
	ErrCursor = errors.New("ackstore: bad cursor")
	// ErrConflict: a known action_id with other content.
	ErrConflict = errors.New("ackstore: other content under a known action_id")
	// ErrLimit: no room for a new action or machine.
	ErrLimit = errors.New("ackstore: limit reached")
	// ErrLate: a new action whose latest dispatch is before its earliest.
	ErrLate = errors.New("ackstore: could never be sent")
	// ErrClosed: the session or replay takes no new actions.
	ErrClosed = errors.New("ackstore: label closed")
	// ErrInUse: another process has the data directory open.
	ErrInUse = errors.New("ackstore: data directory is in use by another process")
	// ErrNewer: the data was written by a newer version.
	ErrNewer = errors.New("ackstore: data was written by a newer version")
)

// ConflictError names the action of a group that conflicts.
type ConflictError struct {
	Index    int
	ActionID string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("ackstore: action_id %q is known with other content", e.ActionID)
}

// Is matches ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LimitError names the limit that a group would pass: the settings key and its value.
type LimitError struct {
	Index     int
	MachineID string
	Setting   string
	Limit     int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("ackstore: %s is %d, machine %q", e.Setting, e.Limit, e.MachineID)
}

// Is matches ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// LateError names the action of a group that could never be sent.
type LateError struct {
	Index    int
	ActionID string
}

func (e *LateError) Error() string {
	return fmt.Sprintf("ackstore: action %q could never be sent", e.ActionID)
}

// Is matches ErrLate.
func (e *LateError) Is(target error) bool { return target == ErrLate }

// ClosedError names the closed session or replay of a group.
type ClosedError struct {
	Index int
	Scope Scope
	ID    string
}

func (e *ClosedError) Error() string {
	return fmt.Sprintf("ackstore: %s %q is closed", e.Scope, e.ID)
}

// Is matches ErrClosed.
func (e *ClosedError) Is(target error) bool { return target == ErrClosed }

// NotEligibleError says what an action is, where an act does not fit it.
type NotEligibleError struct {
	ActionID string
	State    State
}

func (e *NotEligibleError) Error() string {
	return fmt.Sprintf("ackstore: action %q is %s", e.ActionID, e.State)
}

// Is matches ErrNotEligible.
func (e *NotEligibleError) Is(target error) bool { return target == ErrNotEligible }
