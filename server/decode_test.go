package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/ackstore"
	"pushd/server"
	"pushd/stream"
)

var (
	now  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	form = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$`)
)

func FuzzReadPushes(f *testing.F) {
	for _, seed := range []string{
		`{"action_id":"a","machine_id":"m","type":"t","payload":{"x":[1,"\ud800"]},"labels":{"k":"v"},"delay_s":1.5,"ttl_s":3}`,
		`[{"machine_id":"m","type":"t"},{"machine_id":"m","type":"t","available_at":"2031-01-01T00:00:00Z"}]`,
		`{"a\u0000":1,"machine_id":"m\n","type":" "}`, `[]`, `{"machine_id":"pool:x","type":"t","max_attempts":1e9}`, "{\"machine_id\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		actions, err := server.ReadPushes(body, now)
		if err != nil {
			require.Contains(t, []int{400, 413}, server.StatusOf(err))
			return
		}
		require.True(t, json.Valid(body))
		for _, a := range actions {
			require.Regexp(t, form, a.MachineID)
			require.NotNil(t, a.Labels)
			require.True(t, json.Valid(a.Payload))
			require.GreaterOrEqual(t, a.Delay, time.Duration(0))
			require.GreaterOrEqual(t, a.TTL, time.Duration(0))
		}
		// White space between tokens changes nothing.
		var spaced bytes.Buffer
		require.NoError(t, json.Indent(&spaced, body, " ", "\t"))
		again, err := server.ReadPushes(spaced.Bytes(), now)
		require.NoError(t, err)
		require.Equal(t, actions, again)
	})
}

func FuzzReadAcks(f *testing.F) {
	for _, seed := range []string{
		`{"action_id":"a","status":"done","result":{"x":1e400},"delivery":3}`, `[]`,
		`[{"action_id":"a","status":"failed","error":{"kind":"quota","message":"\ud800","code":"x"},"retry_at":"2031-01-01T00:00:00+01:00"}]`,
		`{"action_id":"a","status":"working","activity_token":18446744073709551615,"progress":{"percent":1e1,"note":"x"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		acks, err := server.ReadAcks(body)
		if err != nil {
			require.Contains(t, []int{400, 413}, server.StatusOf(err))
			return
		}
		for _, a := range acks {
			require.Regexp(t, form, a.ActionID)
			require.NotZero(t, a.Verb)
			require.Equal(t, a.Verb == ackstore.SaysFailed, a.Error != nil)
			require.True(t, a.Result == nil || json.Valid(a.Result))
			require.True(t, a.RetryAfter == 0 || a.RetryAt.IsZero())
		}
	})
}

func FuzzParseQuery(f *testing.F) {
	f.Add("state=done&state=queued&label=a:b&limit=5")
	f.Add("limit=%zz&;x")
	f.Fuzz(func(t *testing.T, raw string) {
		if err := server.ParseQueryOf(raw); err != nil {
			require.Equal(t, 400, server.StatusOf(err))
		}
	})
}

// The content of an action is its fields as sent: their order and the white space
// between tokens are none of it, and each value is.
func TestContentIsTheFieldsAsSent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		fields := map[string]string{"machine_id": `"m1"`, "type": `"job"`}
		for name, value := range map[string]string{
			"payload": `{"b":1,"a":[2,3]}`, "priority": "3", "delay_s": "5", "session_id": `"s"`, "labels": `{"k":"v","j":"w"}`, "on_dead": `"skip"`,
		} {
			if rapid.Bool().Draw(rt, name) {
				fields[name] = value
			}
		}
		first := read(rt, fields, rapid.Permutation(keys(fields)).Draw(rt, "order"), " ")
		second := read(rt, fields, rapid.Permutation(keys(fields)).Draw(rt, "other order"), "\n\t")
		require.Equal(rt, first.Digest, second.Digest)
		changed := rapid.SampledFrom(keys(fields)).Draw(rt, "changed")
		fields[changed] = map[string]string{
			"machine_id": `"m2"`, "type": `"other"`, "payload": `{"a":[2,3],"b":1}`, "priority": "4", "delay_s": "5.0",
			"session_id": `"t"`, "labels": `{"k":"w","j":"v"}`, "on_dead": `"pause"`,
		}[changed]
		require.NotEqual(rt, first.Digest, read(rt, fields, keys(fields), "").Digest, changed)
	})
}

func keys(m map[string]string) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	return all
}

func read(t require.TestingT, fields map[string]string, order []string, space string) ackstore.NewAction {
	var parts []string
	for _, name := range order {
		parts = append(parts, fmt.Sprintf("%q%s:%s%s", name, space, space, fields[name]))
	}
	got, err := server.ReadPushes([]byte("{"+strings.Join(parts, space+","+space)+"}"), now)
	require.NoError(t, err)
	return got[0]
}

func TestLabelsCompareWhateverTheirOrder(t *testing.T) {
	t.Parallel()
	one := read(t, map[string]string{"machine_id": `"m"`, "type": `"t"`, "labels": `{"a":"1","b":"2"}`}, []string{"labels", "type", "machine_id"}, "")
	two := read(t, map[string]string{"machine_id": `"m"`, "type": `"t"`, "labels": `{ "b":"2", "a":"1" }`}, []string{"machine_id", "type", "labels"}, "")
	require.Equal(t, one.Digest, two.Digest)
	none := read(t, map[string]string{"machine_id": `"m"`, "type": `"t"`}, []string{"machine_id", "type"}, "")
	empty := read(t, map[string]string{"machine_id": `"m"`, "type": `"t"`, "labels": `{}`}, []string{"machine_id", "type", "labels"}, "")
	require.NotEqual(t, none.Digest, empty.Digest)
}

func TestWhatIsWrongWithAPush(t *testing.T) {
	t.Parallel()
	for extra, want := range map[string]string{
		`"machine_id":"m2"`:             "machine_id is there twice",
		`"session_id":null`:             "session_id must be a string, is null",
		`"priority":1.0`:                "priority must be a whole number from 0 to 9, is 1.0",
		`"orphan_timeout_s":0`:          "orphan_timeout_s must be more than 0 seconds",
		`"ttl_s":0`:                     "ttl_s must be more than 0 seconds",
		`"ttl_s":1e400`:                 "ttl_s must be a number of seconds, is 1e400",
		`"delay_s":1e300`:               "delay_s must be at most 3162240000 seconds, is 1e300",
		`"labels":{"k":"v","k":"w"}`:    "labels.k is there twice",
		`"labels":{"k":1}`:              "labels.k must be a string, is a number",
		`"target":""`:                   `target must be 1 to 256 bytes without control characters, is ""`,
		`"max_atempts":1`:               "max_atempts is no field here; did you mean max_attempts?",
		`"available_at":"2031-01-01"`:   `available_at must be an RFC 3339 time with a zone, such as 2031-01-02T03:04:05Z, is "2031-01-01"`,
		`"delay_s":9,"ttl_s":5`:         "ttl_s ends before delay_s, so it could never be sent",
		`"delay_s":true,"colour":"red"`: "colour is no field here; and 1 more",
	} {
		_, err := server.ReadPushes([]byte(`{"machine_id":"m1","type":"job",`+extra+`}`), now)
		require.EqualError(t, err, want)
	}
	_, err := server.ReadPushes([]byte(`[{"machine_id":"m1","type":"job"},{"machine_id":"pool:a","type":"job"}]`), now)
	require.ErrorContains(t, err, "[1].machine_id")
}

func TestEveryErrorHasAStatus(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		io.ErrUnexpectedEOF: 500, os.ErrDeadlineExceeded: 408, errors.New("x"): 500,
		echo.ErrNotFound: 404, echo.ErrMethodNotAllowed: 405, echo.ErrStatusRequestEntityTooLarge: 413, echo.ErrUnsupportedMediaType: 415, echo.ErrBadGateway: 500,
		ackstore.ErrUnknown: 404, ackstore.ErrNotEligible: 409, ackstore.ErrCursor: 400, ackstore.ErrConflict: 409, ackstore.ErrLimit: 429,
		ackstore.ErrClosed: 409, ackstore.ErrUnavailable: 503, ackstore.ErrFenced: 409,
		&ackstore.LimitError{}: 429, &ackstore.ConflictError{}: 409, &ackstore.ClosedError{}: 409, &ackstore.NotEligibleError{}: 409,
		&stream.RefusedError{Reason: stream.ErrContested}: 409, &stream.RefusedError{Reason: stream.ErrFull}: 503,
		&stream.RefusedError{Reason: stream.ErrDraining}: 503, &stream.RefusedError{Reason: stream.ErrReplaced}: 409,
		&stream.RefusedError{Reason: stream.ErrRevoked}: 401, fmt.Errorf("in: %w", ackstore.ErrUnavailable): 503,
	} {
		require.Equal(t, want, server.StatusOf(err), "%v", err)
	}
}
