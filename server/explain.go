package server

import (
	"fmt"
	"strings"
	"time"

	"pushd/ackstore"
)

// predicament is all that an answer to "why is it not moving?" is made of.
type predicament struct {
	waiting ackstore.Waiting
	machine string // whose queue it waits in
	now     time.Time
}

// explain says in one sentence what an action waits for and, where somebody can
// do something about it, what. It knows nothing but its argument.
func explain(p predicament) string {
	w := &p.waiting
	again := ""
	if w.Resend {
		again = "It was lost on the way and is to be sent again. "
	}
	switch w.Reason {
	case "draining":
		return again + "The server is stopping; it goes on when the server is started again."
	case "paused":
		return again + explainPause(w.Hold, p.now)
	case "lane":
		return again + fmt.Sprintf("Action %s is in front of it in its session, and a session goes in order.", w.ActionID)
	case "available_at":
		return again + fmt.Sprintf("It is not due before %s, %s.", instantText(w.Until), ahead(w.Until, p.now))
	case "breaker_open":
		return again + explainBreaker(w, p.now)
	case "machine_offline":
		return again + fmt.Sprintf("Machine %s has no stream open and no poll waiting; it is sent when the machine's agent connects.", p.machine)
	case "machine_suspect":
		return again + fmt.Sprintf("Machine %s has a stream, and its agent has stopped beating; it is sent at the next beat, ack or subscription.", p.machine)
	case "credit":
		return again + explainCredit(w.InFlight, p.machine)
	}
	return again + fmt.Sprintf("It waits for %s.", w.Reason)
}

// pauseCauses are what the causes of a pause mean to a person.
var pauseCauses = map[string]string{
	"operator":  "is paused",
	"on_dead":   "is paused because action %s ended badly",
	"need_help": "is paused because its actions are taken and never answered: somebody must look",
}

func explainPause(h *ackstore.Hold, now time.Time) string {
	if h == nil {
		return "It is paused."
	}
	thing := fmt.Sprintf("%s %s", capital(string(h.Scope)), h.ID)
	resume := fmt.Sprintf("pushctl resume %s %s", h.Scope, h.ID)
	if h.MachineID != "" && h.Scope != ackstore.OfMachine {
		thing += " on machine " + h.MachineID
	}
	var b strings.Builder
	b.WriteString(thing + " ")
	switch cause := pauseCauses[h.Cause]; {
	case h.Cause == "on_dead":
		fmt.Fprintf(&b, cause, h.ActionID)
	case cause == "":
		b.WriteString("is paused (" + h.Cause + ")")
	default:
		b.WriteString(cause)
	}
	if h.By != "" {
		b.WriteString(", by " + h.By)
	}
	if !h.Since.IsZero() {
		b.WriteString(", since " + instantText(h.Since))
	}
	if h.Note != "" {
		fmt.Fprintf(&b, " (%s)", oneLine(h.Note))
	}
	if h.Until.IsZero() {
		return b.String() + "; `" + resume + "` lets it go on."
	}
	return b.String() + fmt.Sprintf("; it goes on by itself at %s, %s, or by `%s`.", instantText(h.Until), ahead(h.Until, now), resume)
}

func explainBreaker(w *ackstore.Waiting, now time.Time) string {
	door := "The breaker of machine " + w.MachineID
	switch {
	case w.Target != "" && w.MachineID != "":
		door = fmt.Sprintf("The breaker of %s on machine %s", w.Target, w.MachineID)
	case w.Target != "":
		door = "The breaker of " + w.Target
	}
	switch {
	case w.ActionID != "":
		return fmt.Sprintf("%s lets one action through as a probe, and action %s is that one.", door, w.ActionID)
	case w.Until.IsZero():
		return fmt.Sprintf("%s is open, for such work cannot be done there as things are; it closes when the agent starts anew, or by `%s`.", door, closing(w))
	}
	return fmt.Sprintf("%s is open after failures until %s, %s; `%s` closes it now.", door, instantText(w.Until), ahead(w.Until, now), closing(w))
}

func closing(w *ackstore.Waiting) string {
	return strings.Join(strings.Fields("pushctl breaker close "+w.MachineID+" "+w.Target), " ")
}

// namedMost is how many ids a sentence can bear.
const namedMost = 3

func explainCredit(inFlight []string, machine string) string {
	switch len(inFlight) {
	case 0:
		return fmt.Sprintf("Machine %s takes nothing now: its max_in_flight is 0.", machine)
	case 1:
		return fmt.Sprintf("Machine %s has all it takes at a time: action %s is in flight.", machine, inFlight[0])
	}
	shown, rest := inFlight, ""
	if len(inFlight) > namedMost {
		shown, rest = inFlight[:namedMost], fmt.Sprintf(" and %d more", len(inFlight)-namedMost)
	}
	return fmt.Sprintf("Machine %s has all it takes at a time: actions %s%s are in flight.", machine, strings.Join(shown, ", "), rest)
}

// explainMachine is the same sentence for a machine: the first that holds back
// all of its queue, or that nothing does.
func explainMachine(m *ackstore.Machine, draining bool, now time.Time) string {
	p := predicament{machine: m.ID, now: now}
	switch {
	case draining:
		p.waiting.Reason = "draining"
	case m.Queued == 0 && m.InFlight == 0:
		return fmt.Sprintf("Nothing waits for machine %s, which is %s.", m.ID, m.Presence)
	case m.Queued == 0:
		return fmt.Sprintf("Nothing waits for machine %s; %s.", m.ID, inFlightOf(m))
	case len(m.Holds) > 0:
		p.waiting.Reason, p.waiting.Hold = "paused", &m.Holds[0]
	case wholeBreaker(m) != nil:
		b := wholeBreaker(m)
		p.waiting = ackstore.Waiting{Reason: "breaker_open", MachineID: b.MachineID, Target: b.Target, Until: b.Until, ActionID: b.Probe}
	case m.Presence == ackstore.Offline || m.Presence == ackstore.Grace:
		return fmt.Sprintf("%s for machine %s, which has no stream open and no poll waiting%s; they are sent when its agent connects.",
			actionsWait(m.Queued), m.ID, sinceText(m.Since))
	case m.Presence == ackstore.Suspect:
		return fmt.Sprintf("%s for machine %s, whose agent has stopped beating%s; they are sent at its next beat, ack or subscription.",
			actionsWait(m.Queued), m.ID, sinceText(m.Since))
	case m.Credit == 0:
		return fmt.Sprintf("%s for machine %s, which takes nothing now: its max_in_flight is 0%s.", actionsWait(m.Queued), m.ID, reasonText(m.CreditReason))
	case m.InFlight >= m.Credit:
		return fmt.Sprintf("%s for machine %s, which has all it takes at a time; %s.", actionsWait(m.Queued), m.ID, inFlightOf(m))
	default:
		return fmt.Sprintf("%s for machine %s, each for its time, its session or its target; %s.", actionsWait(m.Queued), m.ID, inFlightOf(m))
	}
	return explain(p)
}

// reasonText is a reason that somebody gave, in brackets.
func reasonText(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// wholeBreaker is an open breaker that holds all of a machine's work.
func wholeBreaker(m *ackstore.Machine) *ackstore.Breaker {
	for i := range m.Breakers {
		if b := &m.Breakers[i]; b.Target == "" {
			return b
		}
	}
	return nil
}

func actionsWait(n int) string {
	if n == 1 {
		return "1 action waits"
	}
	return fmt.Sprintf("%d actions wait", n)
}

func inFlightOf(m *ackstore.Machine) string {
	return fmt.Sprintf("%d of %d are in flight", m.InFlight, m.Credit)
}

func sinceText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + instantText(t)
}

func instantText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// ahead says how far an instant lies in the future.
func ahead(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case d <= 0:
		return "which is now"
	case d < time.Minute:
		return "in " + d.Round(100*time.Millisecond).String()
	case d < 48*time.Hour:
		text := d.Round(time.Second).String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return "in " + text
	}
	return fmt.Sprintf("in %d days", int(d.Hours()/24))
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// oneLine keeps what a person wrote within one sentence.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
