package server

import (
	"errors"
	"net/http"
	"time"

	"pushd/stream"
)

// longStay is a stream that goes on after its handler has returned. It counts
// among the requests in progress until its connection is closed: Run waits for it.
type longStay struct {
	*Server
	seat  *stream.Seat
	id    string // of the request
	began time.Time
}

// handOver gives the request's connection to the stream, so that nothing of the
// request is kept for as long as the stream lives. The error is
// http.ErrNotSupported where that cannot be, and the seat is still to be used.
func (c *call) handOver(seat *stream.Seat) error {
	stay := &longStay{c.Server, seat, c.visit.id, time.Now()}
	c.requests.enter()
	err := c.source.Take(seat, c.w, c.r, stay.ended)
	if err != nil {
		c.requests.leave()
		return err
	}
	c.visit.handedOver = true
	return nil
}

// ended writes the line that the request would have had.
func (l *longStay) ended(e stream.Ending) {
	defer l.requests.leave()
	v := &visit{id: l.id, route: eventsRoute, machine: l.seat.MachineID()}
	var panicked *stream.PanicError
	if errors.As(e.Err, &panicked) {
		v.err = panicked
		l.logPanic(v, panicked, nil)
	}
	l.streamEnded(l.seat, e.Err)
	l.logVisit(&http.Request{Method: http.MethodGet}, v, &meter{status: http.StatusOK, bytes: e.Bytes}, time.Since(l.began))
}
