package alert

import (
	"fmt"
	"strings"
	"time"

	"pushd/ackstore"
)

// Event is one thing that is told, or has passed.
type Event struct {
	Kind    Kind      `json:"kind"`
	Key     string    `json:"key"` // what it is about; the same again is the same alert
	Text    string    `json:"text"`
	Machine string    `json:"machine_id,omitempty"`
	Action  string    `json:"action_id,omitempty"`
	At      time.Time `json:"at"`
	Passed  bool      `json:"resolved,omitempty"`
}

// eventOf is what a change says to people, if anything.
func eventOf(c *ackstore.Change) (Event, bool) {
	e := Event{Machine: c.MachineID, Action: c.ActionID, At: c.At}
	switch {
	case c.Event == "paused" || c.Event == "resumed":
		return pauseEvent(e, c)
	case strings.HasPrefix(c.Event, "breaker_"):
		return breakerEvent(e, c)
	case c.ActionID == "":
		return e, false
	case c.Event == "gave_up" && c.State == ackstore.GaveUp:
		e.Kind, e.Text = GaveUp, fmt.Sprintf("%s on %s was given up: %s", c.ActionID, c.MachineID, orNothing(c.Detail))
	case c.Event == "failed" && c.State == ackstore.Failed:
		e.Kind, e.Text = Failed, fmt.Sprintf("%s on %s failed: %s", c.ActionID, c.MachineID, orNothing(c.Detail))
	case c.Event == "in_doubt":
		e.Kind, e.Text = InDoubt, fmt.Sprintf("%s on %s is in doubt: it may have run, and is not sent again", c.ActionID, c.MachineID)
	case c.Event == "redriven", c.Event == "resolved", c.Event == "done", c.Event == "revived", c.Event == "cancelled":
		e.Passed, e.Text = true, fmt.Sprintf("%s on %s is %s", c.ActionID, c.MachineID, c.State)
	default:
		return e, false
	}
	e.Key = "action/" + c.ActionID
	return e, true
}

func orNothing(s string) string {
	if s == "" {
		return "nobody answered for it"
	}
	return s
}

// pauseEvent is of a session or machine that waits for help; other pauses are
// somebody's will.
func pauseEvent(e Event, c *ackstore.Change) (Event, bool) {
	words := strings.Fields(c.Detail) // scope, id, cause
	if len(words) != 3 || words[2] != ackstore.HeldNeedHelp {
		return e, false
	}
	e.Kind, e.Passed = NeedHelp, c.Event == "resumed"
	e.Key = "pause/" + words[0] + "/" + words[1] + "/" + c.MachineID
	what := words[0] + " " + words[1]
	if c.MachineID != "" && words[0] != string(ackstore.OfMachine) {
		what += " on " + c.MachineID
	}
	e.Text = what + " is paused and needs help"
	if e.Passed {
		e.Text = what + " goes on"
	}
	return e, true
}

func breakerEvent(e Event, c *ackstore.Change) (Event, bool) {
	where := strings.TrimSpace(c.MachineID + " " + c.Detail)
	e.Kind, e.Key = Breaker, "breaker/"+c.MachineID+"/"+c.Detail
	switch c.Event {
	case "breaker_open":
		e.Text = "the breaker of " + where + " is open"
	case "breaker_closed":
		e.Passed, e.Text = true, "the breaker of "+where+" is closed"
	default:
		return e, false
	}
	return e, true
}
