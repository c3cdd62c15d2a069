package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/server/api"
)

func TestATimeIsSpeltInUTCWithMilliseconds(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_789_000, time.FixedZone("east", 3600))
	raw, err := json.Marshal(struct {
		At   api.Time `json:"at"`
		None api.Time `json:"none,omitzero"`
	}{At: api.At(at)})
	require.NoError(t, err)
	require.JSONEq(t, `{"at":"2026-01-02T02:04:05.006Z"}`, string(raw))
	var back api.Time
	for text, ok := range map[string]bool{`"2026-01-02T03:04:05+01:00"`: true, `null`: true, `"2026-01-02T03:04:05"`: false, `7`: false} {
		require.Equal(t, ok, json.Unmarshal([]byte(text), &back) == nil, text)
	}
}

func TestSecondsKeepTheirFraction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(rt, "microseconds")).Truncate(time.Microsecond)
		raw, err := json.Marshal(api.Seconds(d))
		require.NoError(rt, err)
		var back api.Seconds
		require.NoError(rt, json.Unmarshal(raw, &back))
		require.InDelta(rt, float64(d), float64(back.Duration()), float64(time.Microsecond))
	})
}

func TestWhatIsNotSetIsLeftOut(t *testing.T) {
	t.Parallel()
	raw, err := api.Marshal(api.Push{MachineID: "m", Type: "t", Payload: []byte(`"<é>"`)})
	require.NoError(t, err)
	require.Equal(t, `{"machine_id":"m","type":"t","payload":"<é>"}`, string(raw))
	raw, err = api.Marshal(api.Ack{ActionID: "a", Status: "done"})
	require.NoError(t, err)
	require.Equal(t, `{"action_id":"a","status":"done"}`, string(raw))
}
