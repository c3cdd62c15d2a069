package alert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"pushd/ackstore"
)

// shownMost is how many alerts a message spells out.
const shownMost = 5

// Message is what a receiver is told at once.
type Message struct {
	Title    string    `json:"title"`
	Text     string    `json:"text"`
	At       time.Time `json:"at"`
	Count    int       `json:"count"`
	Resolved int       `json:"resolved"`
	More     int       `json:"more"` // that are not spelt out
	Events   []Event   `json:"events"`
}

// ledger is what one receiver was told, and will be.
type ledger struct {
	gather, every time.Duration

	fresh  []Event         // to be told
	place  map[string]int  // of a key in fresh
	open   map[string]Kind // told, and not passed
	passed []Event         // to be told that they have
	flood  map[Kind]int    // fresh ones beyond what is kept
	dueAt  time.Time
	lastAt time.Time
}

// keptMost bounds the memory of a flood: more are counted, not kept.
const keptMost = 1000

func newLedger(gather, every time.Duration) *ledger {
	return &ledger{gather: gather, every: every, place: map[string]int{}, open: map[string]Kind{}, flood: map[Kind]int{}}
}

// letter is m on its way to a receiver.
func (m *Message) letter(to string) ackstore.Letter {
	body, _ := json.Marshal(m) // of our own words
	return ackstore.Letter{To: to, ID: "msg_" + uuid.NewString(), Body: body}
}

// add takes an event. What passes before it was told is forgotten.
func (l *ledger) add(e Event, now time.Time) {
	if e.Passed {
		l.pass(e)
	} else if _, known := l.open[e.Key]; !known {
		l.fire(e)
	}
	if l.dueAt.IsZero() && len(l.fresh)+len(l.passed) > 0 {
		l.dueAt = now.Add(l.gather)
		if next := l.lastAt.Add(l.every); !l.lastAt.IsZero() && l.dueAt.Before(next) {
			l.dueAt = next
		}
	}
}

func (l *ledger) fire(e Event) {
	// What was to be told as passed and is back has not passed. It is still open, so
	// that its end is told if it goes before that.
	if i := slices.IndexFunc(l.passed, func(p Event) bool { return p.Key == e.Key }); i >= 0 {
		l.open[e.Key] = l.passed[i].Kind
		l.passed = slices.Delete(l.passed, i, i+1)
	}
	if i, waiting := l.place[e.Key]; waiting {
		l.fresh[i] = e
		return
	}
	if len(l.fresh) == keptMost {
		l.flood[e.Kind]++
		return
	}
	l.place[e.Key] = len(l.fresh)
	l.fresh = append(l.fresh, e)
}

func (l *ledger) pass(e Event) {
	if i, waiting := l.place[e.Key]; waiting {
		l.fresh = append(l.fresh[:i:i], l.fresh[i+1:]...)
		delete(l.place, e.Key)
		for j := i; j < len(l.fresh); j++ {
			l.place[l.fresh[j].Key] = j
		}
	}
	if kind, told := l.open[e.Key]; told {
		e.Kind = kind
		delete(l.open, e.Key)
		l.passed = append(l.passed, e)
	}
	if len(l.fresh)+len(l.passed) == 0 {
		l.dueAt = time.Time{}
	}
}

// due is the message that is to be told now, or nil.
func (l *ledger) due(now time.Time) *Message {
	if now.Before(l.dueAt) {
		return nil
	}
	return l.all(now)
}

// all is the message of all that is to be told, due or not, or nil.
func (l *ledger) all(now time.Time) *Message {
	if l.dueAt.IsZero() {
		return nil
	}
	m := l.message(now)
	for _, e := range l.fresh {
		l.open[e.Key] = e.Kind
	}
	if len(l.open) > 10*keptMost { // nobody resolves failures one by one for ever
		clear(l.open)
	}
	l.fresh, l.passed, l.dueAt, l.lastAt = nil, nil, time.Time{}, now
	clear(l.place)
	clear(l.flood)
	return m
}

func (l *ledger) message(now time.Time) *Message {
	counts := map[Kind]int{}
	for _, e := range l.fresh {
		counts[e.Kind]++
	}
	m := &Message{At: now, Resolved: len(l.passed)}
	var heads []string
	for _, k := range kinds {
		if n := counts[k] + l.flood[k]; n > 0 {
			heads = append(heads, fmt.Sprintf("%d %s", n, k))
			m.Count += n
		}
	}
	if m.Resolved > 0 {
		heads = append(heads, fmt.Sprintf("%d resolved", m.Resolved))
	}
	m.Title = "pushd: " + strings.Join(heads, ", ")
	var lines []string
	for _, list := range [][]Event{l.fresh, l.passed} {
		for i, e := range list {
			if i == shownMost {
				break
			}
			m.Events = append(m.Events, e)
			lines = append(lines, e.Text)
		}
	}
	if m.More = m.Count + m.Resolved - len(m.Events); m.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", m.More))
	}
	m.Text = strings.Join(lines, "\n")
	return m
}
