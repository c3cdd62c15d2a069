package stream

import (
	"context"
	"net/http"
	"time"

	"pushd/ackstore"
)

// Poll waits for the next dispatch of an admitted poll's machine, at most for
// wait. It returns false when none came, and at once when the poll is replaced
// or its client has gone. The error is the store's.
func Poll(ctx context.Context, seat *Seat, store claimer, n *Notifier, wait time.Duration) (ackstore.Dispatch, bool, error) {
	panic("soon")
}

// Answer writes a dispatch as the 200 of a poll. When no byte of it could be
// written the seat gives it back.
func Answer(w http.ResponseWriter, seat *Seat, d ackstore.Dispatch, timeout time.Duration) error {
	panic("soon")
}
