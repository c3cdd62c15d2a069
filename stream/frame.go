package stream

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"pushd/ackstore"
)

// Hello is what the first event of a stream tells.
type Hello struct {
	Retry               time.Duration
	MachineID, StreamID string
	Now                 time.Time
	Heartbeat           time.Duration
	Credit              int
	OrphanTimeout       time.Duration
	InFlight            []ackstore.Held
}

// AppendHello appends the first block of a stream. Retry stands above it, so
// that it is known before anything else can go wrong.
func AppendHello(dst []byte, h Hello) []byte {
	dst = strconv.AppendInt(append(dst, "retry: "...), h.Retry.Milliseconds(), 10)
	dst = append(dst, "\nevent: hello\ndata: {\"machine_id\":"...)
	dst = appendString(dst, h.MachineID)
	dst = appendString(appendName(dst, "stream_id"), h.StreamID)
	dst = appendTime(dst, "server_time", h.Now)
	dst = appendSeconds(dst, "heartbeat_s", h.Heartbeat)
	dst = appendNumber(dst, "max_in_flight", int64(h.Credit))
	dst = appendSeconds(dst, "orphan_timeout_s", h.OrphanTimeout)
	dst = append(appendName(dst, "in_flight"), '[')
	for i, held := range h.InFlight {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"action_id":`...), held.ActionID)
		dst = appendNumber(dst, "delivery", int64(held.Delivery))
		dst = append(strconv.AppendBool(appendName(dst, "cancel"), held.Cancel), '}')
	}
	return append(dst, "]}\n\n"...)
}

// AppendAction appends the block of one delivery.
func AppendAction(dst []byte, d ackstore.Dispatch) []byte {
	dst = strconv.AppendUint(append(dst, "id: "...), d.EventID, 10)
	dst = append(dst, "\nevent: action\ndata: "...)
	dst = AppendEnvelope(dst, d, false)
	return append(dst, "\n\n"...)
}

// AppendEnvelope appends the JSON object of one delivery: the data of an action
// event or, withEventID, the answer to a poll. The payload is copied as it is,
// but that a raw line break, which can only be white space in JSON and has no
// place in compact JSON, would end the frame: it becomes a space.
func AppendEnvelope(dst []byte, d ackstore.Dispatch, withEventID bool) []byte {
	dst = appendString(append(dst, `{"action_id":`...), d.ActionID)
	dst = appendNumber(dst, "delivery", int64(d.Delivery))
	dst = appendString(appendName(dst, "machine_id"), d.MachineID)
	dst = appendField(dst, "session_id", d.SessionID)
	dst = appendField(dst, "replay_id", d.ReplayID)
	dst = appendString(appendName(dst, "type"), d.Type)
	dst = appendPayload(appendName(dst, "payload"), d.Payload)
	dst = appendField(dst, "guarantee", d.Guarantee.String())
	dst = appendNumber(dst, "resent_count", int64(d.Resent))
	dst = appendNumber(dst, "attempts", int64(d.Attempts))
	dst = appendNumber(dst, "transient_attempts", int64(d.TransientAttempts))
	dst = appendTime(dst, "dispatched_at", d.DispatchedAt)
	if !d.AckBy.IsZero() {
		dst = appendTime(dst, "ack_by", d.AckBy)
	}
	dst = appendLabels(appendName(dst, "labels"), d.Labels)
	dst = appendField(dst, "traceparent", d.Trace)
	if withEventID {
		dst = strconv.AppendUint(appendName(dst, "event_id"), d.EventID, 10)
	}
	return append(dst, '}')
}

func appendPayload(dst, payload []byte) []byte {
	if len(payload) == 0 {
		return append(dst, "null"...)
	}
	from := len(dst)
	dst = append(dst, payload...)
	for _, lineBreak := range []byte("\r\n") {
		for at := from; ; {
			i := bytes.IndexByte(dst[at:], lineBreak)
			if i < 0 {
				break
			}
			at += i
			dst[at] = ' '
		}
	}
	return dst
}

// appendLabels writes them in order, so that a resend has the same bytes.
func appendLabels(dst []byte, labels map[string]string) []byte {
	if len(labels) == 0 {
		return append(dst, "{}"...)
	}
	names := make([]string, 0, 16)
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		dst = appendString(append(dst, sep), name)
		dst = appendString(append(dst, ':'), labels[name])
	}
	return append(dst, '}')
}

// AppendHeartbeat appends a heartbeat.
func AppendHeartbeat(dst []byte, now time.Time) []byte {
	dst = append(dst, "event: hb\ndata: {\"server_time\":\""...)
	return append(appendInstant(dst, now), "\"}\n\n"...)
}

// AppendCancel appends the request to stop an action.
func AppendCancel(dst []byte, c ackstore.CancelNote) []byte {
	dst = appendString(append(dst, "event: cancel\ndata: {\"action_id\":"...), c.ActionID)
	dst = appendNumber(dst, "delivery", int64(c.Delivery))
	dst = appendString(appendName(dst, "reason"), c.Reason)
	return append(dst, "}\n\n"...)
}

// Bye is what the last event of a stream tells.
type Bye struct {
	Reason  Reason
	Retry   time.Duration // told with shutdown and recycle
	Address string        // told with replaced, if known
}

// AppendBye appends the last block of a stream.
func AppendBye(dst []byte, b Bye) []byte {
	dst = appendString(append(dst, "event: bye\ndata: {\"reason\":"...), string(b.Reason))
	switch b.Reason {
	case ByeShutdown, ByeRecycle:
		dst = appendNumber(dst, "retry_ms", b.Retry.Milliseconds())
	case ByeReplaced:
		dst = appendField(dst, "address", b.Address)
	}
	return append(dst, "}\n\n"...)
}
