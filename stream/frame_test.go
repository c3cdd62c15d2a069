package stream_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/ackstore"
	"pushd/stream"
)

var noon = time.Date(2026, 11, 30, 13, 0, 0, 7_654_321, time.FixedZone("CET", 3600))

func sample() ackstore.Dispatch {
	return ackstore.Dispatch{
		ActionID: "a2", MachineID: "M", SessionID: "s", ReplayID: "r", Type: "click",
		Payload: []byte(`{"x":1.50,"u":"\u00e9\/"}`), Delivery: 1, EventID: 42,
		Labels:       map[string]string{"k": "v", "a": `"`},
		DispatchedAt: noon, AckBy: noon.Add(15 * time.Second),
	}
}

func TestFramesAreThoseOfTheProtocol(t *testing.T) {
	bare := ackstore.Dispatch{ActionID: "a", MachineID: "m", Type: "t", Guarantee: ackstore.AtMostOnce, Delivery: 3, EventID: 1<<64 - 1, Resent: 1, Attempts: 2, TransientAttempts: 4, DispatchedAt: noon}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"hello": {
			stream.AppendHello(nil, stream.Hello{
				Retry: 2713 * time.Millisecond, MachineID: "M", StreamID: "st", Now: noon, Heartbeat: 15 * time.Second, Credit: 1,
				OrphanTimeout: 33500 * time.Millisecond, InFlight: []ackstore.Held{{ActionID: "a1", Delivery: 2}, {ActionID: "a2", Delivery: 1, Cancel: true}},
			}),
			"retry: 2713\nevent: hello\ndata: {\"machine_id\":\"M\",\"stream_id\":\"st\",\"server_time\":\"2026-11-30T12:00:00.007Z\",\"heartbeat_s\":15,\"max_in_flight\":1,\"orphan_timeout_s\":33.5," +
				"\"in_flight\":[{\"action_id\":\"a1\",\"delivery\":2,\"cancel\":false},{\"action_id\":\"a2\",\"delivery\":1,\"cancel\":true}]}\n\n",
		},
		"hello with nothing in flight": {
			stream.AppendHello(nil, stream.Hello{Retry: time.Second, MachineID: "M", StreamID: "st", Now: noon, Heartbeat: 800 * time.Millisecond, OrphanTimeout: time.Minute}),
			"retry: 1000\nevent: hello\ndata: {\"machine_id\":\"M\",\"stream_id\":\"st\",\"server_time\":\"2026-11-30T12:00:00.007Z\",\"heartbeat_s\":0.8,\"max_in_flight\":0,\"orphan_timeout_s\":60,\"in_flight\":[]}\n\n",
		},
		"action": {
			stream.AppendAction(nil, sample()),
			"id: 42\nevent: action\ndata: {\"action_id\":\"a2\",\"delivery\":1,\"machine_id\":\"M\",\"session_id\":\"s\",\"replay_id\":\"r\",\"type\":\"click\",\"payload\":{\"x\":1.50,\"u\":\"\\u00e9\\/\"}," +
				"\"guarantee\":\"at_least_once\",\"resent_count\":0,\"attempts\":0,\"transient_attempts\":0,\"dispatched_at\":\"2026-11-30T12:00:00.007Z\",\"ack_by\":\"2026-11-30T12:00:15.007Z\",\"labels\":{\"a\":\"\\\"\",\"k\":\"v\"}}\n\n",
		},
		"an action with what may be absent left out": {
			stream.AppendAction(nil, bare),
			"id: 18446744073709551615\nevent: action\ndata: {\"action_id\":\"a\",\"delivery\":3,\"machine_id\":\"m\",\"type\":\"t\",\"payload\":null,\"guarantee\":\"at_most_once\",\"resent_count\":1,\"attempts\":2,\"transient_attempts\":4,\"dispatched_at\":\"2026-11-30T12:00:00.007Z\",\"labels\":{}}\n\n",
		},
		"a poll's answer": {
			stream.AppendEnvelope(nil, bare, true),
			"{\"action_id\":\"a\",\"delivery\":3,\"machine_id\":\"m\",\"type\":\"t\",\"payload\":null,\"guarantee\":\"at_most_once\",\"resent_count\":1,\"attempts\":2,\"transient_attempts\":4,\"dispatched_at\":\"2026-11-30T12:00:00.007Z\",\"labels\":{},\"event_id\":18446744073709551615}",
		},
		"heartbeat":    {stream.AppendHeartbeat(nil, noon), "event: hb\ndata: {\"server_time\":\"2026-11-30T12:00:00.007Z\"}\n\n"},
		"cancel":       {stream.AppendCancel(nil, ackstore.CancelNote{ActionID: "a2", Delivery: 1, Reason: "a\n\"b\""}), "event: cancel\ndata: {\"action_id\":\"a2\",\"delivery\":1,\"reason\":\"a\\u000a\\\"b\\\"\"}\n\n"},
		"bye shutdown": {stream.AppendBye(nil, stream.Bye{Reason: stream.ByeShutdown, Retry: 2300 * time.Millisecond, Address: "x"}), "event: bye\ndata: {\"reason\":\"shutdown\",\"retry_ms\":2300}\n\n"},
		"bye recycle":  {stream.AppendBye(nil, stream.Bye{Reason: stream.ByeRecycle, Retry: 1}), "event: bye\ndata: {\"reason\":\"recycle\",\"retry_ms\":0}\n\n"},
		"bye replaced": {stream.AppendBye(nil, stream.Bye{Reason: stream.ByeReplaced, Retry: time.Second, Address: "10.0.0.1:99"}), "event: bye\ndata: {\"reason\":\"replaced\",\"address\":\"10.0.0.1:99\"}\n\n"},
		"bye revoked":  {stream.AppendBye(nil, stream.Bye{Reason: stream.ByeRevoked, Retry: time.Second, Address: "x"}), "event: bye\ndata: {\"reason\":\"revoked\"}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, string(c.got))
		})
	}
}

func TestFramesAppend(t *testing.T) {
	got := stream.AppendHeartbeat([]byte("before"), noon)
	require.True(t, bytes.HasPrefix(got, []byte("beforeevent: hb\n")))
}

// Whatever an action holds, its frame is one event with one line of valid JSON
// that says the same.
func TestNoActionBreaksItsFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("\r\n\x00\"\\:\u2028\ufeff\x7f<&"))))
		value := rapid.OneOf(rapid.Map(text, func(s string) any { return s }), rapid.Just(any(map[string]any{"a": []any{1.5, nil, "\n"}})))
		payload, err := json.MarshalIndent(value.Draw(t, "payload"), "", rapid.SampledFrom([]string{"", "\r\n"}).Draw(t, "indent"))
		require.NoError(t, err)
		d := ackstore.Dispatch{
			ActionID: text.Draw(t, "id"), MachineID: text.Draw(t, "machine"), SessionID: text.Draw(t, "session"), Type: text.Draw(t, "type"),
			Payload: payload, EventID: rapid.Uint64().Draw(t, "event id"), Labels: rapid.MapOf(text, text).Draw(t, "labels"), DispatchedAt: noon,
		}
		before := bytes.Clone(payload)
		frame := stream.AppendAction(nil, d)
		require.Equal(t, before, payload, "the caller's bytes are not touched")
		events, _, _ := readAll(bytes.NewReader(frame))
		require.Len(t, events, 1)
		require.Equal(t, "action", events[0].Type)
		require.NotContains(t, events[0].Data, "\n")
		var got struct {
			ID      string            `json:"action_id"`
			Machine string            `json:"machine_id"`
			Session string            `json:"session_id"`
			Payload json.RawMessage   `json:"payload"`
			Labels  map[string]string `json:"labels"`
		}
		require.NoError(t, json.Unmarshal([]byte(events[0].Data), &got))
		require.Equal(t, d.ActionID, got.ID)
		require.Equal(t, d.MachineID, got.Machine)
		require.Equal(t, d.SessionID, got.Session)
		require.JSONEq(t, string(payload), string(got.Payload))
		require.Equal(t, len(d.Labels), len(got.Labels))
		for k, v := range d.Labels {
			require.Equal(t, v, got.Labels[k])
		}
	})
}

func TestIllFormedTextIsReplacedNotPassedOn(t *testing.T) {
	frame := stream.AppendCancel(nil, ackstore.CancelNote{ActionID: "a\xffb\xc3", Reason: "\xe2\x80"})
	require.True(t, utf8.Valid(frame))
	require.Contains(t, string(frame), "a\ufffdb\ufffd")
}

func TestPayloadBytesAreKept(t *testing.T) {
	payload := []byte(`{"b":1e400,"a":"\ud800\u0000","a":-0.0,"<&>":"` + "\u2028\ufeff" + `"}`)
	d := sample()
	d.Payload = payload
	require.True(t, bytes.Contains(stream.AppendAction(nil, d), payload))
}

func BenchmarkAppendAction(b *testing.B) {
	d := sample()
	d.Payload = []byte(`"` + string(bytes.Repeat([]byte("x"), 1022)) + `"`)
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	b.SetBytes(int64(len(stream.AppendAction(nil, d))))
	for b.Loop() {
		buf = stream.AppendAction(buf[:0], d)
	}
}

func BenchmarkDecode(b *testing.B) {
	d := sample()
	d.Payload = []byte(`"` + string(bytes.Repeat([]byte("x"), 1022)) + `"`)
	frame := stream.AppendAction(nil, d)
	b.ReportAllocs()
	b.SetBytes(int64(len(frame)))
	dec := stream.NewDecoder(&endless{frame: frame})
	for b.Loop() {
		if _, err := dec.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

type endless struct {
	frame []byte
	at    int
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.frame[e.at:])
	e.at = (e.at + n) % len(e.frame)
	return n, nil
}
