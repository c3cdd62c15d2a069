package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Push pushes one action.
func (c *Client) Push(ctx context.Context, p Push) (Pushed, error) {
	var out Pushed
	err := c.do(ctx, http.MethodPost, "/v1/actions", nil, p, &out)
	return out, err
}

// PushAll pushes up to 1,000 actions, all or none.
func (c *Client) PushAll(ctx context.Context, all []Push) ([]Pushed, error) {
	var out []Pushed
	err := c.do(ctx, http.MethodPost, "/v1/actions", nil, all, &out)
	return out, err
}

// Ack sends one ack. An answer of 403, 404 or 409 is an [*Error] whose Outcome
// says forbidden, unknown or conflict.
func (c *Client) Ack(ctx context.Context, a Ack) (Acked, error) {
	var out Acked
	err := c.do(ctx, http.MethodPost, "/acks", nil, a, &out)
	return out, err
}

// AckAll sends up to 1,000 acks; each is answered for itself.
func (c *Client) AckAll(ctx context.Context, acks []Ack) ([]Acked, error) {
	var out []Acked
	if acks == nil {
		acks = []Ack{}
	}
	err := c.do(ctx, http.MethodPost, "/acks", nil, acks, &out)
	return out, err
}

// Action reads an action. With wait it answers when the action is settled, or
// after that (at most 60 s) as it is then.
func (c *Client) Action(ctx context.Context, id string, wait time.Duration) (Record, error) {
	var out Record
	err := c.do(ctx, http.MethodGet, "/v1/actions/"+url.PathEscape(id), waitQuery(wait), nil, &out)
	return out, err
}

// ActionFilter selects actions of a list. Its zero value selects all.
type ActionFilter struct {
	States                               []string
	MachineID, SessionID, ReplayID, Type string
	Labels                               map[string]string
	Limit                                int // 0: the server's default, 50
	Cursor                               string
}

// Actions lists actions, newest first.
func (c *Client) Actions(ctx context.Context, f ActionFilter) (List[Record], error) {
	q := url.Values{}
	for _, state := range f.States {
		q.Add("state", state)
	}
	for key, value := range f.Labels {
		q.Add("label", key+":"+value)
	}
	set(q, "machine_id", f.MachineID)
	set(q, "session_id", f.SessionID)
	set(q, "replay_id", f.ReplayID)
	set(q, "type", f.Type)
	page(q, f.Limit, f.Cursor)
	var out List[Record]
	err := c.do(ctx, http.MethodGet, "/v1/actions", q, nil, &out)
	return out, err
}

// Queue tells the whole of the server at a glance.
func (c *Client) Queue(ctx context.Context) (Queue, error) {
	var out Queue
	err := c.do(ctx, http.MethodGet, "/queue", nil, nil, &out)
	return out, err
}

// Watchdog reads the watchdog's counters.
func (c *Client) Watchdog(ctx context.Context) (Watchdog, error) {
	var out struct {
		Watchdog Watchdog `json:"watchdog"`
	}
	err := c.do(ctx, http.MethodGet, "/v1/watchdog/metrics", nil, nil, &out)
	return out.Watchdog, err
}

// Ready tells whether the server takes work.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/readyz", nil, nil, nil)
}

// Subscription says how to subscribe or to poll.
type Subscription struct {
	MachineID     string
	InstanceID    string
	MaxInFlight   *int
	OrphanTimeout time.Duration // 0: the server's
	LastEventID   string
}

func (s Subscription) query() url.Values {
	q := url.Values{"machine_id": {s.MachineID}}
	set(q, "instance_id", s.InstanceID)
	if s.MaxInFlight != nil {
		q.Set("max_in_flight", strconv.Itoa(*s.MaxInFlight))
	}
	if s.OrphanTimeout > 0 {
		q.Set("orphan_timeout_s", seconds(s.OrphanTimeout))
	}
	return q
}

// Subscribe opens a machine's event stream: the body of the answer, which the
// caller reads with package stream's decoder and closes. An HTTP client with a
// Timeout would cut it; give one without.
func (c *Client) Subscribe(ctx context.Context, s Subscription) (*http.Response, error) {
	req, err := c.request(ctx, http.MethodGet, "/events", s.query(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	return c.open(req, s)
}

// Feed opens the stream of what changes, for dashboards: the body of the answer,
// which the caller reads with package stream's decoder and closes. It begins with
// now. An HTTP client with a Timeout would cut it; give one without.
func (c *Client) Feed(ctx context.Context) (*http.Response, error) {
	req, err := c.request(ctx, http.MethodGet, "/v1/feed", nil, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	return c.open(req, Subscription{})
}

// Next asks for the next action by poll: the answer is 200 with its envelope, or
// 204. The caller closes its body.
func (c *Client) Next(ctx context.Context, s Subscription, wait time.Duration) (*http.Response, error) {
	q := s.query()
	q.Set("wait_s", seconds(wait))
	req, err := c.request(ctx, http.MethodPost, "/next", q, nil)
	if err != nil {
		return nil, err
	}
	return c.open(req, s)
}

func (c *Client) open(req *http.Request, s Subscription) (*http.Response, error) {
	if s.LastEventID != "" {
		req.Header.Set("Last-Event-ID", s.LastEventID)
	}
	return c.answer(req)
}

// IsStatus tells whether err is a refusal with one of the statuses.
func IsStatus(err error, statuses ...int) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains(statuses, e.Status)
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func page(q url.Values, limit int, cursor string) {
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	set(q, "cursor", cursor)
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}

func waitQuery(wait time.Duration) url.Values {
	if wait <= 0 {
		return nil
	}
	return url.Values{"wait_s": {seconds(wait)}}
}
