package stream_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/stream"
)

func TestEventReadsBackAsItWas(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "an injected block": "a\n\nid: 9\ndata: x", "a comment": ":lead", "a leading space": " lead",
		"two leading spaces": "  lead", "NUL": "\x00", "line separator": "\u2028", "byte order mark": "\ufeff",
		"line feeds alone": "\n\n\n", "a trailing line feed": "a\n", "one MiB": strings.Repeat("x", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			roundTrip(t, stream.Event{ID: "7", Name: "action", Data: []byte(data), Retry: time.Second})
			roundTrip(t, stream.Event{Data: []byte(data)})
			roundTrip(t, stream.Event{ID: data, Name: data, Data: []byte("x")})
		})
	}
}

func TestEventRefusesWhatWouldNotReadBack(t *testing.T) {
	for name, e := range map[string]stream.Event{
		"CR in data":              {Data: []byte("a\rb")},
		"CRLF in data":            {Data: []byte("a\r\nb")},
		"LF in id":                {ID: "a\nb"},
		"CR in id":                {ID: "a\rb"},
		"NUL in id":               {ID: "a\x00"},
		"LF in name":              {Name: "a\nb"},
		"CR in name":              {Name: "a\r"},
		"NUL in name":             {Name: "\x00"},
		"ill-formed UTF-8":        {Data: []byte{0xff}},
		"ill-formed id":           {ID: "\xc3"},
		"a negative retry":        {Retry: -time.Second},
		"a retry in microseconds": {Retry: time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := e.AppendTo([]byte("before"))
			require.ErrorIs(t, err, stream.ErrUnencodable)
			require.Equal(t, "before", string(got), "nothing of it is written")
		})
	}
}

func TestEventsOfAnyKindReadBackInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 1, 8).Draw(t, "events")
		var wire []byte
		var want []stream.Event
		id := ""
		for _, e := range events {
			next, err := e.AppendTo(wire)
			if err != nil {
				require.ErrorIs(t, err, stream.ErrUnencodable)
				require.Len(t, next, len(wire))
				continue
			}
			wire = next
			if e.ID == "" {
				e.ID = id // inherited
			}
			id = e.ID
			want = append(want, e)
		}
		step := rapid.IntRange(1, 64).Draw(t, "step")
		d := stream.NewDecoder(&pieces{data: wire, size: step})
		for _, w := range want {
			got, err := d.Next()
			require.NoError(t, err)
			requireSameEvent(t, w, got)
		}
		_, err := d.Next()
		require.ErrorContains(t, err, "EOF")
	})
}

func drawEvent(t *rapid.T) stream.Event {
	text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\r\n\x00: \ufeffdatid"))))
	return stream.Event{
		ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Data: []byte(text.Draw(t, "data")),
		Retry: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "retry")) * time.Millisecond,
	}
}

func FuzzEventRoundTrip(f *testing.F) {
	f.Add("7", "action", []byte("{}"), uint32(0))
	f.Add("", "", []byte("a\n\nid: 9\ndata: x"), uint32(1000))
	f.Add("\ufeff", " x", []byte("\r"), uint32(1))
	f.Fuzz(func(t *testing.T, id, name string, data []byte, ms uint32) {
		e := stream.Event{ID: id, Name: name, Data: data, Retry: time.Duration(ms) * time.Millisecond}
		if _, err := e.AppendTo(nil); err != nil {
			return
		}
		roundTrip(t, e)
	})
}

func roundTrip(t require.TestingT, e stream.Event) {
	if strings.ContainsAny(e.ID, "\n\x00") {
		e.ID, e.Name = "", "" // refused, see above
	}
	wire, err := e.AppendTo(nil)
	require.NoError(t, err)
	d := stream.NewDecoder(bytes.NewReader(wire))
	got, err := d.Next()
	require.NoError(t, err)
	requireSameEvent(t, e, got)
	_, err = d.Next()
	require.ErrorContains(t, err, "EOF")
}

func requireSameEvent(t require.TestingT, want, got stream.Event) {
	require.Equal(t, want.ID, got.ID)
	require.Equal(t, want.Name, got.Name)
	require.Equal(t, want.Retry, got.Retry)
	require.True(t, bytes.Equal(want.Data, got.Data), "data %q, want %q", got.Data, want.Data)
}
