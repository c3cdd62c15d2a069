package api

import "encoding/json"

// Push is one action as it is sent to POST /v1/actions. What is not set is left
// out, so that the server's defaults hold and a repeat compares as it was sent.
type Push struct {
	ActionID             string            `json:"action_id,omitempty"`
	MachineID            string            `json:"machine_id"`
	SessionID            string            `json:"session_id,omitempty"`
	ReplayID             string            `json:"replay_id,omitempty"`
	Type                 string            `json:"type"`
	Payload              json.RawMessage   `json:"payload,omitempty"`
	Priority             int               `json:"priority,omitempty"`
	Guarantee            string            `json:"guarantee,omitempty"` // at_least_once, at_most_once
	AvailableAt          Time              `json:"available_at,omitzero"`
	DelayS               *Seconds          `json:"delay_s,omitempty"`
	ExpiresAt            Time              `json:"expires_at,omitzero"`
	TTLS                 *Seconds          `json:"ttl_s,omitempty"`
	OrphanTimeoutS       *Seconds          `json:"orphan_timeout_s,omitempty"`
	InactivityTimeoutS   *Seconds          `json:"inactivity_timeout_s,omitempty"`
	CeilingS             *Seconds          `json:"ceiling_s,omitempty"`
	MaxResends           *int              `json:"max_resends,omitempty"`
	MaxAttempts          *int              `json:"max_attempts,omitempty"`
	TransientMaxAttempts *int              `json:"transient_max_attempts,omitempty"`
	Target               string            `json:"target,omitempty"`
	OnDead               string            `json:"on_dead,omitempty"` // pause, skip
	Labels               map[string]string `json:"labels,omitempty"`
}

// Pushed answers one pushed action.
type Pushed struct {
	ActionID     string `json:"action_id"`
	State        string `json:"state"`
	Seq          uint64 `json:"seq"`
	Deduplicated bool   `json:"deduplicated"`
	Machine      string `json:"machine,omitempty"` // "unknown" if it has never subscribed
}

// PushedLine answers one line of an NDJSON push: a Pushed, or Line and Error.
type PushedLine struct {
	ActionID     string   `json:"action_id,omitempty"`
	State        string   `json:"state,omitempty"`
	Seq          uint64   `json:"seq,omitempty"`
	Deduplicated bool     `json:"deduplicated,omitempty"`
	Machine      string   `json:"machine,omitempty"`
	Line         int      `json:"line,omitempty"`
	Error        *Problem `json:"error,omitempty"`
}

// LineError answers an NDJSON line that was refused.
type LineError struct {
	Line  int     `json:"line"`
	Error Problem `json:"error"`
}

// Record is an action as management shows it. An item of a list has no payload,
// result or timeline.
type Record struct {
	ActionID  string            `json:"action_id"`
	MachineID string            `json:"machine_id"`
	SessionID string            `json:"session_id,omitempty"`
	ReplayID  string            `json:"replay_id,omitempty"`
	Type      string            `json:"type"`
	Target    string            `json:"target,omitempty"`
	Payload   json.RawMessage   `json:"payload,omitempty"`
	Priority  int               `json:"priority"`
	Guarantee string            `json:"guarantee"`
	OnDead    string            `json:"on_dead"`
	Labels    map[string]string `json:"labels"`
	// Traceparent is that of the push, as W3C Trace Context has it.
	Traceparent string `json:"traceparent,omitempty"`

	OrphanTimeoutS       *Seconds `json:"orphan_timeout_s,omitempty"`
	InactivityTimeoutS   *Seconds `json:"inactivity_timeout_s,omitempty"`
	CeilingS             *Seconds `json:"ceiling_s,omitempty"`
	MaxResends           int      `json:"max_resends"`
	MaxAttempts          int      `json:"max_attempts"`
	TransientMaxAttempts int      `json:"transient_max_attempts"`

	State      string   `json:"state"`
	Seq        uint64   `json:"seq"`
	WaitingFor *Waiting `json:"waiting_for,omitempty"`

	Delivery          int     `json:"delivery,omitempty"` // number of the newest; absent before the first
	Deliveries        int     `json:"deliveries"`
	ResentCount       int     `json:"resent_count"`
	Resends           Resends `json:"resends"`
	Attempts          int     `json:"attempts"`
	TransientAttempts int     `json:"transient_attempts"`
	QuotaWaits        int     `json:"quota_waits"`
	ConfigWaits       int     `json:"config_waits"`

	CreatedAt         Time `json:"created_at"`
	AvailableAt       Time `json:"available_at,omitzero"`
	ExpiresAt         Time `json:"expires_at,omitzero"`
	FirstDispatchedAt Time `json:"first_dispatched_at,omitzero"`
	DispatchedAt      Time `json:"dispatched_at,omitzero"`
	LastResentAt      Time `json:"last_resent_at,omitzero"`
	ReceivedAt        Time `json:"received_at,omitzero"`
	LastActivityAt    Time `json:"last_activity_at,omitzero"`
	SettledAt         Time `json:"settled_at,omitzero"`

	CancelAskedAt   Time  `json:"cancel_asked_at,omitzero"`
	CancelConfirmed *bool `json:"cancel_confirmed,omitempty"`

	Result      json.RawMessage `json:"result,omitempty"`
	Error       *Failure        `json:"error,omitempty"`
	Progress    *Progress       `json:"progress,omitempty"`
	Note        string          `json:"note,omitempty"` // of the operator who resolved it
	Late        bool            `json:"late"`
	Timeline    []Entry         `json:"timeline,omitempty"`
	TimelineCut int             `json:"timeline_cut,omitempty"` // entries dropped from its middle
}

// Resends counts what was lost in transport and sent again, by cause.
type Resends struct {
	Timeout    int `json:"timeout"`
	Disconnect int `json:"disconnect"`
}

// Waiting is why an action is not dispatched. Explanation says it in one sentence.
type Waiting struct {
	Explanation string `json:"explanation"`

	Reason    string   `json:"reason"`
	Resend    bool     `json:"resend"`
	Scope     string   `json:"scope,omitempty"` // of paused
	ID        string   `json:"id,omitempty"`    // of paused
	Cause     string   `json:"cause,omitempty"` // of paused
	Note      string   `json:"note,omitempty"`  // of paused
	ActionID  string   `json:"action_id,omitempty"`
	InFlight  []string `json:"in_flight,omitempty"` // of credit
	MachineID string   `json:"machine_id,omitempty"`
	Target    string   `json:"target,omitempty"`
	Until     Time     `json:"until,omitzero"`
}

// Entry is one line of a timeline.
type Entry struct {
	At       Time   `json:"at"`
	Event    string `json:"event"`
	Delivery int    `json:"delivery,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// Failure is why an execution failed.
type Failure struct {
	Kind    string `json:"kind,omitempty"` // error, transient, quota, config, permanent
	Message string `json:"message,omitempty"`
	Code    string `json:"code,omitempty"`
}

// Progress is what a working agent tells of itself.
type Progress struct {
	Percent *float64 `json:"percent,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// List is a page: NextCursor asks for the one after it.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor,omitempty"`
}
