package stream

import (
	"errors"
	"fmt"
	"time"
)

// Why nobody is admitted. Each comes as a [*RefusedError].
var (
	// ErrContested: too many takeovers between agents that do not know each
	// other; the holder stays.
	ErrContested = errors.New("stream: machine is contested")
	// ErrFull: max_streams other machines are here.
	ErrFull = errors.New("stream: no room for another machine")
	// ErrDraining: the server stops.
	ErrDraining = errors.New("stream: server is stopping")
	// ErrReplaced: a still newer subscription came before this one began.
	ErrReplaced = errors.New("stream: replaced before it began")
	// ErrRevoked: the token ended before this subscription began.
	ErrRevoked = errors.New("stream: token ended before it began")
)

// RefusedError says why a subscription is refused and when to come again.
type RefusedError struct {
	Reason     error // one of the sentinels
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%v (retry after %v)", e.Reason, e.RetryAfter)
}

// Is matches the sentinel in Reason.
func (e *RefusedError) Is(target error) bool { return target == e.Reason }
