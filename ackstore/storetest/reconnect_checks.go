package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// What becomes of a delivery when its machine subscribes (protocol section 7).
const (
	kept   = "kept"   // in flight under its delivery
	graced = "graced" // the same, until reconnect_grace
	resent = "resent" // never received: sent again, at_most_once too
	lost   = "lost"   // an orphan now; at_most_once in doubt
)

// row is one line of the table of protocol section 7.
type row struct {
	name   string
	sentTo string // instance, or none
	backAs string
	acked  ackstore.Verb // 0: no ack has named it
	last   string        // Last-Event-ID: none, before, at, future
	want   string
}

var judgement = []row{
	{"same instance, past Last-Event-ID", "i1", "i1", 0, "before", resent},
	{"same instance, covered by Last-Event-ID", "i1", "i1", 0, "at", kept},
	{"same instance, received", "i1", "i1", ackstore.SaysReceived, "before", kept},
	{"same instance, working", "i1", "i1", ackstore.SaysWorking, "none", kept},
	{"same instance, received, Last-Event-ID from the future", "i1", "i1", ackstore.SaysReceived, "future", kept},
	{"same instance, no Last-Event-ID", "i1", "i1", 0, "none", lost},
	{"same instance, Last-Event-ID from the future", "i1", "i1", 0, "future", lost},
	{"another instance, past Last-Event-ID", "i1", "i2", 0, "before", lost},
	{"another instance, covered by Last-Event-ID", "i1", "i2", 0, "at", lost},
	{"another instance, received", "i1", "i2", ackstore.SaysReceived, "at", lost},
	{"another instance, no Last-Event-ID", "i1", "i2", 0, "none", lost},
	{"no instance, covered by Last-Event-ID", "", "", 0, "at", graced},
	{"no instance, received", "", "", ackstore.SaysReceived, "none", graced},
	{"no instance, past Last-Event-ID", "", "", 0, "before", lost},
	{"no instance, no Last-Event-ID", "", "", 0, "none", lost},
	{"an instance after none, covered", "", "i1", 0, "at", lost},
	{"an instance after none, received", "", "i1", ackstore.SaysReceived, "at", lost},
	{"none after an instance, covered", "i1", "", 0, "at", lost},
	{"none after an instance, received", "i1", "", ackstore.SaysReceived, "none", lost},
}

// reconnectChecks holds each row on a clean end, on a takeover, after its grace
// and after a crash, for both guarantees.
func reconnectChecks() []check {
	checks := slices.Clone(rejoinChecks)
	for _, row := range judgement {
		for _, end := range []string{"its stream ended", "a takeover", "its grace is over", "a crash"} {
			for _, guarantee := range []ackstore.Guarantee{ackstore.AtLeastOnce, ackstore.AtMostOnce} {
				checks = append(checks, check{
					fmt.Sprintf("%s, %s, %s: %s", row.name, guarantee, end, row.want),
					func(r *rig) { row.judge(r, end, guarantee) },
				})
			}
		}
	}
	return checks
}

// judge sends a1, ends its stream in one way and subscribes again.
func (w row) judge(r *rig, end string, guarantee ackstore.Guarantee) {
	old := r.attach(as(w.sentTo))
	r.push(action("a1", func(a *ackstore.NewAction) { a.Guarantee = guarantee }))
	event := old.expect("a1")[0].EventID
	if w.acked != 0 {
		r.answers(ackstore.Accepted, say(w.acked, "a1"))
	}
	switch end {
	case "its stream ended":
		old.end()
	case "its grace is over":
		old.end()
		r.pass(r.rules.ReconnectGrace)
		require.NotEqual(r, ackstore.InFlight, r.get("a1").State)
	case "a crash":
		r.reopen()
	}
	back := []sub{as(w.backAs)}
	switch w.last {
	case "before":
		back = append(back, last(event-1))
	case "at":
		back = append(back, last(event))
	case "future":
		back = append(back, last(event+1000))
	}
	w.follows(r, r.attach(back...), guarantee)
}

// follows wants what the row says of a1.
func (w row) follows(r *rig, l *line, guarantee ackstore.Guarantee) {
	r.Helper()
	lostNow := w.want == lost
	if w.want == kept || w.want == graced {
		l.holds(map[string]int{"a1": 1})
		l.quiet()
		rec := r.get("a1")
		require.Equal(r, ackstore.InFlight.String(), rec.State.String())
		require.Equal(r, []int{1, 0}, []int{rec.Deliveries, rec.Resent()})
		r.pass(r.rules.ReconnectGrace - time.Millisecond)
		l.quiet()
		r.is(ackstore.InFlight, "a1")
		r.pass(time.Millisecond)
		if w.want == kept {
			r.is(ackstore.InFlight, "a1")
			r.answers(ackstore.Settled, done("a1", delivery(1)))
			return
		}
		lostNow = true
	} else {
		l.holds(map[string]int{})
	}
	if lostNow && guarantee == ackstore.AtMostOnce {
		l.quiet()
		r.is(ackstore.InDoubt, "a1")
		return
	}
	d := l.again("a1", 2)
	require.Equal(r, 1, d.Resent)
	rec := r.get("a1")
	require.Equal(r, []int{0, 1, 2}, []int{rec.ResentTimeout, rec.ResentDisconnect, rec.Deliveries})
	require.True(r, rec.LastResentAt.Equal(r.clock.now()))
}

var rejoinChecks = []check{
	{"several: what is past Last-Event-ID is sent again, the rest is kept", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2"), action("a3"), action("a4", lane("s")))
		sent := l.expect("a1", "a4", "a2", "a3")
		l.end()
		l = r.attach(last(sent[1].EventID))
		l.holds(map[string]int{"a1": 1, "a4": 1})
		l.expect("a2", "a3")
	}},
	{"what was never received is sent again within the caps", func(r *rig) {
		r.rules.MaxDisconnectResends = 2
		l := r.attach()
		r.push(action("a1"))
		for n := 1; n <= 3; n++ {
			require.Equal(r, n-1, l.again("a1", n).Resent)
			l = r.attach(last(0))
		}
		l.quiet()
		r.is(ackstore.GaveUp, "a1")
	}},
	{"an orphan by timeout is judged too", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1"))
		event := l.expect("a1")[0].EventID
		r.credit("m1", new(int), true)
		r.pass(r.rules.OrphanTimeout)
		require.True(r, r.get("a1").WaitingFor.Resend)
		l = r.attach(last(event))
		l.holds(map[string]int{"a1": 1})
		rec := r.get("a1")
		require.Equal(r, []any{ackstore.InFlight, 0}, []any{rec.State, rec.Resent()})
	}},
	{"a verdict in the meantime stands", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2"), action("a3"))
		l.expect("a1", "a2", "a3")
		l.end()
		r.done("a1")
		r.answers(ackstore.Retry, failed("a2", "error"))
		r.answers(ackstore.ReleasedBack, released("a3", inAtLeast(time.Hour)))
		l = r.attach(last(0))
		l.holds(map[string]int{})
		l.quiet()
		r.is(ackstore.Done, "a1")
		r.is(ackstore.Scheduled, "a2", "a3")
	}},
	{"settled work is not sent again, whatever its agent remembers", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2"))
		l.oneByOne2("a1", "a2")
		for _, back := range [][]sub{{last(0)}, {as("i2")}, {as("")}} {
			r.attach(back...).quiet()
		}
	}},
	{"Last-Event-ID counts as received: the orphan timeout is over", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		event := l.expect("a1")[0].EventID
		l = r.attach(last(event))
		r.pass(2 * r.rules.OrphanTimeout)
		l.quiet()
		r.is(ackstore.InFlight, "a1")
		require.False(r, r.get("a1").ReceivedAt.IsZero())
	}},
	{"the inactivity timer starts again, the ceiling does not", func(r *rig) {
		l := r.attach()
		r.push(action("a1", idle(10*time.Second), ceiling(35*time.Second)))
		event := l.expect("a1")[0].EventID
		r.answers(ackstore.Accepted, received("a1"))
		for range 4 {
			r.pass(8 * time.Second)
			l = r.attach(last(event))
			l.quiet()
			require.Empty(r, l.told)
		}
		r.pass(3 * time.Second)
		l.stops(map[string]string{"a1": "ceiling"})
	}},
	{"a stall's grace does not start again", func(r *rig) {
		l := r.attach()
		r.push(action("a1", idle(10*time.Second), attempts(1)))
		event := l.expect("a1")[0].EventID
		r.answers(ackstore.Accepted, received("a1"))
		r.pass(10 * time.Second)
		l.stops(map[string]string{"a1": "stalled"})
		r.pass(r.rules.CancelGrace - time.Second)
		l = r.attach(last(event))
		require.True(r, l.hello.InFlight[0].Cancel)
		r.pass(time.Second)
		r.is(ackstore.Failed, "a1")
		require.Equal(r, "stalled", r.get("a1").Error.Kind)
	}},
	{"without an instance an ack puts the end of the grace off", func(r *rig) {
		l := r.attach(as(""))
		r.push(action("a1"))
		event := l.expect("a1")[0].EventID
		l = r.attach(as(""), last(event))
		l.quiet()
		for range 4 {
			r.pass(r.rules.ReconnectGrace - time.Second)
			r.answers(ackstore.Accepted, working("a1"))
		}
		r.pass(r.rules.ReconnectGrace - time.Second)
		r.is(ackstore.InFlight, "a1")
		r.pass(time.Second)
		l.again("a1", 2)
	}},
	{"hello says what is to be stopped and tells it again", func(r *rig) {
		l := r.attach()
		r.push(action("a1"), action("a2"))
		event := l.expect("a1", "a2")[1].EventID
		r.cancel("a1")
		l.stops(map[string]string{"a1": ""})
		for range 2 {
			l = r.attach(last(event))
			l.holds(map[string]int{"a1": 1, "a2": 1})
			for _, h := range l.hello.InFlight {
				require.Equal(r, h.ActionID == "a1", h.Cancel, h.ActionID)
				require.Equal(r, r.get(h.ActionID).CancelReason, h.CancelReason)
			}
		}
		r.answers(ackstore.Settled, cancelled("a1"))
		l = r.attach(last(event))
		l.holds(map[string]int{"a2": 1})
		l.stops(map[string]string{})
	}},
	{"a smaller credit withdraws nothing", func(r *rig) {
		l := r.attach(room(3))
		r.push(action("a1"), action("a2"), action("a3"), action("a4"))
		event := l.expect("a1", "a2", "a3")[2].EventID
		l = r.attach(room(1), last(event))
		l.holds(map[string]int{"a1": 1, "a2": 1, "a3": 1})
		r.done("a1", "a2")
		l.quiet()
		r.done("a3")
		l.expect("a4")
	}},
}

// oneByOne2 is oneByOne of actions that come together.
func (l *line) oneByOne2(ids ...string) {
	l.r.Helper()
	l.expect(ids...)
	l.r.done(ids...)
}
