package metrics

import (
	"slices"
	"strings"

	"pushd/ackstore"
)

// The values of labels.
var (
	sources       = []string{"api", "webhook", "chain"}
	admissions    = []string{"queued", "duplicate", "conflict", "limit", "closed", "late", "other"}
	causes        = []string{"timeout", "disconnect"}
	classes       = []string{"error", "permanent", "transient", "quota", "config", "stalled", "ceiling", "released", "other"}
	reasons       = []string{"ack", "operator", "timeout", "disconnect", "ttl", "waiting", "in_flight", "other"}
	pauseCauses   = []string{ackstore.HeldByOperator, ackstore.HeldOnDead, ackstore.HeldNeedHelp, "other"}
	closings      = []string{"client_gone", "shutdown", "replaced", "revoked", "recycle", "write_timeout", "write_error", "other"}
	verbs         = spell(ackstore.SaysReceived, ackstore.SaysCancelled)
	outcomes      = spell(ackstore.Accepted, ackstore.Forbidden)
	settledStates = spellSettled()
)

func spell[T interface {
	~uint8
	String() string
}](first, last T) []string {
	var all []string
	for v := first; v <= last; v++ {
		all = append(all, v.String())
	}
	return all
}

func spellSettled() []string {
	var all []string
	for _, s := range ackstore.States() {
		if s.Settled() {
			all = append(all, s.String())
		}
	}
	return all
}

// oneOf keeps what is not known out of the labels.
func oneOf(value string, known []string) string {
	if slices.Contains(known, value) {
		return value
	}
	return known[len(known)-1]
}

// Changed counts what a commit of the store has brought.
func (m *Metrics) Changed(changes []ackstore.Change) {
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Event == "paused":
			m.countPause(c)
		case strings.HasPrefix(c.Event, "breaker_"):
			if to := strings.TrimPrefix(c.Event, "breaker_"); slices.Contains([]string{"open", "half_open", "closed"}, to) {
				m.breakers.WithLabelValues(to).Inc()
			}
		case c.ActionID != "":
			m.countDelivery(c)
			m.countEnd(c)
		}
	}
}

// countPause reads "session ID CAUSE"; an id has no spaces.
func (m *Metrics) countPause(c *ackstore.Change) {
	words := strings.Fields(c.Detail)
	if len(words) == 3 && words[0] == string(ackstore.OfSession) {
		m.paused.WithLabelValues(oneOf(words[2], pauseCauses)).Inc()
	}
}

// countDelivery is about what goes out, is lost and comes back.
func (m *Metrics) countDelivery(c *ackstore.Change) {
	switch c.Event {
	case "dispatched":
		reason := "retry"
		if c.Delivery <= 1 {
			reason = "first"
		}
		m.deliveries.WithLabelValues(reason).Inc()
	case "resent":
		m.deliveries.WithLabelValues("resend").Inc()
		m.resent.WithLabelValues(causeOf(c.Lost.String())).Inc()
	case "orphan":
		cause := causeOf(c.Detail)
		m.detected.WithLabelValues(cause).Inc()
		observe(m.orphanAge.WithLabelValues(cause), c.At.Sub(c.Sent))
	case "received":
		observe(m.toReceived, c.At.Sub(c.Sent))
	case "revived":
		m.revived.Inc()
	case "double_execution":
		m.doubled.Inc()
	}
	if c.Lost != 0 && slices.Contains([]string{"revived", "done", "failed", "released", "cancelled", "resolved"}, c.Event) {
		m.dropped.Inc()
	}
}

// causeOf: an agent that came back without it has lost it with its stream.
func causeOf(detail string) string { return oneOf(detail, causes) }

// countEnd is about what executions end with. Only the event that names the state
// settles: one commit may tell of several.
func (m *Metrics) countEnd(c *ackstore.Change) {
	switch c.Event {
	case "done", "failed":
		if c.Was == ackstore.InFlight {
			observe(m.toResult, c.At.Sub(c.Sent))
		}
	case "redriven":
		m.redrives.WithLabelValues(c.Was.String()).Inc()
	}
	switch {
	case c.Event == "failed":
		m.failures.WithLabelValues(oneOf(c.Detail, classes)).Inc()
	case c.Event == "gave_up":
		m.gaveUp.WithLabelValues(causeOf(c.Detail)).Inc()
	}
	if c.Was.Settled() || !c.State.Settled() {
		return
	}
	switch c.Event {
	case "resolved":
		m.settle(c, "operator")
	case c.State.String():
		m.settle(c, reasonOf(c))
	}
}

func (m *Metrics) settle(c *ackstore.Change, reason string) {
	m.settled.WithLabelValues(c.State.String(), reason).Inc()
}

func reasonOf(c *ackstore.Change) string {
	switch c.State {
	case ackstore.Done, ackstore.Failed:
		return "ack"
	case ackstore.GaveUp:
		return causeOf(c.Detail)
	case ackstore.Expired:
		return "ttl"
	}
	if c.Was == ackstore.InFlight {
		return "in_flight"
	}
	return "waiting"
}
