package api

import (
	"fmt"
	"strings"
	"time"
)

// Problem is an error answer (RFC 9457).
type Problem struct {
	Type     string       `json:"type"`
	Title    string       `json:"title"`
	Status   int          `json:"status"`
	Detail   string       `json:"detail"`
	Errors   []FieldError `json:"errors,omitempty"`
	Reason   string       `json:"reason,omitempty"`    // of a beat: gone, replaced
	ActionID string       `json:"action_id,omitempty"` // whom a conflict or an act concerns
	Outcome  string       `json:"outcome,omitempty"`   // of a single ack: conflict, unknown, forbidden
	State    string       `json:"state,omitempty"`     // of the action, where that is why
}

// FieldError says what is wrong with one field of a request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is a request that the server refused.
type Error struct {
	Problem
	RetryAfter time.Duration // as the server asks; 0: it does not
}

func (e *Error) Error() string {
	text := e.Detail
	if text == "" {
		text = e.Title
	}
	var fields []string
	for _, f := range e.Errors {
		if text != f.Field+" "+f.Message { // the detail of a single fault is it
			fields = append(fields, f.Field+": "+f.Message)
		}
	}
	if len(fields) > 0 {
		text += " (" + strings.Join(fields, "; ") + ")"
	}
	return fmt.Sprintf("%d: %s", e.Status, text)
}
