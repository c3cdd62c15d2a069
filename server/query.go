package server

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pushd/ackstore"
)

// query is a request's parameters being read: each getter takes one and notes
// what is wrong with it.
type query struct {
	values url.Values
	faults *faults
}

// several are the parameters that may be given more than once.
var several = []string{"state", "label"}

// parseQuery refuses parameters that are not known, or come twice.
func parseQuery(raw string, known []string) (*query, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, refuse(malformed, "the query string cannot be read")
	}
	q := &query{values, &faults{}}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case !slices.Contains(known, name):
			q.faults.add(cutName(name), "is no parameter here%s", meant(name, known))
		case len(values[name]) > 1 && !slices.Contains(several, name):
			q.faults.add(name, "is given %d times", len(values[name]))
		}
	}
	return q, q.faults.err()
}

func (q *query) has(name string) bool { return q.values.Has(name) }

func (q *query) id(name string) string {
	s := q.values.Get(name)
	if q.has(name) && !idForm.MatchString(s) {
		q.faults.add(name, "%s, is %s", idMessage, quote(s))
		return ""
	}
	return s
}

// machine is the id of the machine that a stream or a poll is for.
func (q *query) machine() string {
	const name = "machine_id"
	if !q.has(name) {
		q.faults.add(name, "is required")
		return ""
	}
	s := q.id(name)
	if strings.HasPrefix(s, "pool:") {
		q.faults.add(name, "%s: ids that begin with pool: are reserved", quote(s))
	}
	return s
}

func (q *query) actionType() string {
	s := q.values.Get("type")
	if q.has("type") && !typeForm.MatchString(s) {
		q.faults.add("type", "must be 1 to 64 of A-Z a-z 0-9 . _ -, is %s", quote(s))
	}
	return s
}

func (q *query) whole(name string, low, high, absent int) int {
	if !q.has(name) {
		return absent
	}
	text := q.values.Get(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		q.faults.add(name, "must be a whole number from %d to %d, is %s", low, high, quote(text))
		return absent
	}
	return n
}

// seconds is a duration of at most high; 0 is no bound.
func (q *query) seconds(name string, high time.Duration) time.Duration {
	if !q.has(name) {
		return 0
	}
	text := q.values.Get(name)
	d, wrong := parseSeconds(text)
	if wrong == "" && high > 0 && d > high {
		wrong = "must be at most " + strconv.Itoa(int(high/time.Second))
	}
	if wrong != "" {
		q.faults.add(name, "%s, is %s", wrong, quote(text))
		return 0
	}
	return d
}

func (q *query) states() []ackstore.State {
	var states []ackstore.State
	for _, text := range q.values["state"] {
		var s ackstore.State
		if err := s.UnmarshalText([]byte(text)); err != nil {
			q.faults.add("state", "is no state: %s", quote(text))
			continue
		}
		states = append(states, s)
	}
	return states
}

// labels are pairs key:value; the key ends at the first colon.
func (q *query) labels() map[string]string {
	var labels map[string]string
	for _, text := range q.values["label"] {
		key, value, found := strings.Cut(text, ":")
		if !found {
			q.faults.add("label", "must be key:value, is %s", quote(text))
			continue
		}
		if was, twice := labels[key]; twice && was != value {
			q.faults.add("label", "asks for two values of %s", quote(key))
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels
}

// limit is how long a page may be.
func (q *query) limit() int { return q.whole("limit", 1, 1000, 50) }
