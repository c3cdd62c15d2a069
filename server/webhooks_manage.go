package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"pushd/ackstore"
	"pushd/server/api"
	"pushd/server/webhook"
)

// webhookRoutes are those that tell of webhooks and what came by them.
func webhookRoutes() []route {
	get, post := http.MethodGet, http.MethodPost
	const deliveries = "/v1/webhooks/:route/deliveries"
	return []route{
		{post, "/webhooks/:route", public, nil, (*call).webhook},
		{get, "/v1/webhooks", mayRead, nil, (*call).listWebhooks},
		{get, deliveries, mayRead, pageParams, (*call).listDeliveries},
		{get, deliveries + "/:id", mayRead, nil, (*call).getDelivery},
		{post, deliveries + "/:id/replay", mayOperate, nil, (*call).replayDelivery},
		{post, "/v1/webhooks/:route/test", mayOperate, nil, (*call).testWebhook},
	}
}

// unlimited wants a power over all machines: a delivery is not of one.
func (c *call) unlimited(p power) error {
	if c.who.reach(p) != nil {
		return refuse(forbidden, "webhooks are for tokens without a pattern")
	}
	return nil
}

// listWebhooks is GET /v1/webhooks.
func (c *call) listWebhooks() error {
	if err := c.unlimited(mayRead); err != nil {
		return err
	}
	page := api.List[api.Webhook]{Items: []api.Webhook{}}
	for _, rt := range c.routing().Routes {
		w := api.Webhook{Route: rt.ID, Source: rt.Source, OnDuplicate: string(rt.OnDuplicate)}
		if !rt.Chain() {
			w.Path = "/webhooks/" + rt.ID
		}
		c.routing().tallies[rt.ID].fill(&w)
		page.Items = append(page.Items, w)
	}
	return c.answer(http.StatusOK, page)
}

// pathRoute is the route in the path.
func (c *call) pathRoute(p power) (*webhook.Route, error) {
	if err := c.unlimited(p); err != nil {
		return nil, err
	}
	rt := c.routing().Find(c.echo.Param("route"))
	if rt == nil {
		return nil, noRoute(c.echo.Param("route"))
	}
	return rt, nil
}

// listDeliveries is GET /v1/webhooks/ROUTE/deliveries.
func (c *call) listDeliveries() error {
	limit := c.query.limit()
	if err := c.query.faults.err(); err != nil {
		return err
	}
	rt, err := c.pathRoute(mayRead)
	if err != nil {
		return err
	}
	items, next, err := c.hooks.Inbox.Deliveries(c.r.Context(), rt.ID, c.query.values.Get("cursor"), limit)
	if err != nil {
		return err
	}
	page := api.List[api.Delivery]{Items: make([]api.Delivery, len(items)), NextCursor: next}
	for i := range items {
		page.Items[i] = deliveryOf(&items[i])
	}
	return c.answer(http.StatusOK, page)
}

// pathDelivery is the record in the path.
func (c *call) pathDelivery(p power) (*webhook.Route, ackstore.Delivery, error) {
	rt, err := c.pathRoute(p)
	if err != nil {
		return nil, ackstore.Delivery{}, err
	}
	id := c.echo.Param("id")
	serial, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return nil, ackstore.Delivery{}, noSuch("delivery", id)
	}
	d, err := c.hooks.Inbox.Delivery(c.r.Context(), serial)
	if err == nil && d.Route != rt.ID {
		err = ackstore.ErrUnknown
	}
	if err != nil {
		return nil, d, nameUnknown(err, "delivery", id)
	}
	return rt, d, nil
}

// getDelivery is GET /v1/webhooks/ROUTE/deliveries/ID.
func (c *call) getDelivery() error {
	_, d, err := c.pathDelivery(mayRead)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, deliveryOf(&d))
}

// replayDelivery makes actions of a recorded delivery again, by the route as it
// is now. It is a delivery of its own, which its sender's repeats do not find.
func (c *call) replayDelivery() error {
	if err := c.noFields(); err != nil {
		return err
	}
	rt, d, err := c.pathDelivery(mayOperate)
	if err != nil {
		return err
	}
	if len(d.Body) == 0 {
		return refuse(conflict, "the body of delivery %d is not kept, so it cannot be replayed", d.Serial)
	}
	opened, err := rt.Again(d.Header, d.Body)
	if err != nil {
		return ofWebhook(err)
	}
	opened.ID = d.ID
	got, err := c.take(context.WithoutCancel(c.r.Context()), taking{table: c.routing(), route: rt, opened: opened, again: d.Serial})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, deliveryOf(&got.Delivery))
}

// testWebhook renders what a route would make of a sample, and enqueues nothing.
func (c *call) testWebhook() error {
	rt, err := c.pathRoute(mayOperate)
	if err != nil {
		return err
	}
	f := &faults{}
	o, err := c.object([]string{"headers", "body"}, f)
	if err != nil {
		return err
	}
	o.require("body")
	headers := o.headers()
	if err := f.err(); err != nil {
		return err
	}
	body, _ := o.find("body")
	opened, err := rt.Again(headers, body)
	if err != nil {
		return ofWebhook(err)
	}
	out := api.Trial{Matched: rt.Matches(opened.Message), Event: opened.Event, Key: opened.Key, Actions: []json.RawMessage{}}
	if out.Matched {
		if _, err = c.actionsOf(taking{table: c.routing(), route: rt, opened: opened}); err == nil {
			out.Actions, err = rt.Render(opened.Message)
		}
		if err != nil {
			out.Error = textOf(err)
		}
	}
	return c.answer(http.StatusOK, out)
}

// headers are those of a sample, by their canonical names.
func (o *object) headers() webhook.Headers {
	headers := webhook.Headers{}
	value, ok := o.kind("headers", "an object")
	if !ok {
		return headers
	}
	for _, m := range members(value) {
		if is := jsonKind(m.value); is != "a string" {
			o.fault("headers."+cutName(m.name), "must be a string, is %s", is)
			continue
		}
		headers[http.CanonicalHeaderKey(m.name)] = unquote(m.value)
	}
	return headers
}

func deliveryOf(d *ackstore.Delivery) api.Delivery {
	out := api.Delivery{
		ID: strconv.FormatUint(d.Serial, 10), Route: d.Route, Source: d.Source, DeliveryID: d.ID, Event: d.Event,
		At: api.At(d.At), Verdict: string(d.Fate), Detail: d.Detail, Actions: d.ActionIDs,
		Repeats: d.Repeats, RepeatAt: api.At(d.RepeatAt), Headers: d.Header, BodyBytes: d.BodyBytes, BodyCut: d.Cut,
	}
	if out.Actions == nil {
		out.Actions = []string{}
	}
	if d.Secret >= 0 {
		out.Secret = &d.Secret
	}
	if d.ReplayOf != 0 {
		out.ReplayOf = strconv.FormatUint(d.ReplayOf, 10)
	}
	if json.Valid(d.Body) {
		out.Body = d.Body
	}
	return out
}
