package task

import (
	"encoding/json"
	"errors"
	"fmt"

	"pushd/policy"
	"pushd/server/api"
)

// Action is an action as an event or a poll's answer brings it (protocol 6, 10).
type Action struct {
	ActionID          string            `json:"action_id"`
	Delivery          int               `json:"delivery"`
	MachineID         string            `json:"machine_id,omitempty"`
	SessionID         string            `json:"session_id,omitempty"`
	ReplayID          string            `json:"replay_id,omitempty"`
	Type              string            `json:"type"`
	Payload           json.RawMessage   `json:"payload,omitempty"`
	Guarantee         string            `json:"guarantee,omitempty"`
	ResentCount       int               `json:"resent_count"`
	Attempts          int               `json:"attempts"`
	TransientAttempts int               `json:"transient_attempts"`
	DispatchedAt      api.Time          `json:"dispatched_at,omitzero"`
	AckBy             api.Time          `json:"ack_by,omitzero"`
	Labels            map[string]string `json:"labels,omitempty"`
	EventID           uint64            `json:"event_id,omitempty"` // of a poll
	Traceparent       string            `json:"traceparent,omitempty"`
}

// ErrUnreadable is why ParseAction refuses an envelope.
var ErrUnreadable = errors.New("task: not an action")

// ParseAction reads an envelope. Fields it does not know are a newer server's.
func ParseAction(raw []byte) (Action, error) {
	var a Action
	if err := json.Unmarshal(raw, &a); err != nil {
		return Action{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if a.ActionID == "" || a.Type == "" || a.Delivery < 1 {
		return Action{}, fmt.Errorf("%w: no action_id, type or delivery", ErrUnreadable)
	}
	return a, nil
}

// Job is one execution of an action.
type Job struct {
	Action
	RunID string // marks the processes of this execution; no other ever bears it
}

// Verdict is how an execution ended.
type Verdict struct {
	policy.Outcome
	Message string // of Failed
	Result  json.RawMessage
}

// Failed is a verdict without a result.
func Failed(kind policy.Kind, code, message string) Verdict {
	return Verdict{Outcome: policy.Outcome{Status: policy.Failed, Kind: kind, Code: code}, Message: message}
}

// Why work is stopped: the cause of its context.
var (
	ErrCancelled = errors.New("task: cancelled") // the server asks
	ErrStopping  = errors.New("task: the agent stops")
)
