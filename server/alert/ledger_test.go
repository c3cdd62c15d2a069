package alert_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/server/alert"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func fired(kind alert.Kind, key string) alert.Event {
	return alert.Event{Kind: kind, Key: key, Text: key + " " + string(kind), At: noon}
}

func passed(key string) alert.Event {
	return alert.Event{Key: key, Text: key + " passed", Passed: true}
}

func TestWhatHappensTogetherIsToldTogether(t *testing.T) {
	l := alert.NewLedger(10*time.Second, time.Minute)
	for i := range 46 {
		l.Add(fired(alert.GaveUp, fmt.Sprint("a", i)), noon.Add(time.Duration(i)*100*time.Millisecond))
	}
	require.Nil(t, l.Due(noon.Add(9*time.Second)))
	m := l.Due(noon.Add(10 * time.Second))
	require.Equal(t, "pushd: 46 gave_up", m.Title)
	require.Contains(t, m.Text, "a0 gave_up\na1 gave_up")
	require.Contains(t, m.Text, "and 41 more")
	require.Len(t, m.Events, 5)
	require.Nil(t, l.Due(noon.Add(time.Hour)))
}

func TestAReceiverHearsAtMostSoOften(t *testing.T) {
	l := alert.NewLedger(10*time.Second, time.Minute)
	l.Add(fired(alert.GaveUp, "a"), noon)
	require.NotNil(t, l.Due(noon.Add(10*time.Second)))
	l.Add(fired(alert.Failed, "b"), noon.Add(11*time.Second))
	l.Add(fired(alert.InDoubt, "c"), noon.Add(40*time.Second))
	require.Nil(t, l.Due(noon.Add(69*time.Second)))
	require.Equal(t, "pushd: 1 failed, 1 in_doubt", l.Due(noon.Add(70*time.Second)).Title)
}

func TestWhatPassesIsTold(t *testing.T) {
	l := alert.NewLedger(10*time.Second, time.Minute)
	l.Add(fired(alert.Offline, "m1"), noon)
	l.Add(passed("m1"), noon.Add(time.Second))
	require.Nil(t, l.Due(noon.Add(time.Hour)), "it passed before it was told")
	l.Add(fired(alert.Offline, "m1"), noon)
	require.NotNil(t, l.Due(noon.Add(10*time.Second)))
	l.Add(fired(alert.Offline, "m1"), noon.Add(11*time.Second)) // the same alert still
	l.Add(passed("m1"), noon.Add(12*time.Second))
	m := l.Due(noon.Add(2 * time.Minute))
	require.Equal(t, "pushd: 1 resolved", m.Title)
	require.Equal(t, alert.Offline, m.Events[0].Kind)
	l.Add(passed("m1"), noon.Add(3*time.Minute))
	require.Nil(t, l.Due(noon.Add(time.Hour)))
}

// What goes and comes between two messages has not passed: the last word is that it
// stands.
func TestWhatIsBackHasNotPassed(t *testing.T) {
	l := alert.NewLedger(10*time.Second, time.Minute)
	l.Add(fired(alert.Offline, "m1"), noon)
	require.NotNil(t, l.Due(noon.Add(10*time.Second)))
	l.Add(passed("m1"), noon.Add(11*time.Second))
	l.Add(fired(alert.Offline, "m1"), noon.Add(12*time.Second))
	m := l.Due(noon.Add(2 * time.Minute))
	require.Equal(t, "pushd: 1 machine_offline", m.Title)
	l.Add(passed("m1"), noon.Add(3*time.Minute))
	require.Equal(t, "pushd: 1 resolved", l.Due(noon.Add(4*time.Minute)).Title)
}

// What was told, goes, comes and goes between two messages has passed: who was told
// of it hears so.
func TestWhatIsBackAndGoesAgainHasPassed(t *testing.T) {
	l := alert.NewLedger(10*time.Second, time.Minute)
	l.Add(fired(alert.Offline, "m1"), noon)
	require.NotNil(t, l.Due(noon.Add(10*time.Second)))
	l.Add(passed("m1"), noon.Add(11*time.Second))
	l.Add(fired(alert.Offline, "m1"), noon.Add(12*time.Second))
	l.Add(passed("m1"), noon.Add(13*time.Second))
	m := l.Due(noon.Add(2 * time.Minute))
	require.NotNil(t, m)
	require.Equal(t, "pushd: 1 resolved", m.Title)
	require.Nil(t, l.Due(noon.Add(time.Hour)))
}

func TestAFloodIsCountedAndNotKept(t *testing.T) {
	l := alert.NewLedger(time.Second, time.Minute)
	for i := range 5000 {
		l.Add(fired(alert.Failed, fmt.Sprint(i)), noon)
	}
	m := l.Due(noon.Add(time.Second))
	require.Equal(t, 5000, m.Count)
	require.Equal(t, 4995, m.More)
}

func TestWhatChangesSay(t *testing.T) {
	for _, c := range []struct {
		change ackstore.Change
		kind   alert.Kind
		key    string
		passed bool
	}{
		{ackstore.Change{ActionID: "a", MachineID: "m", State: ackstore.GaveUp, Event: "gave_up"}, alert.GaveUp, "action/a", false},
		{ackstore.Change{ActionID: "a", MachineID: "m", State: ackstore.Failed, Event: "failed"}, alert.Failed, "action/a", false},
		{ackstore.Change{ActionID: "a", MachineID: "m", State: ackstore.InDoubt, Event: "in_doubt"}, alert.InDoubt, "action/a", false},
		{ackstore.Change{ActionID: "a", MachineID: "m", State: ackstore.Queued, Event: "redriven"}, "", "action/a", true},
		{ackstore.Change{MachineID: "m", Event: "breaker_open", Detail: "claude"}, alert.Breaker, "breaker/m/claude", false},
		{ackstore.Change{MachineID: "m", Event: "breaker_closed", Detail: "claude"}, alert.Breaker, "breaker/m/claude", true},
		{ackstore.Change{ActionID: "a", MachineID: "m", Event: "paused", Detail: "session s need_help"}, alert.NeedHelp, "pause/session/s/m", false},
		{ackstore.Change{MachineID: "m", Event: "resumed", Detail: "session s need_help"}, alert.NeedHelp, "pause/session/s/m", true},
	} {
		e, is := alert.EventOf(&c.change)
		require.True(t, is, "%+v", c.change)
		require.Equal(t, c.kind, e.Kind)
		require.Equal(t, c.key, e.Key)
		require.Equal(t, c.passed, e.Passed)
	}
	for _, c := range []ackstore.Change{
		{ActionID: "a", State: ackstore.Scheduled, Event: "failed"}, // it is tried again
		{ActionID: "a", State: ackstore.Queued, Event: "pushed"},
		{MachineID: "m", Event: "attached"},
		{MachineID: "m", Event: "paused", Detail: "session s operator"},
		{MachineID: "m", Event: "breaker_half_open", Detail: "claude"},
	} {
		_, is := alert.EventOf(&c)
		require.False(t, is, "%+v", c)
	}
}
