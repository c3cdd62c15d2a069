package server

import (
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"time"

	"pushd/ackstore"
)

// Bounds of protocol section 5.
const (
	maxArray     = 1000
	maxLabels    = 16
	maxLabelSize = 256
	maxCount     = 1_000_000 // of resends and attempts: far from any use
)

var pushFields = []string{
	"action_id", "machine_id", "session_id", "replay_id", "type", "payload", "priority", "guarantee",
	"available_at", "delay_s", "expires_at", "ttl_s", "orphan_timeout_s", "inactivity_timeout_s", "ceiling_s",
	"max_resends", "max_attempts", "transient_max_attempts", "target", "on_dead", "labels",
}

// pushDecoder reads actions; its defaults are the server's.
type pushDecoder struct {
	defaults   Defaults
	maxPayload int64
	now        time.Time
	trace      string // of the request
}

// pushItem is an action as it was read. late is what is wrong with it if it is
// new: an instant that has passed. A repeat of a known action is not refused for
// that, or a sender whose first answer was lost could not learn of it; which one
// it is the store decides.
type pushItem struct {
	action ackstore.NewAction
	named  bool // its action_id was given
	late   *faults
	pushed ackstore.PushedAction // the answer
}

// read reads one action. value has passed checkJSON.
func (d *pushDecoder) read(value []byte, at string, f *faults) pushItem {
	o, ok := newObject(value, at, pushFields, f)
	if !ok {
		return pushItem{}
	}
	a := ackstore.NewAction{
		ActionID: o.id("action_id"), MachineID: o.machine("machine_id"), Trace: d.trace,
		SessionID: o.id("session_id"), ReplayID: o.id("replay_id"),
		Type: o.actionType(), Target: o.target("target"),
		Payload:   o.verbatim("payload", "limits.max_payload_bytes", d.maxPayload),
		Priority:  o.whole("priority", 0, 9, 0),
		Guarantee: ackstore.Guarantee(o.oneOf("guarantee", "at_least_once", "at_most_once")),
		OnDead:    ackstore.OnDead(o.oneOf("on_dead", "pause", "skip")),

		OrphanTimeout:     o.timeout("orphan_timeout_s"),
		InactivityTimeout: o.timeout("inactivity_timeout_s"),
		Ceiling:           o.timeout("ceiling_s"),

		MaxResends:           o.whole("max_resends", 0, maxCount, d.defaults.MaxResends),
		MaxAttempts:          o.whole("max_attempts", 1, maxCount, d.defaults.MaxAttempts),
		TransientMaxAttempts: o.whole("transient_max_attempts", 1, maxCount, d.defaults.TransientMaxAttempts),
		Labels:               o.labels(),
	}
	o.require("machine_id")
	if a.Payload == nil {
		a.Payload = []byte("null")
	}
	if slices.Contains(d.defaults.SkipTypes, a.Type) {
		a.Guarantee = ackstore.AtMostOnce
	}
	item := pushItem{action: a, named: o.has("action_id"), late: &faults{}}
	d.times(o, &item)
	item.action.Digest = digest(o.members)
	return item
}

func (o *object) actionType() string {
	o.require("type")
	s, ok := o.text("type")
	if ok && !typeForm.MatchString(s) {
		o.fault("type", "must be 1 to 64 of A-Z a-z 0-9 . _ -, is %s", quote(s))
	}
	return s
}

// times reads the earliest and the latest dispatch and what they make of each other.
func (d *pushDecoder) times(o *object, item *pushItem) {
	a := &item.action
	bad := len(o.faults.fields)
	a.Delay, _ = o.seconds("delay_s")
	a.AvailableAt = o.instant("available_at")
	a.TTL = o.timeout("ttl_s")
	a.ExpiresAt = o.instant("expires_at")
	if o.contradicts("available_at", "delay_s") || o.contradicts("expires_at", "ttl_s") || len(o.faults.fields) > bad {
		return
	}
	switch {
	case a.TTL > 0 && a.TTL < a.Delay:
		o.fault("ttl_s", "ends before delay_s, so it could never be sent")
	case !a.ExpiresAt.IsZero() && a.ExpiresAt.Before(a.AvailableAt):
		o.fault("expires_at", "is before available_at, so it could never be sent")
	case a.TTL > 0 && d.now.Add(a.TTL).Before(a.AvailableAt):
		item.late.add(o.path("ttl_s"), "ends before available_at, so it could never be sent")
	case !a.ExpiresAt.IsZero() && a.ExpiresAt.Before(d.now.Add(a.Delay)):
		item.late.add(o.path("expires_at"), "is before the earliest dispatch, so it could never be sent")
	}
}

// labels are at most 16 pairs of strings; never nil.
func (o *object) labels() map[string]string {
	labels := map[string]string{}
	value, ok := o.kind("labels", "an object")
	if !ok {
		return labels
	}
	pairs := members(value)
	if len(pairs) > maxLabels {
		o.fault("labels", "has %d pairs, at most %d are taken", len(pairs), maxLabels)
		return labels
	}
	for _, p := range pairs {
		name := "labels." + cutName(p.name)
		if is := jsonKind(p.value); is != "a string" {
			o.fault(name, "must be a string, is %s", is)
			continue
		}
		text := unquote(p.value)
		_, twice := labels[p.name]
		switch {
		case twice:
			o.fault(name, "is there twice")
		case len(p.name) > maxLabelSize || len(text) > maxLabelSize:
			o.fault(name, "has a key or value over %d bytes", maxLabelSize)
		}
		labels[p.name] = text
	}
	return labels
}

// digest is of the content as it was sent: the fields by name, white space aside,
// without the action_id. No default is in it, and no instant worked out from a
// duration, so that a repeat compares equal whenever it comes.
func digest(fields []member) [16]byte {
	sorted := slices.Clone(fields)
	slices.SortStableFunc(sorted, byName)
	h := sha256.New()
	for _, m := range sorted {
		switch {
		case m.name == "action_id":
			continue
		case m.name == "labels" && jsonKind(m.value) == "an object":
			pairs := members(m.value)
			slices.SortStableFunc(pairs, byName)
			hashMember(h, m.name, nil)
			for _, p := range pairs {
				hashMember(h, p.name, p.value)
			}
		default:
			hashMember(h, m.name, compact(m.value))
		}
	}
	return [16]byte(h.Sum(nil))
}

func byName(a, b member) int {
	switch {
	case a.name < b.name:
		return -1
	case a.name > b.name:
		return 1
	}
	return 0
}

func hashMember(h io.Writer, name string, value []byte) {
	fmt.Fprintf(h, "%d:%s=%d:", len(name), name, len(value))
	_, _ = h.Write(value)
}

// array reads a body that is one action or an array of them.
func (d *pushDecoder) array(body []byte) (items []pushItem, single bool, err error) {
	if err := checkJSON(body); err != nil {
		return nil, false, err
	}
	f := &faults{}
	value := body[skipSpace(body, 0):]
	switch jsonKind(value) {
	case "an object":
		item := d.read(value, "", f)
		return []pushItem{item}, true, f.err()
	case "an array":
	default:
		return nil, false, refuse(malformed, "the body must be an action or an array of actions, is %s", jsonKind(value))
	}
	all := elements(value)
	if len(all) == 0 || len(all) > maxArray {
		return nil, false, refuse(malformed, "the array has %d actions; 1 to %d are taken (use application/x-ndjson for more)", len(all), maxArray)
	}
	for i, element := range all {
		items = append(items, d.read(element, fmt.Sprintf("[%d]", i), f))
	}
	return items, false, f.err()
}
