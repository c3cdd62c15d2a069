package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// trip fails three actions of m1 in a row, each sent before the first failed.
func (r *rig) trip(l *line, opts ...opt) {
	r.Helper()
	r.send(l, opts, "t1", "t2", "t3")
	for i := 1; i <= 3; i++ {
		r.answers(ackstore.Settled, failed(fmt.Sprint("t", i), "transient"))
	}
}

// send pushes actions with one transient attempt and takes them.
func (r *rig) send(l *line, opts []opt, ids ...string) {
	r.Helper()
	for _, id := range ids {
		r.push(action(id, append([]opt{transients(1), of(l.lease.MachineID)}, opts...)...))
		l.expect(id)
	}
}

// breaker wants just one that is not closed.
func (r *rig) breaker() ackstore.Breaker {
	r.Helper()
	b := r.overview().Breakers
	require.Len(r, b, 1, "breakers that are not closed")
	return b[0]
}

func (r *rig) closeBreaker(machine, target string) {
	r.Helper()
	require.NoError(r, r.store.CloseBreaker(ctx, r.rules, machine, target))
}

// probed opens the breaker of claude and lets its pause pass: a1 is the probe,
// a2 and a3 wait.
func (r *rig) probed(opts ...opt) *line {
	r.Helper()
	l := r.attach()
	r.trip(l, target("claude"))
	r.push(action("a1", append([]opt{target("claude")}, opts...)...), action("a2", target("claude")), action("a3", target("claude")))
	l.quiet()
	r.pass(r.rules.BreakerPause - time.Millisecond)
	l.quiet()
	r.pass(time.Millisecond)
	l.expect("a1")
	b := r.breaker()
	require.Equal(r, []string{"half_open", "a1"}, []string{b.State, b.Probe})
	return l
}

// breakerChecks is the second half of protocol section 11.
var breakerChecks = []check{
	{"three transient failures in a row open it for their target", func(r *rig) {
		l := r.attach()
		r.trip(l, target("claude"))
		r.push(action("a1", target("claude")), action("b1", target("codex")), action("c1"), action("d1", target("claude"), of("m2")))
		l.expect("b1", "c1")
		r.attach(on("m2")).expect("d1")
		w := r.waitsFor("a1", "breaker_open")
		require.Equal(r, []string{"m1", "claude"}, []string{w.MachineID, w.Target})
		require.True(r, w.Until.Equal(r.clock.now().Add(r.rules.BreakerPause)))
		b := r.breaker()
		require.Equal(r, []string{"m1", "claude", "open"}, []string{b.MachineID, b.Target, b.State})
		require.NotEmpty(r, b.Reason)
		require.Len(r, r.machine("m1").Breakers, 1)
		r.closeBreaker("m1", "claude")
		require.Empty(r, r.overview().Breakers)
		l.expect("a1")
	}},
	{"a success or a failure of the work in between starts the count anew", func(r *rig) {
		l := r.attach()
		for i, a := range []ackstore.Ack{failed("a0", "transient"), failed("a1", "transient"), done("a2"), failed("a3", "transient"), failed("a4", "transient"), failed("a5", "permanent"), failed("a6", "transient"), failed("a7", "transient")} {
			r.send(l, []opt{target("claude")}, fmt.Sprint("a", i))
			r.answers(ackstore.Settled, a)
		}
		r.send(l, []opt{target("claude")}, "last")
		require.Empty(r, r.overview().Breakers)
	}},
	{"without a target it is the machine's", func(r *rig) {
		l, other := r.attach(), r.attach(on("m2"))
		r.trip(l)
		r.push(action("a1"), action("b1", of("m2")), action("c1", target("codex")))
		l.expect("c1")
		other.expect("b1")
		r.waitsFor("a1", "breaker_open")
		r.closeBreaker("m1", "")
		l.expect("a1")
	}},
	{"a shared target has one for all machines, and one probe", func(r *rig) {
		l, other := r.attach(), r.attach(on("m2"))
		r.trip(l, target("shared/claude"))
		require.Empty(r, r.breaker().MachineID)
		r.push(action("b1", target("shared/claude"), of("m2")), action("b2", target("claude"), of("m2")))
		other.expect("b2")
		r.done("b2")
		r.waitsFor("b1", "breaker_open")
		r.pass(r.rules.BreakerPause)
		other.expect("b1")
		r.push(action("a1", target("shared/claude")))
		l.quiet()
		r.done("b1")
		l.expect("a1")
		r.trip2(l, "shared/claude")
		r.closeBreaker("", "shared/claude")
		require.Empty(r, r.overview().Breakers)
	}},
	{"after the pause one goes, and a done of it lets the rest go", func(r *rig) {
		l := r.probed()
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(5 * time.Minute)
		l.quiet()
		r.done("a1")
		require.Empty(r, r.overview().Breakers)
		l.expect("a2", "a3")
	}},
	{"error and permanent of the probe close it: the service answered", func(r *rig) {
		for _, k := range []string{"error", "permanent"} {
			m := "m." + k
			l := r.attach(on(m))
			for _, id := range []string{"t1", "t2", "t3"} {
				r.send(l, []opt{target("x")}, id+k)
			}
			for _, id := range []string{"t1", "t2", "t3"} {
				r.answers(ackstore.Settled, failed(id+k, "transient"))
			}
			r.push(action("a1"+k, of(m), target("x"), attempts(1)), action("a2"+k, of(m), target("x")))
			r.pass(r.rules.BreakerPause)
			l.expect("a1" + k)
			r.answers(ackstore.Settled, failed("a1"+k, k))
			l.expect("a2" + k)
		}
	}},
	{"transient of the probe opens it for twice as long, up to 1 h", func(r *rig) {
		r.rules.BreakerPause = 20 * time.Minute
		l := r.attach()
		r.trip(l, target("claude"))
		for i, pause := range []time.Duration{20 * time.Minute, 40 * time.Minute, time.Hour, time.Hour} {
			id := fmt.Sprint("a", i)
			r.push(action(id, target("claude"), transients(1)))
			r.pass(pause - time.Millisecond)
			l.quiet()
			r.pass(time.Millisecond)
			l.expect(id)
			r.answers(ackstore.Settled, failed(id, "transient"))
			require.Equal(r, "open", r.breaker().State)
		}
	}},
	{"quota opens it at once until its end, of the probe too", func(r *rig) {
		l := r.probed()
		r.answers(ackstore.Retry, failed("a1", "quota", after(2*time.Hour)))
		r.pass(2*time.Hour - time.Millisecond)
		l.quiet()
		r.waitsFor("a2", "breaker_open")
		r.pass(3 * time.Minute)
		require.Len(r, l.take(), 1, "one probe")
	}},
	{"the probe's resends are the probe's", func(r *rig) {
		l := r.probed()
		r.pass(r.rules.OrphanTimeout)
		l.again("a1", 2)
		require.Equal(r, "a1", r.breaker().Probe)
		r.done("a1")
		l.expect("a2", "a3")
	}},
	{"a probe that is released gives its place to the next", probeEnds(func(r *rig, l *line) {
		r.answers(ackstore.ReleasedBack, released("a1", inAtLeast(time.Hour)))
	})},
	{"a probe that is cancelled gives its place to the next", probeEnds(func(r *rig, l *line) {
		r.cancel("a1")
		r.answers(ackstore.Settled, cancelled("a1"))
	})},
	{"a probe that is given up gives its place to the next", probeEnds(func(r *rig, l *line) {
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.GaveUp, "a1")
	}, resends(0))},
	{"a probe that is in doubt gives its place to the next", probeEnds(func(r *rig, l *line) {
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.InDoubt, "a1")
	}, once)},
	{"a probe that stalls gives its place to the next", probeEnds(func(r *rig, l *line) {
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(time.Second)
		r.pass(r.rules.CancelGrace)
		r.is(ackstore.Failed, "a1")
	}, idle(time.Second), attempts(1))},
	{"verdicts of deliveries sent before it opened do not move it", func(r *rig) {
		l := r.attach()
		r.send(l, []opt{target("claude")}, "good", "bad", "ugly")
		r.trip(l, target("claude"))
		open := r.breaker()
		r.push(action("a1", target("claude")))
		r.pass(time.Second)
		r.done("good")
		r.answers(ackstore.Settled, failed("bad", "permanent"))
		r.answers(ackstore.Settled, failed("ugly", "transient"))
		l.quiet()
		r.same(open, r.breaker(), "nothing moves it")
	}},
	{"nor do those sent before it was closed", func(r *rig) {
		l := r.attach()
		r.send(l, []opt{target("claude")}, "old1", "old2", "old3")
		r.trip(l, target("claude"))
		r.closeBreaker("m1", "claude")
		for _, id := range []string{"old1", "old2", "old3"} {
			r.answers(ackstore.Settled, failed(id, "transient"))
		}
		require.Empty(r, r.overview().Breakers)
	}},
	{"config is lifted by a new instance, not by the same", func(r *rig) {
		l := r.attach()
		r.push(action("a1", target("claude")))
		event := l.expect("a1")[0].EventID
		r.answers(ackstore.Retry, failed("a1", "config"))
		l = r.attach(last(event))
		r.pass(10 * time.Hour)
		l.quiet()
		r.attach(as("i2")).again("a1", 2)
	}},
	{"what transient failures opened is not lifted by a new instance", func(r *rig) {
		r.trip(r.attach(), target("claude"))
		r.push(action("a1", target("claude")))
		r.attach(as("i2")).quiet()
		require.Equal(r, "open", r.breaker().State)
	}},
	{"config of a shared target opens the machine's own, which others do not lift", func(r *rig) {
		l, other := r.attach(), r.attach(on("m2"))
		r.push(action("a1", target("shared/claude")))
		l.expect("a1")
		r.answers(ackstore.Retry, failed("a1", "config"))
		require.Equal(r, "m1", r.breaker().MachineID)
		r.push(action("b1", target("shared/claude"), of("m2")))
		other.expect("b1")
		r.done("b1")
		l.quiet()
		r.waitsFor("a1", "breaker_open")
	}},
	{"what is out goes on", func(r *rig) {
		l := r.attach()
		r.send(l, []opt{target("claude")}, "out")
		r.trip(l, target("claude"))
		r.is(ackstore.InFlight, "out")
		r.answers(ackstore.Accepted, working("out"))
		r.done("out")
	}},
	{"it outlives a crash, its probe too", func(r *rig) {
		l := r.probed()
		before := r.breaker()
		r.reopen()
		require.Equal(r, before.State, r.breaker().State)
		l = r.attach(last(l.last))
		l.quiet()
		r.done("a1")
		l.expect("a2", "a3")
	}},
	{"closing what is not open harms nothing", func(r *rig) {
		require.NoError(r, r.store.CloseBreaker(ctx, r.rules, "m1", "none"))
	}},
}

// trip2 opens a breaker of m1 again.
func (r *rig) trip2(l *line, on string) {
	r.Helper()
	r.send(l, []opt{target(on)}, "u1", "u2", "u3")
	for _, id := range []string{"u1", "u2", "u3"} {
		r.answers(ackstore.Settled, failed(id, "transient"))
	}
	require.Equal(r, "open", r.breaker().State)
}

// probeEnds ends the probe without a word about the service: a2 is the next
// probe, alone, and its done lets a3 go.
func probeEnds(end func(r *rig, l *line), opts ...opt) func(r *rig) {
	return func(r *rig) {
		l := r.probed(opts...)
		end(r, l)
		l.expect("a2")
		l.quiet()
		r.done("a2")
		l.expect("a3")
	}
}
