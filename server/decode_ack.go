package server

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"pushd/ackstore"
)

// Bounds of protocol section 9.
const (
	maxAcks     = 1000
	maxMessage  = 8 << 10
	maxNote     = 1 << 10
	maxCode     = 256
	maxDelivery = math.MaxInt32
)

var ackFields = []string{
	"action_id", "status", "machine_id", "delivery", "activity_token", "progress", "result", "error",
	"retry_after_s", "retry_at", "delay_s",
}

var verbNames = []string{"received", "working", "done", "failed", "released", "cancelled"}

// ackOptions says which statuses an option belongs to: one that would be ignored
// is a mistake of the sender's.
var ackOptions = map[string][]ackstore.Verb{
	"activity_token": {ackstore.SaysWorking},
	"progress":       {ackstore.SaysWorking},
	"result":         {ackstore.SaysDone, ackstore.SaysFailed},
	"error":          {ackstore.SaysFailed},
	"retry_after_s":  {ackstore.SaysFailed},
	"retry_at":       {ackstore.SaysFailed},
	"delay_s":        {ackstore.SaysReleased},
}

// readAck reads one ack. value has passed checkJSON.
func readAck(value []byte, at string, maxResult int64, f *faults) ackstore.Ack {
	o, ok := newObject(value, at, ackFields, f)
	if !ok {
		return ackstore.Ack{}
	}
	o.require("action_id")
	o.require("status")
	a := ackstore.Ack{
		ActionID: o.id("action_id"), MachineID: o.id("machine_id"),
		Delivery:      o.whole("delivery", 1, maxDelivery, 0),
		ActivityToken: o.token(),
		Progress:      o.progress(),
		Result:        o.verbatim("result", "limits.max_result_bytes", maxResult),
		Error:         o.failure(),
		RetryAt:       o.instant("retry_at"),
	}
	a.RetryAfter, _ = o.seconds("retry_after_s")
	a.Delay, _ = o.seconds("delay_s")
	o.contradicts("retry_after_s", "retry_at")
	status, said := o.text("status")
	verb := slices.Index(verbNames, status) + 1
	if said && verb == 0 {
		o.fault("status", "must be received, working, done, failed, released or cancelled, is %s", quote(status))
		return a
	}
	a.Verb = ackstore.Verb(verb)
	if a.Verb == ackstore.SaysFailed && a.Error == nil {
		a.Error = &ackstore.Failure{Kind: "error"}
	}
	for _, m := range o.members {
		if verbs, is := ackOptions[m.name]; is && said && !slices.Contains(verbs, a.Verb) {
			o.fault(m.name, "does not go with status %s", status)
		}
	}
	return a
}

// token is a whole number, kept with all its digits.
func (o *object) token() *uint64 {
	value, ok := o.kind("activity_token", "a number")
	if !ok {
		return nil
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil {
		o.fault("activity_token", "must be a whole number from 0 to %d, is %s", uint64(math.MaxUint64), cutName(string(value)))
		return nil
	}
	return &n
}

func (o *object) progress() *ackstore.Progress {
	value, there := o.find("progress")
	if !there {
		return nil
	}
	in, ok := newObject(value, o.path("progress"), []string{"percent", "note"}, o.faults)
	if !ok {
		return nil
	}
	p := &ackstore.Progress{Note: in.short("note", maxNote)}
	if text, ok := in.kind("percent", "a number"); ok {
		percent, err := strconv.ParseFloat(string(text), 64)
		if err != nil || percent < 0 || percent > 100 {
			in.fault("percent", "must be a number from 0 to 100, is %s", cutName(string(text)))
		}
		p.Percent = &percent
	}
	return p
}

// failure is what an agent says of a failure; a kind is left empty where it says none.
func (o *object) failure() *ackstore.Failure {
	value, there := o.find("error")
	if !there {
		return nil
	}
	in, ok := newObject(value, o.path("error"), []string{"message", "kind", "code"}, o.faults)
	if !ok {
		return nil
	}
	kinds := []string{"error", "transient", "quota", "config", "permanent"}
	e := &ackstore.Failure{Kind: kinds[in.oneOf("kind", kinds...)], Code: in.short("code", maxCode)}
	message, _ := in.text("message")
	e.Message = cutText(message, maxMessage)
	return e
}

// cutText is s, or as much of it as most bytes hold without splitting a rune.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const dots = "…"
	cut := most - len(dots)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + dots
}

// readAcks reads a body that is one ack or an array of them. One malformed item
// refuses all: what cannot be read cannot be answered for itself.
func readAcks(body []byte, maxResult int64) (acks []ackstore.Ack, single bool, err error) {
	if err := checkJSON(body); err != nil {
		return nil, false, err
	}
	f := &faults{}
	value := body[skipSpace(body, 0):]
	switch jsonKind(value) {
	case "an object":
		a := readAck(value, "", maxResult, f)
		return []ackstore.Ack{a}, true, f.err()
	case "an array":
	default:
		return nil, false, refuse(malformed, "the body must be an ack or an array of acks, is %s", jsonKind(value))
	}
	all := elements(value)
	if len(all) > maxAcks {
		return nil, false, refuse(malformed, "the array has %d acks; at most %d are taken", len(all), maxAcks)
	}
	for i, element := range all {
		acks = append(acks, readAck(element, fmt.Sprintf("[%d]", i), maxResult, f))
	}
	return acks, false, f.err()
}
