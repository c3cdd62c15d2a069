package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// oneByOne lets each action be done before the next is sent.
func (l *line) oneByOne(ids ...string) {
	l.r.Helper()
	for _, id := range ids {
		l.expect(id)
		l.r.done(id)
	}
	l.quiet()
}

// orderChecks is protocol section 6 on the order among heads of lanes.
var orderChecks = []check{
	{"a lane has one action out at a time, in order", func(r *rig) {
		l := r.attach(room(100))
		r.push(action("a1", lane("s")), action("a2", lane("s")), action("a3", lane("s")))
		l.expect("a1")
		require.Equal(r, "a1", r.waitsFor("a2", "lane").ActionID)
		r.done("a1")
		l.oneByOne("a2", "a3")
	}},
	{"lanes do not wait for each other", func(r *rig) {
		l := r.attach(room(2))
		r.push(action("p1", lane("p")), action("p2", lane("p")))
		l.expect("p1")
		for i := range 5 {
			r.push(action(fmt.Sprint("q", i), lane("q")))
		}
		l.oneByOne("q0", "q1", "q2", "q3", "q4")
	}},
	{"one session on two machines is two lanes", func(r *rig) {
		one, two := r.attach(), r.attach(on("m2"))
		r.push(action("a1", lane("s")), action("b1", lane("s"), of("m2")))
		one.expect("a1")
		two.expect("b1")
	}},
	{"actions without a session do not wait for each other", func(r *rig) {
		r.push(action("a1"), action("a2"), action("a3"))
		r.attach(room(2)).expect("a1", "a2")
	}},
	{"higher priority goes first, seq among equals", func(r *rig) {
		for _, a := range []ackstore.NewAction{
			action("a"), action("b", priority(5)), action("c", priority(9)), action("d", priority(5)), action("e"), action("f", priority(9)),
		} {
			r.push(a)
		}
		r.attach(room(1)).oneByOne("c", "f", "b", "d", "a", "e")
	}},
	{"priority does not reorder a lane", func(r *rig) {
		r.push(action("a1", lane("s")), action("a2", lane("s"), priority(9)), action("b1", priority(5)))
		r.attach(room(1)).oneByOne("b1", "a1", "a2")
	}},
	{"the lane served longest ago goes first, all without a session as one", func(r *rig) {
		r.push(action("a1", lane("a")), action("a2", lane("a")), action("a3", lane("a")),
			action("x1"), action("x2"), action("x3"),
			action("b1", lane("b")), action("b2", lane("b")), action("b3", lane("b")))
		r.attach(room(1)).oneByOne("a1", "x1", "b1", "a2", "x2", "b2", "a3", "x3", "b3")
	}},
	{"turns are taken in one claim too", func(r *rig) {
		r.push(action("x1"), action("x2"), action("x3"), action("a1", lane("a")), action("b1", lane("b")))
		r.attach(room(4)).expect("x1", "a1", "b1", "x2")
	}},
	{"a resend and a retry are a lane's turn as well", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1", lane("a")), action("a2", lane("a")), action("b1", lane("b")))
		l.expect("a1")
		r.answers(ackstore.Retry, failed("a1", "error"))
		l.expect("b1")
		r.pass(r.rules.ErrorDelay)
		l.quiet()
		r.done("b1")
		l.oneByOne("a1", "a2")
	}},
	{"priority goes before the turn of a lane, and does not age", func(r *rig) {
		r.push(action("a1", lane("a"), priority(5)), action("a2", lane("a"), priority(5)), action("b1", lane("b")),
			action("a3", lane("a"), priority(5)), action("c1", lane("c"), priority(9)))
		r.attach(room(1)).oneByOne("c1", "a1", "a2", "a3", "b1")
	}},
	{"resends go before new ones of any priority, in seq order", func(r *rig) {
		l := r.attach(as("i1"), room(3))
		r.push(action("a1", lane("a")), action("a2"), action("a3", lane("c"), priority(1)))
		require.Len(r, l.take(), 3)
		r.push(action("urgent", priority(9)))
		r.attach(as("i2"), room(1)).oneByOne("a1", "a2", "a3", "urgent")
	}},
	{"resends keep their order through many losses", func(r *rig) {
		ids := []string{"s1", "s2", "s3", "s4", "s5"}
		l := r.attach(as("i1"), room(5))
		for _, id := range ids {
			r.push(action(id, lane("of "+id)))
		}
		l.expect(ids...)
		for round := 2; round <= 4; round++ {
			l.end()
			r.pass(r.rules.DisconnectGrace)
			l = r.attach(as(fmt.Sprint("i", round)), room(5))
			for _, d := range l.expect(ids...) {
				require.Equal(r, round, d.Delivery)
				require.Equal(r, round-1, d.Resent)
			}
		}
	}},
	{"a resend and a retry keep their seq", func(r *rig) {
		l := r.attach(as("i1"))
		seq := r.push(action("a1", lane("s")), action("a2", lane("s")))[0].Seq
		l.expect("a1")
		l = r.attach(as("i2"))
		l.again("a1", 2)
		r.answers(ackstore.Retry, failed("a1", "error", delivery(2)))
		r.pass(r.rules.ErrorDelay)
		l.again("a1", 3)
		require.Equal(r, seq, r.get("a1").Seq)
	}},
	{"at the tail an orphan gets a new seq behind its lane", func(r *rig) {
		r.rules.RepushTail = true
		l := r.attach(room(1))
		r.push(action("a1", lane("s"), orphan(time.Second)), action("a2", lane("s")), action("a3", lane("s")))
		l.expect("a1")
		seq := r.get("a3").Seq
		r.pass(time.Second)
		l.oneByOne("a2", "a3", "a1")
		require.Greater(r, r.get("a1").Seq, seq)
		require.Equal(r, 2, r.get("a1").Deliveries)
	}},
	{"a lane waits for a scheduled head, others flow", func(r *rig) {
		l := r.attach()
		require.Equal(r, ackstore.Scheduled, r.push(action("a1", lane("s"), delay(2*time.Second)))[0].State)
		r.push(action("a2", lane("s")), action("b1"))
		l.expect("b1")
		r.pass(2*time.Second - time.Millisecond)
		l.quiet()
		r.pass(time.Millisecond)
		l.oneByOne("a1", "a2")
	}},
	{"what is ready does not overtake a scheduled one of its lane", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s")), action("a2", lane("s"), delay(time.Minute)), action("a3", lane("s")))
		l.oneByOne("a1")
		require.Equal(r, "a2", r.waitsFor("a3", "lane").ActionID)
		r.pass(time.Minute)
		l.oneByOne("a2", "a3")
	}},
	{"thousands that are not due hide nothing that is", func(r *rig) {
		var later []ackstore.NewAction
		for i := range 2000 {
			later = append(later, action(fmt.Sprint("later", i), delay(time.Hour), priority(9)))
		}
		r.push(later...)
		r.push(action("due"), action("soon", delay(time.Second)))
		l := r.attach()
		l.expect("due")
		r.pass(time.Second)
		l.expect("soon")
	}},
	{"thousands behind one head of a lane hide no other lane", func(r *rig) {
		var behind []ackstore.NewAction
		for i := range 2000 {
			behind = append(behind, action(fmt.Sprint("behind", i), lane("s"), priority(9)))
		}
		r.push(behind...)
		r.push(action("other"))
		r.attach().expect("behind0", "other")
	}},
}
