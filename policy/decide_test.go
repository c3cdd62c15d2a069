package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/policy"
)

var (
	numbers = policy.Numbers{
		ErrorDelay:   time.Second,
		BackoffBase:  10 * time.Second,
		BackoffMax:   600 * time.Second,
		QuotaDelay:   15 * time.Minute,
		ReleaseDelay: 250 * time.Millisecond,
	}
	caps = policy.Caps{Attempts: 2, Transient: 5}
)

const day = 24 * time.Hour

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		f    policy.Failure
		c    policy.Counters
		want policy.Verdict
	}{
		{
			"the first error runs again after error_delay",
			policy.Failure{Kind: policy.Error},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Attempts: 1}, Wait: time.Second, Door: policy.DoorAnswered},
		},
		{
			"the error that uses up max_attempts is failed",
			policy.Failure{Kind: policy.Error},
			policy.Counters{Attempts: 1},
			policy.Verdict{Counters: policy.Counters{Attempts: 2}, Failed: true, Door: policy.DoorAnswered},
		},
		{
			"an error honours what the agent asks for",
			policy.Failure{Kind: policy.Error, RetryAfter: time.Minute},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Attempts: 1}, Wait: time.Minute, Door: policy.DoorAnswered},
		},
		{
			"an error waits at least its own delay",
			policy.Failure{Kind: policy.Error, RetryAfter: time.Millisecond},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Attempts: 1}, Wait: time.Second, Door: policy.DoorAnswered},
		},
		{
			"an error waits 24 h at most, whatever is asked for",
			policy.Failure{Kind: policy.Error, RetryAfter: 100 * day},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Attempts: 1}, Wait: day, Door: policy.DoorAnswered},
		},
		{
			"a kind nobody knows is an error",
			policy.Failure{Kind: "sunspots"},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Attempts: 1}, Wait: time.Second, Door: policy.DoorAnswered},
		},
		{
			"permanent is failed, whatever is left",
			policy.Failure{Kind: policy.Permanent, RetryAfter: time.Minute},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Attempts: 1}, Failed: true, Door: policy.DoorAnswered},
		},
		{
			"stalled counts like an error and says nothing of the service",
			policy.Failure{Kind: policy.Stalled},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Attempts: 1}, Wait: time.Second},
		},
		{
			"ceiling counts like an error and says nothing of the service",
			policy.Failure{Kind: policy.Ceiling},
			policy.Counters{Attempts: 1},
			policy.Verdict{Counters: policy.Counters{Attempts: 2}, Failed: true},
		},
		{
			"transient waits its backoff",
			policy.Failure{Kind: policy.Transient},
			policy.Counters{Attempts: 1},
			policy.Verdict{Counters: policy.Counters{Attempts: 1, Transient: 1}, Wait: 10 * time.Second, Door: policy.DoorStrike},
		},
		{
			"the spread is a fifth of what the service asked for too",
			policy.Failure{Kind: policy.Transient, RetryAfter: 400_000 * time.Second, Jitter: 1},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Transient: 1}, Wait: day + day/5, Door: policy.DoorStrike},
		},
		{
			"a retry_after that is past is none",
			policy.Failure{Kind: policy.Transient, RetryAfter: -time.Hour},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Transient: 1}, Wait: 10 * time.Second, Door: policy.DoorStrike},
		},
		{
			"the transient that uses up its cap is failed and strikes all the same",
			policy.Failure{Kind: policy.Transient},
			policy.Counters{Transient: 4},
			policy.Verdict{Counters: policy.Counters{Transient: 5}, Failed: true, Door: policy.DoorStrike},
		},
		{
			"quota waits for its end and 30 s more",
			policy.Failure{Kind: policy.Quota, RetryAfter: time.Hour},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Quota: 1}, Wait: time.Hour + 30*time.Second, Door: policy.DoorShut, DoorFor: time.Hour + 30*time.Second},
		},
		{
			"nine days of quota count as eight, and 120 s is the most on top",
			policy.Failure{Kind: policy.Quota, RetryAfter: 9 * day, Jitter: 1},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Quota: 1}, Wait: 8*day + 120*time.Second, Door: policy.DoorShut, DoorFor: 8*day + 120*time.Second},
		},
		{
			"quota without an end waits quota_delay",
			policy.Failure{Kind: policy.Quota},
			policy.Counters{},
			policy.Verdict{Counters: policy.Counters{Quota: 1}, Wait: 15 * time.Minute, Door: policy.DoorShut, DoorFor: 15 * time.Minute},
		},
		{
			"the third quota in a row waits four times as long, and 120 s is the most on top",
			policy.Failure{Kind: policy.Quota, Jitter: 1},
			policy.Counters{Quota: 2},
			policy.Verdict{Counters: policy.Counters{Quota: 3}, Wait: time.Hour + 2*time.Minute, Door: policy.DoorShut, DoorFor: time.Hour + 2*time.Minute},
		},
		{
			"the fourth quota is failed and shuts the door for the others",
			policy.Failure{Kind: policy.Quota, RetryAfter: time.Hour},
			policy.Counters{Quota: 3},
			policy.Verdict{Counters: policy.Counters{Quota: 4}, Failed: true, Door: policy.DoorShut, DoorFor: time.Hour + 30*time.Second},
		},
		{
			"config is queued at once behind a locked door",
			policy.Failure{Kind: policy.Config, RetryAfter: time.Hour},
			policy.Counters{Config: 2},
			policy.Verdict{Counters: policy.Counters{Config: 3}, Door: policy.DoorLocked},
		},
		{
			"the fourth config is failed and locks the door all the same",
			policy.Failure{Kind: policy.Config},
			policy.Counters{Config: 3},
			policy.Verdict{Counters: policy.Counters{Config: 4}, Failed: true, Door: policy.DoorLocked},
		},
		{
			"a failure ends a row of releases",
			policy.Failure{Kind: policy.Transient},
			policy.Counters{Releases: 30},
			policy.Verdict{Counters: policy.Counters{Transient: 1}, Wait: 10 * time.Second, Door: policy.DoorStrike},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, policy.Decide(tc.f, tc.c, caps, numbers))
		})
	}
}

func TestDecideFinal(t *testing.T) {
	t.Parallel()
	doors := map[policy.Kind]policy.Door{
		policy.Error: policy.DoorAnswered, policy.Permanent: policy.DoorAnswered, policy.Transient: policy.DoorStrike,
		policy.Quota: policy.DoorShut, policy.Config: policy.DoorLocked, policy.Stalled: policy.DoorNone, policy.Ceiling: policy.DoorNone,
	}
	for kind, door := range doors {
		t.Run("any "+string(kind)+" of an at_most_once is failed, counted and tells the breaker", func(t *testing.T) {
			t.Parallel()
			v := policy.Decide(policy.Failure{Kind: kind, Final: true, RetryAfter: time.Hour}, policy.Counters{}, policy.Caps{Attempts: 9, Transient: 9}, numbers)
			require.True(t, v.Failed)
			require.Zero(t, v.Wait)
			require.Equal(t, door, v.Door)
			c := v.Counters
			require.Equal(t, 1, c.Attempts+c.Transient+c.Quota+c.Config)
		})
	}
}

// waits are the waits of the first executions of an action, one after the other.
func waits(kind policy.Kind, times int, by policy.Numbers) []time.Duration {
	var got []time.Duration
	var c policy.Counters
	for range times {
		v := policy.Decide(policy.Failure{Kind: kind}, c, policy.Caps{Attempts: math.MaxInt, Transient: math.MaxInt}, by)
		c, got = v.Counters, append(got, v.Wait)
	}
	return got
}

func TestWaitsDouble(t *testing.T) {
	t.Parallel()
	s, m := time.Second, time.Minute
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s}, waits(policy.Error, 4, numbers), "an error")
	require.Equal(t, []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 320 * s, 600 * s, 600 * s}, waits(policy.Transient, 8, numbers), "a transient, up to backoff_max")
	require.Equal(t, []time.Duration{15 * m, 30 * m, 60 * m}, waits(policy.Quota, 3, numbers), "a quota")

	long := policy.Numbers{ErrorDelay: 50 * m, BackoffBase: 400 * s, BackoffMax: 300 * s, QuotaDelay: 90 * m}
	require.Equal(t, []time.Duration{50 * m, 60 * m, 60 * m}, waits(policy.Error, 3, long), "an error, up to 1 h")
	require.Equal(t, []time.Duration{300 * s, 300 * s}, waits(policy.Transient, 2, long), "a base above the maximum")
	require.Equal(t, []time.Duration{90 * m, 180 * m, 240 * m}, waits(policy.Quota, 3, long), "a quota, up to 4 h")

	longer := policy.Numbers{ErrorDelay: 2 * time.Hour, QuotaDelay: 5 * time.Hour}
	require.Equal(t, []time.Duration{2 * time.Hour, 2 * time.Hour}, waits(policy.Error, 2, longer), "a setting above our bound is kept")
	require.Equal(t, []time.Duration{5 * time.Hour, 5 * time.Hour}, waits(policy.Quota, 2, longer), "a setting above our bound is kept")

	require.Equal(t, []time.Duration{0, 0}, waits(policy.Error, 2, policy.Numbers{}), "no setting is no wait")
}

func TestWaitsDoNotOverflow(t *testing.T) {
	t.Parallel()
	huge := policy.Numbers{ErrorDelay: math.MaxInt64, BackoffBase: math.MaxInt64 - 1, BackoffMax: math.MaxInt64, QuotaDelay: math.MaxInt64}
	for _, by := range []policy.Numbers{numbers, huge} {
		for _, kind := range []policy.Kind{policy.Error, policy.Transient, policy.Quota, policy.Stalled} {
			for _, n := range []int{0, 1, 2, 62, 63, 64, 1000, 1 << 30} {
				v := policy.Decide(
					policy.Failure{Kind: kind, Jitter: 1},
					policy.Counters{Attempts: n, Transient: n, Quota: n},
					policy.Caps{Attempts: math.MaxInt, Transient: math.MaxInt}, by)
				require.GreaterOrEqual(t, v.Wait, time.Duration(0), "%s after %d", kind, n)
				require.True(t, v.Failed || v.Wait > 0, "%s after %d", kind, n)
			}
		}
	}
}

func TestJitterKeepsTheBounds(t *testing.T) {
	t.Parallel()
	for _, jitter := range []float64{0, 0.25, 0.999, 1, -3, 7, math.NaN(), math.Inf(1), math.Inf(-1)} {
		v := policy.Decide(policy.Failure{Kind: policy.Transient, Jitter: jitter}, policy.Counters{}, caps, numbers)
		require.GreaterOrEqual(t, v.Wait, 10*time.Second)
		require.LessOrEqual(t, v.Wait, 12*time.Second)

		v = policy.Decide(policy.Failure{Kind: policy.Quota, RetryAfter: time.Hour, Jitter: jitter}, policy.Counters{}, caps, numbers)
		require.GreaterOrEqual(t, v.Wait, time.Hour+30*time.Second)
		require.LessOrEqual(t, v.Wait, time.Hour+120*time.Second)

		short := policy.Numbers{QuotaDelay: 300 * time.Millisecond}
		v = policy.Decide(policy.Failure{Kind: policy.Quota, Jitter: jitter}, policy.Counters{}, caps, short)
		require.GreaterOrEqual(t, v.Wait, 300*time.Millisecond)
		require.LessOrEqual(t, v.Wait, 360*time.Millisecond)
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	var got []time.Duration
	c := policy.Counters{Attempts: 1, Quota: 2}
	for range policy.MaxReleases {
		v := policy.Release(0, c, numbers)
		require.False(t, v.Failed)
		require.Equal(t, policy.DoorNone, v.Door)
		c, got = v.Counters, append(got, v.Wait)
	}
	ms := time.Millisecond
	require.Equal(t, []time.Duration{250 * ms, 500 * ms, 1000 * ms, 2000 * ms}, got[:4], "the least wait doubles")
	require.Equal(t, []time.Duration{32 * time.Second, time.Minute, time.Minute}, got[7:10], "up to 60 s")
	require.Equal(t, policy.Counters{Attempts: 1, Quota: 2, Releases: 30}, c, "nothing but the row is counted")

	require.True(t, policy.Release(time.Hour, c, numbers).Failed, "the 31st in a row is failed")
	require.Equal(t, time.Hour, policy.Release(time.Hour, policy.Counters{}, numbers).Wait, "a longer delay is the agent's to ask for")
}
