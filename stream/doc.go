// Package stream turns one machine's due actions into bytes for the one agent
// that holds it, on an event stream (protocol section 6) or as the answer to a
// poll (section 10).
//
// It promises:
//
//   - One live holder per machine. A newcomer takes over; the older holder has
//     said its bye, and given back what it did not write, before the newcomer is
//     attached to the store, unless it hangs for longer than a moment.
//   - A delivery of which no byte reached the writer goes back to the store
//     uncounted. All others stay in flight, whatever became of their bytes.
//   - Nothing is lost between a commit and a waiting stream: it subscribes to the
//     [Notifier] before it claims, and a wake-up carries no payload.
//   - A reader that stalls holds up nobody but itself, and is disconnected.
//   - A stream at rest costs a few kilobytes: over HTTP/1.1 one goroutine that
//     reads, and neither buffers nor anything of its request.
//   - A frame is valid for every reader of event streams, whatever an action
//     holds: decode(encode(x)) is x for all that [Event.AppendTo] accepts.
//
// It leaves to others: what is due and to whom it may go (the store), what
// happens to a delivery that nobody acks (inflight), who may subscribe and what
// an error looks like on the wire (server). A flushed write proves nothing; only
// an ack does.
//
// # Use
//
// One [Notifier], one [Registry] and one [Source] per process; the store's
// Listener calls Notifier.Wake. A handler of GET /events then is
//
//	seat, err := s.registry.Admit(r.Context(), rules, ackstore.AttachReq{
//		MachineID: machine, InstanceID: instance, Address: r.RemoteAddr,
//		Via: ackstore.ViaStream, LastEventID: last, MaxInFlight: credit, OrphanTimeout: orphan,
//	}, tokenID)
//	if err != nil {
//		// *RefusedError: ErrContested and ErrReplaced 409, ErrFull and ErrDraining
//		// 503, ErrRevoked 401, each with RetryAfter; anything else is the store's.
//		return err
//	}
//	stream.SetHeaders(w.Header())
//	err = s.source.Take(seat, w, r, func(e stream.Ending) { … })
//	if errors.Is(err, http.ErrNotSupported) {
//		err = s.source.Run(r.Context(), seat, w)
//	}
//	// The answer has begun: err can only be logged. The seat is left.
//
// where w is the writer of net/http itself, not a wrapper that cannot set a
// write deadline (under echo: c.Response().Writer). A handler of /next is
//
//	seat, err := s.registry.Admit(…, Via: ackstore.ViaPoll, …)
//	if err != nil {
//		return err // ErrReplaced: 204
//	}
//	defer seat.Leave()
//	d, ok, err := stream.Poll(r.Context(), seat, s.store, s.notifier, wait)
//	if err != nil || !ok {
//		return err // or 204
//	}
//	return stream.Answer(w, seat, d, writeTimeout)
//
// A beat asks [Registry.Standing] for the lease of a stream id and passes it to
// the store. When a token ends, [Registry.CloseTokens]; at shutdown, before
// http.Server.Shutdown, [Registry.CloseAll].
package stream
