package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// TimeLayout is how an instant is spelt: RFC 3339, UTC, milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is an instant on the wire. The zero Time is left out with omitzero.
type Time struct{ time.Time }

// At makes a Time of an instant; the zero instant stays zero.
func At(t time.Time) Time { return Time{t} }

// String spells t as the wire does.
func (t Time) String() string { return t.UTC().Format(TimeLayout) }

// MarshalJSON spells t as the wire does, null if it is zero.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return strconv.AppendQuote(nil, t.String()), nil
}

// UnmarshalJSON reads an RFC 3339 time with a zone, or null.
func (t *Time) UnmarshalJSON(b []byte) error {
	var text *string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if text == nil {
		*t = Time{}
		return nil
	}
	parsed, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		return fmt.Errorf("api: %q is no RFC 3339 time with a zone", *text)
	}
	t.Time = parsed.UTC()
	return nil
}

// Seconds is a duration on the wire: a number of seconds, in fields ending _s.
type Seconds time.Duration

// S is a pointer to a duration, for the optional fields of [Push] and [Ack].
func S(d time.Duration) *Seconds {
	s := Seconds(d)
	return &s
}

// Duration is s as Go counts it.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// MarshalJSON writes s in seconds, with a fraction where there is one.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads a number of seconds.
func (s *Seconds) UnmarshalJSON(b []byte) error {
	var f float64
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*s = Seconds(f * float64(time.Second))
	return nil
}
