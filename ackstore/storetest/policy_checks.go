package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// waited tells how long a retry waits from now.
func (r *rig) waited(a ackstore.AckResult) time.Duration {
	r.Helper()
	require.Equal(r, ackstore.Retry.String(), a.Outcome.String())
	return a.AvailableAt.Sub(r.clock.now())
}

// between wants a duration within bounds.
func (r *rig) between(least, most, got time.Duration) {
	r.Helper()
	require.GreaterOrEqual(r, got, least)
	require.LessOrEqual(r, got, most)
}

// counts are attempts, transient attempts, quota waits and config waits.
func (r *rig) counts(id string) [4]int {
	r.Helper()
	rec := r.get(id)
	return [4]int{rec.Attempts, rec.TransientAttempts, rec.QuotaWaits, rec.ConfigWaits}
}

// policyChecks is the first table of protocol section 11.
var policyChecks = []check{
	{"error: after its delay, doubling, max_attempts times", func(r *rig) {
		l := r.attach()
		r.push(action("a1", attempts(4)))
		for n := 1; n <= 3; n++ {
			d := l.again("a1", n)
			require.Equal(r, []int{n - 1, 0, 0}, []int{d.Attempts, d.TransientAttempts, d.Resent})
			wait := r.waited(r.ack(failed("a1", "error", delivery(n))))
			require.Equal(r, r.rules.ErrorDelay<<(n-1), wait)
			r.is(ackstore.Scheduled, "a1")
			r.pass(wait - time.Millisecond)
			l.quiet()
			r.pass(time.Millisecond)
		}
		l.again("a1", 4)
		require.Equal(r, ackstore.Failed, r.answers(ackstore.Settled, failed("a1", "error", delivery(4), result(`{"part":1}`))).State)
		rec := r.get("a1")
		require.Equal(r, []any{4, "error", "it went wrong", `{"part":1}`, ackstore.ByAck}, []any{rec.Attempts, rec.Error.Kind, rec.Error.Message, string(rec.Result), rec.SettledBy})
	}},
	{"a failure with no kind, or with no error, is an error", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.answers(ackstore.Retry, say(ackstore.SaysFailed, "a1"))
		require.Equal(r, [4]int{1, 0, 0, 0}, r.counts("a1"))
		r.pass(r.rules.ErrorDelay)
		l.again("a1", 2)
		r.answers(ackstore.Settled, failed("a1", "", delivery(2)))
		require.Equal(r, "error", r.get("a1").Error.Kind)
	}},
	{"permanent ends it, whatever is left", func(r *rig) {
		l := r.attach()
		r.push(action("a1", attempts(9)))
		l.expect("a1")
		r.answers(ackstore.Settled, failed("a1", "permanent"))
		require.Equal(r, [4]int{1, 0, 0, 0}, r.counts("a1"))
	}},
	{"transient: a backoff that doubles up to its maximum, and a fifth more at most", func(r *rig) {
		r.rules.BreakerThreshold = 100
		r.rules.BackoffMax = 35 * time.Second
		l := r.attach()
		r.push(action("a1", transients(5)))
		for n, least := range []time.Duration{10 * time.Second, 20 * time.Second, 35 * time.Second, 35 * time.Second} {
			l.again("a1", n+1)
			wait := r.waited(r.ack(failed("a1", "transient", delivery(n+1), spread(float64(n)/3))))
			r.between(least, least*6/5, wait)
			switch n {
			case 0:
				require.Equal(r, least, wait, "no jitter, nothing on top")
			case 3:
				require.Greater(r, wait, least, "all of the jitter")
			}
			r.pass(wait)
		}
		l.again("a1", 5)
		r.answers(ackstore.Settled, failed("a1", "transient", delivery(5)))
		require.Equal(r, [4]int{0, 5, 0, 0}, r.counts("a1"))
	}},
	{"retry_after and retry_at are honoured, up to 24 h, and not if past", func(r *rig) {
		r.rules.BreakerThreshold = 100
		now := r.clock.now()
		l := r.attach()
		for i, c := range []struct {
			ack         ackstore.Ack
			least, most time.Duration
		}{
			{failed("a0", "transient", after(2*time.Minute)), 2 * time.Minute, 145 * time.Second},
			{failed("a1", "transient", at(now.Add(time.Hour))), time.Hour, 73 * time.Minute},
			{failed("a2", "transient", after(100*time.Hour)), 24 * time.Hour, 29 * time.Hour},
			{failed("a3", "transient", at(now.Add(-time.Hour))), 10 * time.Second, 12 * time.Second},
			{failed("a4", "error", after(time.Minute)), time.Minute, 73 * time.Second},
			{failed("a5", "error", at(now.Add(-time.Hour))), time.Second, 2 * time.Second},
			{failed("a6", "transient", after(time.Second)), 10 * time.Second, 12 * time.Second},
		} {
			id := fmt.Sprint("a", i)
			r.push(action(id))
			l.expect(id)
			r.between(c.least, c.most, r.waited(r.ack(c.ack)))
		}
	}},
	{"quota waits for its end and 30 to 120 s, up to 8 days", func(r *rig) {
		now := r.clock.now()
		l := r.attach()
		for i, c := range []struct {
			w    word
			ends time.Duration
		}{{at(now.Add(time.Hour)), time.Hour}, {after(2 * time.Hour), 2 * time.Hour}, {after(9 * 24 * time.Hour), 8 * 24 * time.Hour}} {
			for j, jitter := range []float64{0, 0.999} {
				id := fmt.Sprintf("a%d%d", i, j)
				r.push(action(id, target(id)))
				l.expect(id)
				wait := r.waited(r.ack(failed(id, "quota", c.w, spread(jitter))))
				r.between(c.ends+30*time.Second, c.ends+2*time.Minute, wait)
				require.Equal(r, [4]int{0, 0, 1, 0}, r.counts(id))
			}
		}
	}},
	{"quota of which no end is known, or a past one, waits quota_delay doubling to 4 h", func(r *rig) {
		l := r.attach()
		r.push(action("a1", attempts(1), transients(1)))
		for n, least := range []time.Duration{15 * time.Minute, 30 * time.Minute, time.Hour} {
			l.again("a1", n+1)
			a := failed("a1", "quota", delivery(n+1))
			if n == 1 {
				a.RetryAt = r.clock.now().Add(-time.Hour)
			}
			wait := r.waited(r.ack(a))
			r.between(least, least+2*time.Minute, wait)
			r.pass(wait + 2*time.Minute) // the breaker may be open a little longer
		}
		l.again("a1", 4)
		r.answers(ackstore.Settled, failed("a1", "quota", delivery(4)))
		require.Equal(r, [4]int{0, 0, 4, 0}, r.counts("a1"))
	}},
	{"config is queued behind the machine's breaker, and the fourth is failed", func(r *rig) {
		l := r.attach()
		r.push(action("a1", attempts(1), target("claude")))
		for n := 1; n <= 3; n++ {
			l.again("a1", n)
			require.Equal(r, ackstore.Queued, r.answers(ackstore.Retry, failed("a1", "config", delivery(n))).State)
			r.pass(24 * time.Hour)
			l.quiet()
			w := r.waitsFor("a1", "breaker_open")
			require.Equal(r, []string{"m1", "claude"}, []string{w.MachineID, w.Target})
			require.False(r, w.Resend)
			require.NoError(r, r.store.CloseBreaker(ctx, r.rules, "m1", "claude"))
		}
		l.again("a1", 4)
		r.answers(ackstore.Settled, failed("a1", "config", delivery(4)))
		require.Equal(r, [4]int{0, 0, 0, 4}, r.counts("a1"))
	}},
	{"any failure of an at_most_once is final", func(r *rig) {
		l := r.attach()
		for _, k := range []string{"", "error", "permanent", "transient", "quota", "config"} {
			id := "of-" + k
			r.push(action(id, once, attempts(9), target(id)))
			l.expect(id)
			require.Equal(r, ackstore.Failed, r.answers(ackstore.Settled, failed(id, k)).State)
		}
	}},
	{"a lane waits through its head's backoff, others flow", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s")), action("a2", lane("s")), action("b1"))
		l.expect("a1", "b1")
		r.answers(ackstore.Retry, failed("a1", "transient"))
		r.push(action("b2"))
		l.expect("b2")
		r.pass(12 * time.Second)
		l.again("a1", 2)
		r.done("a1")
		l.expect("a2")
	}},
	{"failed pauses its lane unless on_dead is skip", func(r *rig) {
		l := r.attach()
		r.push(action("p1", lane("p")), action("p2", lane("p")), action("q1", lane("q"), skip), action("q2", lane("q")))
		l.expect("p1", "q1")
		r.answers(ackstore.Settled, failed("p1", "permanent"))
		r.answers(ackstore.Settled, failed("q1", "permanent"))
		l.expect("q2")
		r.waitsFor("p2", "paused")
		require.Equal(r, []string{ackstore.HeldOnDead}, r.causes(ackstore.OfSession, "p"))
	}},
	{"a cancel that nobody asked for is a permanent failure", func(r *rig) {
		inFlight(r, "a1", "m1", attempts(9))
		require.Equal(r, ackstore.Failed, r.answers(ackstore.Settled, cancelled("a1")).State)
		rec := r.get("a1")
		require.Equal(r, []any{"permanent", 1}, []any{rec.Error.Kind, rec.Attempts})
	}},
}

// releaseChecks is released of protocol section 9.
var releaseChecks = []check{
	{"back to its place, no failure counted, its resends full again", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s")), action("a2", lane("s")))
		seq := r.get("a1").Seq
		l.again("a1", 1)
		got := r.answers(ackstore.ReleasedBack, released("a1"))
		require.Equal(r, ackstore.Scheduled, got.State)
		r.pass(r.rules.ReleaseDelay - time.Millisecond)
		l.quiet()
		r.pass(time.Millisecond)
		d := l.again("a1", 2)
		require.Equal(r, []int{0, 0, 0}, []int{d.Attempts, d.TransientAttempts, d.Resent})
		require.Equal(r, seq, r.get("a1").Seq)
		r.done("a1")
		l.expect("a2")
	}},
	{"its floor doubles in a row up to 60 s, and a longer delay is kept", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		floor := r.rules.ReleaseDelay
		for n := 1; n <= 12; n++ {
			l.again("a1", n)
			r.answers(ackstore.ReleasedBack, released("a1", delivery(n), inAtLeast(time.Millisecond)))
			wait := r.get("a1").AvailableAt.Sub(r.clock.now())
			require.Equal(r, min(floor, time.Minute), wait, "release %d", n)
			floor *= 2
			r.pass(wait)
		}
		l.again("a1", 13)
		r.answers(ackstore.ReleasedBack, released("a1", delivery(13), inAtLeast(time.Hour)))
		require.Equal(r, time.Hour, r.get("a1").AvailableAt.Sub(r.clock.now()))
	}},
	{"the 31st in a row is failed", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		for n := 1; n <= 30; n++ {
			l.again("a1", n)
			r.answers(ackstore.ReleasedBack, released("a1", delivery(n)))
			r.answers(ackstore.Duplicate, released("a1", delivery(n)))
			r.pass(time.Minute)
		}
		l.again("a1", 31)
		require.Equal(r, ackstore.Failed, r.answers(ackstore.Settled, released("a1", delivery(31))).State)
		rec := r.get("a1")
		require.Equal(r, []any{"released", 31}, []any{rec.Error.Kind, rec.Deliveries})
		require.LessOrEqual(r, len(rec.Timeline), ackstore.TimelineFirst+ackstore.TimelineLast)
	}},
	{"another verdict or a redrive ends the row", func(r *rig) {
		l := r.attach()
		r.push(action("a1", attempts(2)))
		floor := func(n int, want time.Duration) {
			r.Helper()
			l.again("a1", n)
			r.answers(ackstore.ReleasedBack, released("a1", delivery(n)))
			require.Equal(r, want, r.get("a1").AvailableAt.Sub(r.clock.now()))
			r.pass(want)
		}
		floor(1, 250*time.Millisecond)
		floor(2, 500*time.Millisecond)
		l.again("a1", 3)
		r.answers(ackstore.Retry, failed("a1", "error", delivery(3)))
		r.pass(r.rules.ErrorDelay)
		floor(4, 250*time.Millisecond)
		floor(5, 500*time.Millisecond)
		r.cancel("a1")
		r.answers(ackstore.Accepted, received("a1", delivery(6)))
		r.answers(ackstore.Settled, cancelled("a1", delivery(6)))
		r.redrive("a1")
		floor(7, 250*time.Millisecond)
	}},
	{"a release of an orphan drops its resend and is not counted as one", func(r *rig) {
		l := r.waitsToBeResent()
		r.answers(ackstore.ReleasedBack, released("a1", delivery(1)))
		r.credit("m1", nil, true)
		r.pass(r.rules.ReleaseDelay)
		require.Zero(r, l.again("a1", 2).Resent)
	}},
	{"an at_most_once that was released is sent again", func(r *rig) {
		l := r.attach()
		r.push(action("a1", once))
		l.again("a1", 1)
		r.answers(ackstore.ReleasedBack, released("a1"))
		r.pass(r.rules.ReleaseDelay)
		l.again("a1", 2)
	}},
}
