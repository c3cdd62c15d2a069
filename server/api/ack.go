package api

import "encoding/json"

// Ack is an agent's word about an action, as it is sent to POST /acks.
type Ack struct {
	ActionID      string          `json:"action_id"`
	Status        string          `json:"status"` // received, working, done, failed, released, cancelled
	MachineID     string          `json:"machine_id,omitempty"`
	Delivery      int             `json:"delivery,omitempty"`
	ActivityToken *uint64         `json:"activity_token,omitempty"`
	Progress      *Progress       `json:"progress,omitempty"`
	Result        json.RawMessage `json:"result,omitempty"`
	Error         *Failure        `json:"error,omitempty"`
	RetryAfterS   *Seconds        `json:"retry_after_s,omitempty"`
	RetryAt       Time            `json:"retry_at,omitzero"`
	DelayS        *Seconds        `json:"delay_s,omitempty"`
}

// Acked answers one ack.
type Acked struct {
	ActionID    string `json:"action_id"`
	Outcome     string `json:"outcome"`
	State       string `json:"state,omitempty"`
	Cancel      bool   `json:"cancel,omitempty"`
	AvailableAt Time   `json:"available_at,omitzero"` // of a retry
}
