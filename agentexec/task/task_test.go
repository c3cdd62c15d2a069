package task_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/task"
)

func TestParseAction(t *testing.T) {
	for raw, good := range map[string]bool{
		`{"action_id":"a","delivery":1,"type":"t"}`:                                true,
		`{"action_id":"a","delivery":1,"type":"t","payload":{"x":1},"later":true}`: true,
		`{"action_id":"a","delivery":0,"type":"t"}`:                                false,
		`{"delivery":1,"type":"t"}`:                                                false,
		`{"action_id":"a","delivery":1}`:                                           false,
		`{"action_id":"a","delivery":1,"type":"t"`:                                 false,
		`[]`: false,
		``:   false,
	} {
		_, err := task.ParseAction([]byte(raw))
		require.Equal(t, good, err == nil, raw)
	}
}

func FuzzParseAction(f *testing.F) {
	f.Add([]byte(`{"action_id":"a","delivery":1,"type":"t","payload":"x","dispatched_at":"2026-01-02T03:04:05.678Z"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := task.ParseAction(raw)
		if err != nil {
			return
		}
		require.NotEmpty(t, a.ActionID)
		require.Positive(t, a.Delivery)
	})
}

func TestAPulse(t *testing.T) {
	var p task.Pulse
	require.Zero(t, p.Read())
	p.Bump(time.Now())
	p.Vouched()
	beat := p.Read()
	require.EqualValues(t, 2, beat.Token)
	require.EqualValues(t, 1, beat.Activity)
	p.Note(strings.Repeat("é", 2000) + "\xff")
	require.LessOrEqual(t, len(p.Read().Note), 1024)
	require.True(t, utf8.ValidString(p.Read().Note))
	p.Percent(40)
	p.Percent(101)
	p.Percent(-1)
	require.InDelta(t, 40, *p.Read().Percent, 0)
}
