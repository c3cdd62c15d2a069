package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Things whose pause, resume and cancel are spelt alike.
const (
	Machines = "machines"
	Sessions = "sessions"
	Replays  = "replays"
)

func thing(kind, id string, verb ...string) string {
	var path strings.Builder
	path.WriteString("/v1/" + kind + "/" + url.PathEscape(id))
	for _, v := range verb {
		path.WriteString("/" + v)
	}
	return path.String()
}

// Machine reads a machine.
func (c *Client) Machine(ctx context.Context, id string) (Machine, error) {
	var out Machine
	err := c.do(ctx, http.MethodGet, thing(Machines, id), nil, nil, &out)
	return out, err
}

// Machines lists machines by id. Limit 0 is the server's default.
func (c *Client) Machines(ctx context.Context, limit int, cursor string) (List[Machine], error) {
	q := url.Values{}
	page(q, limit, cursor)
	var out List[Machine]
	err := c.do(ctx, http.MethodGet, "/v1/machines", q, nil, &out)
	return out, err
}

// DropMachine forgets a machine that is offline and has nothing unsettled.
func (c *Client) DropMachine(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, thing(Machines, id), nil, nil, nil)
}

// Beat says that a stream is alive; a 409 says why it is not.
func (c *Client) Beat(ctx context.Context, machineID, streamID string) error {
	body := map[string]string{"stream_id": streamID}
	return c.do(ctx, http.MethodPost, thing(Machines, machineID, "beat"), nil, body, nil)
}

// SetCredit changes max_in_flight; nil lifts an operator's.
func (c *Client) SetCredit(ctx context.Context, machineID string, limit *int, reason string) (Machine, error) {
	body := map[string]any{"max_in_flight": limit}
	if reason != "" {
		body["reason"] = reason
	}
	var out Machine
	err := c.do(ctx, http.MethodPatch, thing(Machines, machineID), nil, body, &out)
	return out, err
}

// Label reads a session or a replay: kind is [Sessions] or [Replays].
func (c *Client) Label(ctx context.Context, kind, id string) (Label, error) {
	var out Label
	err := c.do(ctx, http.MethodGet, thing(kind, id), nil, nil, &out)
	return out, err
}

// Labels lists sessions or replays by id.
func (c *Client) Labels(ctx context.Context, kind string, limit int, cursor string) (List[Label], error) {
	q := url.Values{}
	page(q, limit, cursor)
	var out List[Label]
	err := c.do(ctx, http.MethodGet, "/v1/"+kind, q, nil, &out)
	return out, err
}

// Pause holds a machine, session or replay.
func (c *Client) Pause(ctx context.Context, kind, id string, p PauseRequest) error {
	return c.do(ctx, http.MethodPost, thing(kind, id, "pause"), nil, p, nil)
}

// Resume ends every cause of a pause, and opens a closed session or replay.
func (c *Client) Resume(ctx context.Context, kind, id string) error {
	return c.do(ctx, http.MethodPost, thing(kind, id, "resume"), nil, struct{}{}, nil)
}

// CancelLabel cancels what a session or replay holds and closes it.
func (c *Client) CancelLabel(ctx context.Context, kind, id string) (Label, error) {
	var out Label
	err := c.do(ctx, http.MethodPost, thing(kind, id, "cancel"), nil, struct{}{}, &out)
	return out, err
}

// Cancel stops an action.
func (c *Client) Cancel(ctx context.Context, id string) (Record, error) {
	return c.act(ctx, id, "cancel", struct{}{})
}

// Redrive queues a dead letter, or what is cancelled or in doubt, again.
func (c *Client) Redrive(ctx context.Context, id string) (Record, error) {
	return c.act(ctx, id, "redrive", struct{}{})
}

// Resolve says what became of an action whose outcome nobody knows.
func (c *Client) Resolve(ctx context.Context, id string, as Resolution) (Record, error) {
	return c.act(ctx, id, "resolve", as)
}

func (c *Client) act(ctx context.Context, id, verb string, body any) (Record, error) {
	var out Record
	err := c.do(ctx, http.MethodPost, "/v1/actions/"+url.PathEscape(id)+"/"+verb, nil, body, &out)
	return out, err
}

// CancelAll cancels what a selection holds.
func (c *Client) CancelAll(ctx context.Context, s Selection) (int, error) {
	var out Count
	err := c.do(ctx, http.MethodPost, "/v1/cancel", nil, s, &out)
	return out.Count, err
}

// RedriveAll redrives what a selection holds.
func (c *Client) RedriveAll(ctx context.Context, s Selection) (int, error) {
	var out Count
	err := c.do(ctx, http.MethodPost, "/v1/redrive", nil, s, &out)
	return out.Count, err
}

// CloseBreaker closes the breaker of machine and target; machine empty: a shared one.
func (c *Client) CloseBreaker(ctx context.Context, machineID, target string) error {
	body := map[string]string{}
	if machineID != "" {
		body["machine_id"] = machineID
	}
	if target != "" {
		body["target"] = target
	}
	return c.do(ctx, http.MethodPost, "/v1/breakers/close", nil, body, nil)
}

// CreateToken makes a token; its text is in this answer only.
func (c *Client) CreateToken(ctx context.Context, t NewToken) (Token, error) {
	var out Token
	err := c.do(ctx, http.MethodPost, "/v1/tokens", nil, t, &out)
	return out, err
}

// Tokens lists the tokens, without their texts.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	var out List[Token]
	err := c.do(ctx, http.MethodGet, "/v1/tokens", nil, nil, &out)
	return out.Items, err
}

// DropToken revokes a token; streams under it are told and end.
func (c *Client) DropToken(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/v1/tokens/"+url.PathEscape(id), nil, nil, nil)
}
