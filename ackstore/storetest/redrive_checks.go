package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// redriveChecks is what a redrive gives back.
var redriveChecks = []check{
	{"budgets are full, expires_at is dropped, deliveries go on", func(r *rig) {
		l := r.attach()
		r.push(action("a1", resends(1), ttl(time.Minute)))
		for n := 1; n <= 2; n++ {
			l.again("a1", n)
			r.pass(r.rules.OrphanTimeout)
		}
		r.is(ackstore.GaveUp, "a1")
		r.pass(time.Hour)
		r.redrive("a1")
		d := l.again("a1", 3)
		require.Zero(r, d.Resent)
		r.pass(r.rules.OrphanTimeout)
		require.Equal(r, 1, l.again("a1", 4).Resent)
		rec := r.get("a1")
		require.Equal(r, []any{4, true, 1, false}, []any{rec.Deliveries, rec.ExpiresAt.IsZero(), rec.Redrives, rec.Late})
		require.True(r, rec.SettledAt.IsZero())
	}},
	{"every counter but deliveries starts at 0", func(r *rig) {
		l := r.attach()
		r.push(action("a1", target("x")))
		for n, k := range []string{"transient", "quota", "error", "permanent"} {
			l.again("a1", n+1)
			r.ack(failed("a1", k, delivery(n+1)))
			r.pass(4 * time.Hour)
		}
		r.is(ackstore.Failed, "a1")
		require.Equal(r, [4]int{2, 1, 1, 0}, r.counts("a1"))
		r.redrive("a1")
		l.again("a1", 5)
		require.Equal(r, [4]int{}, r.counts("a1"))
		rec := r.get("a1")
		require.Equal(r, 5, rec.Deliveries)
	}},
	{"a redriven one keeps its place", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1"), action("a2"), action("a3"))
		l.expect("a1")
		r.cancel("a2")
		r.redrive("a2")
		r.done("a1")
		l.oneByOne("a2", "a3")
	}},
	{"each state that can be is sent again", func(r *rig) {
		l := r.attach()
		r.push(action("doubt", once))
		l.expect("doubt")
		r.pass(r.rules.OrphanTimeout)
		r.push(action("never", delay(time.Hour)), action("expired", ttl(time.Second), delay(time.Millisecond*500), lane("busy")))
		r.cancel("never")
		r.credit("m1", new(int), true)
		r.pass(time.Second)
		r.is(ackstore.Expired, "expired")
		for _, id := range []string{"doubt", "never", "expired"} {
			r.redrive(id)
		}
		r.credit("m1", nil, true)
		got := l.take()
		ids := idsOf(got)
		slices.Sort(ids)
		require.Equal(r, []string{"doubt", "expired", "never"}, ids, "a redrive is for now")
		r.done("doubt", "never", "expired")
	}},
	{"an old word about a redriven action is a repeat or stale", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.answers(ackstore.Settled, failed("a1", "permanent"))
		r.redrive("a1")
		l.again("a1", 2)
		before := r.get("a1")
		r.answers(ackstore.Duplicate, failed("a1", "permanent", delivery(1)))
		r.answers(ackstore.Stale, released("a1", delivery(1)))
		r.same(before, r.get("a1"), "nothing moves")
		r.answers(ackstore.Settled, done("a1", delivery(1)))
	}},
	{"a redrive of a settled head does not overtake what is out", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s"), skip), action("a2", lane("s")), action("a3", lane("s")))
		l.expect("a1")
		r.answers(ackstore.Settled, failed("a1", "permanent"))
		l.expect("a2")
		r.redrive("a1")
		got := idsOf(l.take())
		r.done("a2")
		got = append(got, idsOf(l.take())...)
		require.Equal(r, []string{"a1"}, got, "a3 waits for a1")
		r.done("a1")
		l.expect("a3")
	}},
}

// bulkAll runs a bulk act to its end, in slices.
func (r *rig) bulkAll(q ackstore.BulkReq, slice int) int {
	r.Helper()
	q.Limit, q.By = slice, "operator"
	total := 0
	for range 10_000 {
		got, err := r.store.Bulk(ctx, r.rules, q)
		require.NoError(r, err, "Bulk")
		require.LessOrEqual(r, got.Count, slice)
		total += got.Count
		if got.Next == "" {
			return total
		}
		q.Cursor = got.Next
	}
	require.Fail(r, "Bulk goes on for ever")
	return total
}

// bulkChecks is cancel and redrive by filter.
var bulkChecks = []check{
	{"filters hold together, a dry run only counts, slices miss nothing", func(r *rig) {
		for i := range 9 {
			r.push(action(fmt.Sprint("r", i), replay("r"), lane(fmt.Sprint("s", i%3))))
		}
		r.push(action("x", kind("click")), action("y", of("m2")))
		both := ackstore.Filter{ReplayID: "r", SessionID: "s1"}
		require.Equal(r, 9, r.bulkAll(ackstore.BulkReq{Filter: ackstore.Filter{ReplayID: "r"}, DryRun: true}, 2))
		r.is(ackstore.Queued, "r0", "r8")
		require.Equal(r, 3, r.bulkAll(ackstore.BulkReq{Filter: both}, 2))
		require.Equal(r, 6, r.bulkAll(ackstore.BulkReq{Filter: ackstore.Filter{ReplayID: "r"}}, 4))
		require.Equal(r, 0, r.bulkAll(ackstore.BulkReq{Filter: ackstore.Filter{Type: "click", Before: r.clock.now().Add(-time.Hour)}}, 50))
		require.Equal(r, 1, r.bulkAll(ackstore.BulkReq{Filter: ackstore.Filter{MachineID: "m2", States: []ackstore.State{ackstore.Queued}}}, 50))
		r.is(ackstore.Queued, "x")
		require.Equal(r, 9, r.bulkAll(ackstore.BulkReq{Redrive: true, Filter: ackstore.Filter{ReplayID: "r"}}, 2))
		require.Len(r, r.attach(room(20)).take(), 4, "x and a head of each of three lanes")
	}},
	{"what a single call would refuse is not counted", func(r *rig) {
		l := r.attach()
		r.push(action("out", replay("r")))
		l.expect("out")
		r.credit("m1", new(int), true)
		r.push(action("waits", replay("r")), action("gone", replay("r")))
		r.cancel("gone")
		require.Equal(r, 1, r.bulkAll(ackstore.BulkReq{Redrive: true, Filter: ackstore.Filter{ReplayID: "r"}}, 50))
		r.is(ackstore.InFlight, "out")
		r.is(ackstore.Queued, "waits", "gone")
	}},
	{"a bulk cancel asks what is in flight and opens lanes", func(r *rig) {
		l := r.attach(room(3))
		r.push(action("a1", replay("r")), action("a2", lane("s"), replay("r"), delay(time.Hour)), action("a3", lane("s")))
		l.expect("a1")
		r.bulkAll(ackstore.BulkReq{Filter: ackstore.Filter{ReplayID: "r"}}, 50)
		l.told = nil
		sent := l.take()
		require.Equal(r, []string{"a3"}, idsOf(sent))
		require.Len(r, l.told, 1)
		r.is(ackstore.Cancelled, "a2")
	}},
	{"only within reach", func(r *rig) {
		r.push(action("a1", replay("r")), action("b1", of("m2"), replay("r")))
		f := ackstore.Filter{ReplayID: "r", Reach: func(m string) bool { return m == "m2" }}
		require.Equal(r, 1, r.bulkAll(ackstore.BulkReq{Filter: f}, 50))
		r.is(ackstore.Queued, "a1")
		r.is(ackstore.Cancelled, "b1")
	}},
}
