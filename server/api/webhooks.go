package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Webhook is a route and what came to it since the server's start.
type Webhook struct {
	Route       string          `json:"route"`
	Source      string          `json:"source"`
	Path        string          `json:"path,omitempty"` // none of a chain rule
	OnDuplicate string          `json:"on_duplicate"`
	Secrets     []WebhookSecret `json:"secrets,omitempty"`
	Counts      map[string]int  `json:"counts"`
	LastRefusal *WebhookRefusal `json:"last_refusal,omitempty"`
}

// WebhookSecret tells when a secret was used last; the secret itself is never told.
type WebhookSecret struct {
	LastUsedAt Time `json:"last_used_at,omitzero"`
}

// WebhookRefusal is the last delivery that was not let in.
type WebhookRefusal struct {
	At  Time   `json:"at"`
	Why string `json:"why"`
}

// Delivery is a recorded delivery.
type Delivery struct {
	ID         string            `json:"id"` // ours
	Route      string            `json:"route"`
	Source     string            `json:"source"`
	DeliveryID string            `json:"delivery_id,omitempty"` // the sender's
	Event      string            `json:"event,omitempty"`
	At         Time              `json:"at"`
	Verdict    string            `json:"verdict"`
	Detail     string            `json:"detail,omitempty"`
	Secret     *int              `json:"secret,omitempty"` // which of the route's secrets signed it
	Actions    []string          `json:"actions"`
	Repeats    int               `json:"repeats,omitempty"`
	RepeatAt   Time              `json:"last_repeat_at,omitzero"`
	ReplayOf   string            `json:"replay_of,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	BodyBytes  int               `json:"body_bytes"`
	BodyCut    bool              `json:"body_cut,omitempty"` // too large to be kept
	Body       json.RawMessage   `json:"body,omitempty"`
}

// Sample is a delivery to try a route with; nothing of it is enqueued.
type Sample struct {
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body"`
}

// Trial is what a route would make of a sample.
type Trial struct {
	Matched bool              `json:"matched"`
	Event   string            `json:"event,omitempty"`
	Key     string            `json:"key,omitempty"`
	Actions []json.RawMessage `json:"actions"`
	Error   string            `json:"error,omitempty"`
}

// Taken answers a delivery.
type Taken struct {
	Actions      []string `json:"actions"`
	Deduplicated bool     `json:"deduplicated"`
}

// Webhooks lists the routes.
func (c *Client) Webhooks(ctx context.Context) (List[Webhook], error) {
	var out List[Webhook]
	err := c.do(ctx, http.MethodGet, "/v1/webhooks", nil, nil, &out)
	return out, err
}

// Deliveries lists what came to a route, newest first.
func (c *Client) Deliveries(ctx context.Context, route string, limit int, cursor string) (List[Delivery], error) {
	q := url.Values{}
	page(q, limit, cursor)
	var out List[Delivery]
	err := c.do(ctx, http.MethodGet, thing("webhooks", route, "deliveries"), q, nil, &out)
	return out, err
}

// Delivery reads one with its body.
func (c *Client) Delivery(ctx context.Context, route, id string) (Delivery, error) {
	var out Delivery
	err := c.do(ctx, http.MethodGet, thing("webhooks", route, "deliveries", url.PathEscape(id)), nil, nil, &out)
	return out, err
}

// Replay makes actions of a recorded delivery again, by the route as it is now.
func (c *Client) Replay(ctx context.Context, route, id string) (Delivery, error) {
	var out Delivery
	err := c.do(ctx, http.MethodPost, thing("webhooks", route, "deliveries", url.PathEscape(id), "replay"), nil, struct{}{}, &out)
	return out, err
}

// TestWebhook tells what a route would make of a sample.
func (c *Client) TestWebhook(ctx context.Context, route string, s Sample) (Trial, error) {
	var out Trial
	err := c.do(ctx, http.MethodPost, thing("webhooks", route, "test"), nil, s, &out)
	return out, err
}
