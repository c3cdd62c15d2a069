package server

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"

	"pushd/ackstore"
	"pushd/stream"
)

const (
	maxCredit   = 1000
	eventsRoute = "/events"
)

// events is GET /events: it gives the machine's seat to the caller and lets the
// stream's generator have the socket.
func (c *call) events() error {
	if !accepts(c.r, "text/event-stream") {
		return refuse(notAcceptable, "the answer is text/event-stream, which Accept %s does not allow", quote(c.r.Header.Get("Accept")))
	}
	req, err := c.attachment(ackstore.ViaStream)
	if err != nil {
		return err
	}
	seat, err := c.admit(req)
	if err != nil {
		return err
	}
	stream.SetHeaders(c.w.Header())
	if err := c.handOver(seat); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	c.streamEnded(seat, c.source.Run(c.r.Context(), seat, c.w))
	return nil
}

// streamEnded counts a stream's end, and says how it came where that is not plain.
func (s *Server) streamEnded(seat *stream.Seat, err error) {
	s.metrics.StreamClosed(endingOf(seat, err))
	if err != nil {
		s.cfg.Logger.Debug().Err(err).Str("machine", seat.MachineID()).Str("stream", seat.StreamID()).Msg("a stream ended")
	}
}

// endingOf says why a stream has ended.
func endingOf(seat *stream.Seat, err error) string {
	reason, _ := seat.Asked()
	switch {
	case reason != "":
		return string(reason)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "write_timeout"
	case err != nil:
		return "write_error"
	}
	return "client_gone"
}

// attachment reads the parameters that streams and polls have in common.
func (c *call) attachment(via ackstore.Via) (ackstore.AttachReq, error) {
	q := c.query
	req := ackstore.AttachReq{
		// Copies, for a seat outlives its request: else they hold on to the whole of its line.
		MachineID: strings.Clone(q.machine()), InstanceID: strings.Clone(q.id("instance_id")), Via: via, Address: c.addressOf(c.r),
		LastEventID:   lastEventID(c.r.Header.Get("Last-Event-ID")),
		MaxInFlight:   q.whole("max_in_flight", 0, maxCredit, 1),
		OrphanTimeout: q.seconds("orphan_timeout_s", 0),
	}
	if q.has("orphan_timeout_s") && req.OrphanTimeout == 0 && len(q.faults.fields) == 0 {
		q.faults.add("orphan_timeout_s", "must be more than 0 seconds")
	}
	c.visit.machine = req.MachineID
	return req, q.faults.err()
}

// lastEventID is none where it cannot be read.
func lastEventID(text string) *uint64 {
	id, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return nil
	}
	return &id
}

// admit takes the seat. A token that ended after it was looked at, and before the
// seat was there to be closed, is caught here.
func (c *call) admit(req ackstore.AttachReq) (*stream.Seat, error) {
	seat, err := c.registry.Admit(c.r.Context(), c.rules(), req, c.who.tokenID)
	if err != nil {
		return nil, err
	}
	if id := c.who.tokenID; id != "" {
		if _, lives := c.keys.holder(id); !lives {
			c.registry.CloseTokens(func(token string) bool { return token == id })
		}
	}
	return seat, nil
}

// accepts tells whether a request's Accept allows a media type. None allows all.
func accepts(r *http.Request, mediaType string) bool {
	headers := r.Header.Values("Accept")
	if len(headers) == 0 {
		return true
	}
	family, _, _ := strings.Cut(mediaType, "/")
	for part := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		kind, params, _ := strings.Cut(part, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
		if (kind == "*/*" || kind == family+"/*" || kind == mediaType) && !refusedByQ(params) {
			return true
		}
	}
	return false
}

// refusedByQ tells whether parameters hold a weight of zero.
func refusedByQ(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && weight == 0
		}
	}
	return false
}
