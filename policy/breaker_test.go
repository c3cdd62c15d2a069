package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/policy"
)

var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	by    = policy.BreakerNumbers{Threshold: 3, Pause: 300 * time.Second}
)

// door is a breaker and the clock of its story.
type door struct {
	policy.Breaker
	t   *testing.T
	now time.Time
}

func newDoor(t *testing.T) *door { return &door{t: t, now: start} }

func (d *door) hear(what policy.Door, probe bool) (changed bool) {
	return d.hearFor(what, 0, probe)
}

func (d *door) hearFor(what policy.Door, open time.Duration, probe bool) (changed bool) {
	d.Breaker, changed = d.Report(what, open, probe, d.now, by)
	return changed
}

func (d *door) after(wait time.Duration) *door {
	d.now = d.now.Add(wait)
	return d
}

func (d *door) probe() {
	require.Equal(d.t, policy.PassProbe, d.Allows(d.now))
	d.Breaker = d.Probe(d.now)
	require.Equal(d.t, policy.PassNone, d.Allows(d.now.Add(1000*time.Hour)), "one probe only, for as long as it is out")
}

func (d *door) trip() {
	for range by.Threshold {
		d.hear(policy.DoorStrike, false)
	}
	require.Equal(d.t, policy.Open, d.State)
}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.Equal(t, policy.PassAll, d.Allows(d.now), "a new one is closed")
	require.False(t, d.hear(policy.DoorStrike, false))
	require.False(t, d.hear(policy.DoorNone, false), "what says nothing of the service does not end the row")
	require.False(t, d.hear(policy.DoorStrike, false))
	require.Equal(t, policy.PassAll, d.Allows(d.now))
	require.True(t, d.after(time.Second).hear(policy.DoorStrike, false), "the third in a row opens it")
	require.Equal(t, policy.Breaker{
		State: policy.Open, Pause: by.Pause, Until: d.now.Add(by.Pause), Since: d.now, Reason: "transient",
	}, d.Breaker)
	require.Equal(t, policy.PassNone, d.Allows(d.now.Add(by.Pause-1)))
	require.Equal(t, policy.PassProbe, d.Allows(d.now.Add(by.Pause)))
}

func TestBreakerStartsTheCountAnew(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for range 5 {
		d.hear(policy.DoorStrike, false)
		d.hear(policy.DoorStrike, false)
		require.False(t, d.hear(policy.DoorAnswered, false))
		require.Zero(t, d.Strikes)
	}
	require.Equal(t, policy.Closed, d.State)
}

func TestBreakerProbe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		says policy.Door
		want func(now time.Time) policy.Breaker
	}{
		{"an answer closes it", policy.DoorAnswered, func(now time.Time) policy.Breaker {
			return policy.Breaker{Since: now}
		}},
		{"a strike opens it for twice as long", policy.DoorStrike, func(now time.Time) policy.Breaker {
			return policy.Breaker{State: policy.Open, Pause: 600 * time.Second, Until: now.Add(600 * time.Second), Since: now, Reason: "transient"}
		}},
		{"a usage limit shuts it until its end", policy.DoorShut, func(now time.Time) policy.Breaker {
			return policy.Breaker{State: policy.Open, Until: now.Add(time.Minute), Since: now, Reason: "quota"}
		}},
		{"a machine that cannot locks it", policy.DoorLocked, func(now time.Time) policy.Breaker {
			return policy.Breaker{State: policy.Open, Locked: true, Since: now, Reason: "config"}
		}},
	} {
		t.Run("of the probe, "+tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			d.trip()
			d.after(by.Pause).probe()
			require.Equal(t, d.now, d.Since)
			require.True(t, d.after(time.Second).hearFor(tc.says, time.Minute, true))
			require.Equal(t, tc.want(d.now), d.Breaker)
		})
	}
}

func TestBreakerProbeIsLost(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.Equal(t, d.Breaker, d.LoseProbe(), "no probe, nothing to lose")
	d.trip()
	require.Equal(t, d.Breaker, d.LoseProbe(), "no probe, nothing to lose")
	d.after(by.Pause).probe()
	require.False(t, d.hear(policy.DoorNone, true))
	d.Breaker = d.LoseProbe()
	d.probe() // the next may go at once
	require.True(t, d.hear(policy.DoorStrike, true))
	require.Equal(t, 2*by.Pause, d.Pause, "the pause that was in force is remembered")
}

func TestBreakerPauseDoublesUpToAnHour(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.trip()
	var got []time.Duration
	for range 6 {
		d.after(d.Until.Sub(d.now)).probe()
		d.hear(policy.DoorStrike, true)
		got = append(got, d.Until.Sub(d.now))
	}
	m := time.Minute
	require.Equal(t, []time.Duration{10 * m, 20 * m, 40 * m, 60 * m, 60 * m, 60 * m}, got)

	long := policy.BreakerNumbers{Threshold: 1, Pause: 3 * time.Hour}
	b, _ := policy.Breaker{}.Report(policy.DoorStrike, 0, false, start, long)
	b, _ = b.Probe(start).Report(policy.DoorStrike, 0, true, start, long)
	require.Equal(t, 3*time.Hour, b.Pause, "a setting above an hour is kept")
}

func TestBreakerAfterAUsageLimit(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	require.True(t, d.hearFor(policy.DoorShut, time.Hour, false))
	require.Equal(t, policy.PassNone, d.Allows(d.now.Add(time.Hour-1)))
	d.after(time.Hour).probe()
	d.hear(policy.DoorStrike, true)
	require.Equal(t, 2*by.Pause, d.Pause, "there is no pause to double but the setting's")
}

func TestBreakerThatIsOpen(t *testing.T) {
	t.Parallel()
	for _, says := range []policy.Door{policy.DoorNone, policy.DoorAnswered, policy.DoorStrike} {
		d := newDoor(t)
		d.trip()
		was := d.Breaker
		require.False(t, d.after(time.Second).hear(says, false))
		require.Equal(t, was, d.Breaker, "it hears neither good nor bad of work that was out")
		d.after(by.Pause).probe()
		was = d.Breaker
		require.False(t, d.hear(says, false))
		require.Equal(t, was, d.Breaker, "nor while its probe is out")
	}
	d := newDoor(t)
	d.trip()
	require.False(t, d.hearFor(policy.DoorShut, by.Pause, false), "a usage limit that ends before it does")
	require.True(t, d.hearFor(policy.DoorShut, time.Hour, false), "a usage limit that ends after it does")
	require.Equal(t, d.now.Add(time.Hour), d.Until)
	require.True(t, d.hear(policy.DoorLocked, false))
}

func TestBreakerLocked(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.hear(policy.DoorStrike, false)
	require.True(t, d.hear(policy.DoorLocked, false))
	was := d.Breaker
	require.Equal(t, policy.PassNone, d.Allows(d.now.Add(10_000*time.Hour)), "no time opens it")
	for says := policy.DoorNone; says <= policy.DoorLocked; says++ {
		require.False(t, d.after(time.Second).hearFor(says, time.Hour, true))
	}
	require.Equal(t, was, d.Breaker, "no report opens it")
	require.Equal(t, policy.Breaker{Since: d.now}, d.Close(d.now), "a hand does")
}

func TestBreakerThresholdIsAtLeastOne(t *testing.T) {
	t.Parallel()
	b, changed := policy.Breaker{}.Report(policy.DoorStrike, 0, false, start, policy.BreakerNumbers{Pause: time.Second})
	require.True(t, changed)
	require.Equal(t, policy.Open, b.State)
}

func TestBreakerStateNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "closed open half_open unknown", policy.Closed.String()+" "+policy.Open.String()+" "+policy.HalfOpen.String()+" "+policy.BreakerState(9).String())
}
