package boltstore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// A time that comes back a little earlier is looked for under another key.
func TestTimesSurviveTheirRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := toMicro(time.Unix(rapid.Int64Range(0, 1<<32-1).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")))
		far := ledger.CeilMilli(time.Unix(rapid.Int64Range(0, 253402300799).Draw(t, "until the year 9999"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")))
		in := ackstore.Action{ID: "a", CreatedAt: at, AvailableAt: far, ExpiresAt: far, SettledAt: at, Timeline: []ackstore.Entry{{At: at, Event: "e"}}}
		var out ackstore.Action
		require.NoError(t, decode(encode(&in), &out))
		for _, got := range []time.Time{out.CreatedAt, out.SettledAt, out.Timeline[0].At} {
			require.True(t, at.Equal(got), "%v came back as %v", at, got)
		}
		for _, got := range []time.Time{out.AvailableAt, out.ExpiresAt} {
			require.True(t, far.Equal(got), "%v came back as %v", far, got)
		}
		require.True(t, out.DispatchedAt.IsZero())
	})
}

// A text that came in as it should not have must not make its row unreadable: one
// record that cannot be read would stop the store.
func TestATextThatIsNoUTF8IsReadAgain(t *testing.T) {
	in := ackstore.Action{ID: "a", Target: "caf\xe9", Error: &ackstore.Failure{Message: "cut \xe2\x82"}}
	var out ackstore.Action
	require.NoError(t, decode(encode(&in), &out))
	require.Equal(t, []string{in.Target, in.Error.Message}, []string{out.Target, out.Error.Message})
	d := ackstore.Delivery{Header: map[string]string{"X-Event": "caf\xe9"}}
	back, err := deliveryOf(encode(&d))
	require.NoError(t, err)
	require.Equal(t, d.Header, back.Header)
}
