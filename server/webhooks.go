package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"pushd/ackstore"
	"pushd/server/webhook"
)

// Webhooks is what a server needs to take them.
type Webhooks struct {
	Set   *webhook.Set
	Inbox Inbox
	Bell  *Bell // rings when an action has ended; nil: chains look now and then
}

// Inbox is what webhooks ask of a store.
type Inbox interface {
	ackstore.Inbox
	ackstore.Ends
}

// Labels that tell where an action comes from. An agent gives what a stranger
// wrote narrower rights; a chain counts its links.
const (
	labelOrigin   = "pushd.origin"
	labelDelivery = "pushd.delivery"
	labelDepth    = "pushd.chain_depth"
	labelParent   = "pushd.chain_of"
)

// webhook is POST /webhooks/ROUTE.
func (c *call) webhook() error {
	rt := c.routing().Find(c.echo.Param("route"))
	if rt == nil || rt.Chain() {
		return noRoute(c.echo.Param("route"))
	}
	if c.draining.Load() {
		return refuse(draining, "the server is stopping; send it again when it is back")
	}
	if rt.Source == "none" { // it has no signature that a browser could not make
		if err := ownSite(c.r); err != nil {
			return err
		}
	}
	seen := c.routing().tallies[rt.ID]
	if err := rt.Knock(c.r.Header); err != nil {
		seen.refuse(err, c.cfg.Now())
		if errors.Is(err, webhook.ErrMedia) {
			return refuse(wrongMedia, "%s; its Content-Type is %s, its Content-Encoding %s", textOf(err), c.shown("Content-Type"), c.shown("Content-Encoding"))
		}
		return ofWebhook(err)
	}
	body, err := c.readAtMost(rt.MaxBody)
	if err != nil {
		return nameBody(err, rt)
	}
	opened, err := rt.Open(c.r.Header, body, c.cfg.Now())
	if err != nil && opened == nil {
		seen.refuse(err, c.cfg.Now())
		return ofWebhook(err)
	}
	seen.sign(opened.Secret, c.cfg.Now())
	if opened.Greeting != nil {
		seen.greet()
		return c.answerSender(opened, http.StatusOK, opened.Greeting.Body)
	}
	// A sender that goes now has sent all: what it asked for is done all the same.
	ctx := context.WithoutCancel(c.r.Context())
	if err != nil {
		return c.unreadable(ctx, rt, opened, err)
	}
	got, err := c.take(ctx, taking{table: c.routing(), route: rt, opened: opened})
	return c.answerTaken(opened, got, err)
}

// shown is a header as an answer repeats it.
func (c *call) shown(header string) string {
	if value := c.r.Header.Get(header); value != "" {
		return quote(value)
	}
	return "none"
}

// unreadable records that a signed body cannot be read; its sender is told.
func (c *call) unreadable(ctx context.Context, rt *webhook.Route, o *webhook.Opened, why error) error {
	in := receiptOf(rt, o, c.routing().KeepBody)
	in.Delivery.Fate, in.Delivery.Detail = ackstore.FateFailed, textOf(why)
	if _, err := c.receive(ctx, c.routing(), in); err != nil {
		return err
	}
	c.routing().tallies[rt.ID].count(ackstore.FateFailed, false)
	return ofWebhook(why)
}

// nameBody says whose limit a body is over.
func nameBody(err error, rt *webhook.Route) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return refuse(tooLarge, "the body is larger than the route's max_body, %d", rt.MaxBody)
	}
	return err
}

// ofWebhook turns why a delivery is not taken into a refusal. It tells nothing
// that was worked out from a secret.
func ofWebhook(err error) error {
	var bad *webhook.BadBodyError
	var unfilled *webhook.RenderError
	switch {
	case errors.Is(err, webhook.ErrMissing), errors.Is(err, webhook.ErrMismatch), errors.Is(err, webhook.ErrTimestamp):
		return refuse(unsigned, "%s", textOf(err))
	case errors.As(err, &bad), errors.As(err, &unfilled):
		return refuse(malformed, "%s", textOf(err))
	}
	return err
}

func textOf(err error) string { return strings.TrimPrefix(err.Error(), "webhook: ") }

// taken is the answer to a delivery.
type taken struct {
	Actions      []string `json:"actions"`
	Deduplicated *bool    `json:"deduplicated,omitempty"`
}

// answerTaken answers what became of a delivery: 202 with its actions, 200 where
// there are none. A sender that is told 4xx for what is not meant for it would in
// the end be switched off by its own side.
func (c *call) answerTaken(o *webhook.Opened, got ackstore.Received, err error) error {
	if err != nil {
		return err
	}
	d := got.Delivery
	if d.Fate == ackstore.FateFailed {
		return refuse(malformed, "the delivery is recorded as %d, but no action could be made of it: %s", d.Serial, d.Detail)
	}
	if len(d.ActionIDs) == 0 {
		return c.answerSender(o, http.StatusOK, taken{Actions: []string{}})
	}
	return c.answerSender(o, http.StatusAccepted, taken{d.ActionIDs, &got.Duplicate})
}

// answerSender is an answer of 2xx. Slack takes none but 200 for a command or a
// click, and would show what it says to who typed or clicked.
func (c *call) answerSender(o *webhook.Opened, status int, body any) error {
	if !o.Mute {
		return c.answer(status, body)
	}
	c.write(http.StatusOK, "text/plain", nil)
	return nil
}

// taking is a delivery on its way to actions.
type taking struct {
	table  *hookTable // that it began under
	route  *webhook.Route
	opened *webhook.Opened
	labels map[string]string // beside those of the route
	again  uint64            // the record that this replays
	end    uint64            // the note that this answers
	fate   ackstore.Fate     // settled beforehand; empty: it is worked out
}

// take makes actions of a delivery and records it with them, in one commit.
func (s *Server) take(ctx context.Context, t taking) (ackstore.Received, error) {
	in, err := s.receiptFor(t)
	if err != nil {
		return ackstore.Received{}, err
	}
	if in.Delivery.Fate != ackstore.FateQueued && in.Delivery.Key != "" && t.route.OnDuplicate == webhook.Ignore {
		// Whatever the route makes of it now, a repeat gets the answer of the first.
		if first, err := s.hooks.Inbox.Known(ctx, t.route.ID, in.Delivery.Key, t.route.Window); err == nil {
			return ackstore.Received{Delivery: first, Duplicate: true}, nil
		}
	}
	got, err := s.receive(ctx, t.table, in)
	if errors.Is(err, ackstore.ErrClosed) {
		in.Actions, in.Delivery.Fate, in.Delivery.Detail = nil, ackstore.FateClosed, judge(err).detail
		got, err = s.receive(ctx, t.table, in)
	}
	s.countReceived(t.route, got, err)
	if err == nil {
		t.table.tallies[t.route.ID].count(got.Delivery.Fate, got.Duplicate)
	}
	return got, err
}

// countReceived counts the actions of a delivery at the door.
func (s *Server) countReceived(rt *webhook.Route, got ackstore.Received, err error) {
	source := "webhook"
	if rt.Chain() {
		source = "chain"
	}
	switch {
	case err != nil:
		s.metrics.Enqueued(source, admissionOf(err), 1)
	case got.Duplicate:
		s.metrics.Enqueued(source, "duplicate", len(got.Delivery.ActionIDs))
	default:
		s.metrics.Enqueued(source, "queued", len(got.Delivery.ActionIDs))
	}
}

func (s *Server) receive(ctx context.Context, table *hookTable, in ackstore.Receipt) (ackstore.Received, error) {
	got, err := s.hooks.Inbox.Receive(ctx, s.rules(), table.Keep, []ackstore.Receipt{in})
	if err != nil {
		return ackstore.Received{}, err
	}
	return got[0], got[0].Err
}

// receiptFor works out what becomes of a delivery.
func (s *Server) receiptFor(t taking) (ackstore.Receipt, error) {
	in := receiptOf(t.route, t.opened, t.table.KeepBody)
	in.End, in.Delivery.ReplayOf = t.end, t.again
	switch {
	case t.again != 0:
		in.Delivery.Key = "" // asked for by name: it is no repeat
	case t.fate != "":
		in.Delivery.Fate = t.fate
		return in, nil
	}
	if !t.route.Matches(t.opened.Message) {
		in.Delivery.Fate = ackstore.FateFiltered
		return in, nil
	}
	actions, err := s.actionsOf(t)
	var unfilled *webhook.RenderError
	if errors.As(err, &unfilled) {
		in.Delivery.Fate, in.Delivery.Detail = ackstore.FateFailed, textOf(err)
		return in, nil
	}
	in.Actions = actions
	return in, err
}

func receiptOf(rt *webhook.Route, o *webhook.Opened, keep int64) ackstore.Receipt {
	in := ackstore.Receipt{
		Delivery: ackstore.Delivery{
			Route: rt.ID, Source: rt.Source, Key: o.Key, ID: o.ID, Event: o.Event,
			Secret: o.Secret, Header: o.Headers, Fate: ackstore.FateQueued,
		},
		Repeat: repeats[rt.OnDuplicate], Window: rt.Window, KeepBody: keep,
	}
	if o.Message != nil {
		in.Delivery.Body = o.JSON
	}
	return in
}

var repeats = map[webhook.OnDuplicate]ackstore.Repeat{
	webhook.Ignore: ackstore.RepeatIgnored, webhook.RequeueFailed: ackstore.RepeatFailed, webhook.Requeue: ackstore.RepeatAll,
}

// actionsOf renders the route's actions and reads them by the rules of a push.
func (s *Server) actionsOf(t taking) ([]ackstore.NewAction, error) {
	raws, err := t.route.Render(t.opened.Message)
	if err != nil {
		return nil, err
	}
	decoder, f := s.pushDecoder(), &faults{}
	actions := make([]ackstore.NewAction, len(raws))
	for i, raw := range raws {
		at := "actions[" + strconv.Itoa(i) + "]"
		item := decoder.read(raw, at, f)
		if late := item.late; late != nil && late.err() != nil {
			return nil, &webhook.RenderError{Leaf: at, Why: late.err().Error()}
		}
		if err := s.name(&item); err != nil {
			return nil, err
		}
		actions[i] = item.action
		mark(&actions[i], t)
	}
	if err := f.err(); err != nil {
		return nil, &webhook.RenderError{Leaf: f.fields[0].Field, Why: f.fields[0].Message}
	}
	return actions, nil
}

// mark labels an action with where it comes from.
func mark(a *ackstore.NewAction, t taking) {
	if a.Labels == nil {
		a.Labels = map[string]string{}
	}
	a.Labels[labelOrigin] = "untrusted:webhook/" + t.route.ID
	if t.opened.ID != "" {
		a.Labels[labelDelivery] = t.opened.ID
	}
	maps.Copy(a.Labels, t.labels)
}
