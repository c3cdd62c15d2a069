package storetest

import (
	"crypto/sha256"
	"fmt"
	"time"

	"pushd/ackstore"
)

// opt is a field of an action that a check gives.
type opt func(*ackstore.NewAction)

// action makes an action for m1 with the defaults of protocol section 5.
func action(id string, opts ...opt) ackstore.NewAction {
	a := ackstore.NewAction{
		ActionID: id, MachineID: "m1", Type: "job", Payload: []byte(`{"x":1}`),
		MaxResends: 2, MaxAttempts: 2, TransientMaxAttempts: 5,
	}
	for _, o := range opts {
		o(&a)
	}
	a.Digest = digest(a)
	return a
}

// digest stands for that of the content as it was sent.
func digest(a ackstore.NewAction) (d [16]byte) {
	a.Late = false
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []any{a}))
	copy(d[:], sum[:])
	return d
}

func of(machine string) opt       { return func(a *ackstore.NewAction) { a.MachineID = machine } }
func lane(session string) opt     { return func(a *ackstore.NewAction) { a.SessionID = session } }
func replay(id string) opt        { return func(a *ackstore.NewAction) { a.ReplayID = id } }
func kind(t string) opt           { return func(a *ackstore.NewAction) { a.Type = t } }
func target(t string) opt         { return func(a *ackstore.NewAction) { a.Target = t } }
func payload(p string) opt        { return func(a *ackstore.NewAction) { a.Payload = []byte(p) } }
func priority(n int) opt          { return func(a *ackstore.NewAction) { a.Priority = n } }
func once(a *ackstore.NewAction)  { a.Guarantee = ackstore.AtMostOnce }
func skip(a *ackstore.NewAction)  { a.OnDead = ackstore.SkipDead }
func delay(d time.Duration) opt   { return func(a *ackstore.NewAction) { a.Delay = d } }
func ttl(d time.Duration) opt     { return func(a *ackstore.NewAction) { a.TTL = d } }
func orphan(d time.Duration) opt  { return func(a *ackstore.NewAction) { a.OrphanTimeout = d } }
func idle(d time.Duration) opt    { return func(a *ackstore.NewAction) { a.InactivityTimeout = d } }
func ceiling(d time.Duration) opt { return func(a *ackstore.NewAction) { a.Ceiling = d } }
func resends(n int) opt           { return func(a *ackstore.NewAction) { a.MaxResends = n } }
func attempts(n int) opt          { return func(a *ackstore.NewAction) { a.MaxAttempts = n } }
func transients(n int) opt        { return func(a *ackstore.NewAction) { a.TransientMaxAttempts = n } }
func label(k, v string) opt {
	return func(a *ackstore.NewAction) {
		if a.Labels == nil {
			a.Labels = map[string]string{}
		}
		a.Labels[k] = v
	}
}

// word is a field of an ack that a check gives.
type word func(*ackstore.Ack)

func say(verb ackstore.Verb, id string, words ...word) ackstore.Ack {
	a := ackstore.Ack{ActionID: id, Verb: verb, Jitter: 0.5}
	for _, w := range words {
		w(&a)
	}
	return a
}

func received(id string, w ...word) ackstore.Ack  { return say(ackstore.SaysReceived, id, w...) }
func working(id string, w ...word) ackstore.Ack   { return say(ackstore.SaysWorking, id, w...) }
func done(id string, w ...word) ackstore.Ack      { return say(ackstore.SaysDone, id, w...) }
func released(id string, w ...word) ackstore.Ack  { return say(ackstore.SaysReleased, id, w...) }
func cancelled(id string, w ...word) ackstore.Ack { return say(ackstore.SaysCancelled, id, w...) }

// failed reports a failure of a kind; an empty kind is not said.
func failed(id, kind string, w ...word) ackstore.Ack {
	a := say(ackstore.SaysFailed, id, w...)
	a.Error = &ackstore.Failure{Kind: kind, Message: "it went wrong"}
	return a
}

func delivery(n int) word            { return func(a *ackstore.Ack) { a.Delivery = n } }
func from(machine string) word       { return func(a *ackstore.Ack) { a.MachineID = machine } }
func result(json string) word        { return func(a *ackstore.Ack) { a.Result = []byte(json) } }
func inAtLeast(d time.Duration) word { return func(a *ackstore.Ack) { a.Delay = d } }
func after(d time.Duration) word     { return func(a *ackstore.Ack) { a.RetryAfter = d } }
func at(t time.Time) word            { return func(a *ackstore.Ack) { a.RetryAt = t } }
func token(n uint64) word            { return func(a *ackstore.Ack) { a.ActivityToken = &n } }
func spread(f float64) word          { return func(a *ackstore.Ack) { a.Jitter = f } }

func until(t time.Time) func(*ackstore.Hold)   { return func(h *ackstore.Hold) { h.Until = t } }
func note(text string) func(*ackstore.Hold)    { return func(h *ackstore.Hold) { h.Note = text } }
func onMachine(id string) func(*ackstore.Hold) { return func(h *ackstore.Hold) { h.MachineID = id } }
