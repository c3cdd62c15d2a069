package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// tally compares every count the store keeps with a full scan of its actions.
func (r *rig) tally() {
	r.Helper()
	counts, orphans := map[ackstore.State]int{}, 0
	type of struct{ inFlight, waits, unsettled int }
	machines := map[string]of{}
	labels := map[[2]string]map[ackstore.State]int{}
	for _, a := range r.list(ackstore.Filter{}, 200) {
		counts[a.State]++
		m := machines[a.MachineID]
		switch {
		case a.State == ackstore.InFlight:
			m.inFlight++
		case a.State.Waits():
			m.waits++
		}
		if !a.State.Settled() {
			m.unsettled++
		}
		machines[a.MachineID] = m
		if a.Orphan != 0 {
			orphans++
			require.True(r, a.State.Waits(), "orphan %s is %s", a.ID, a.State)
		}
		for _, l := range [][2]string{{string(ackstore.OfSession), a.SessionID}, {string(ackstore.OfReplay), a.ReplayID}} {
			if l[1] == "" {
				continue
			}
			if labels[l] == nil {
				labels[l] = map[ackstore.State]int{}
			}
			labels[l][a.State]++
		}
	}
	o := r.overview()
	require.Equal(r, counts, positive(o.Counts), "counts and a full scan")
	require.Equal(r, orphans, o.Orphans, "orphans and a full scan")
	for id, want := range machines {
		m := r.machine(id)
		require.Equal(r, want, of{m.InFlight, m.Queued, m.Unsettled}, "machine %s and a full scan", id)
	}
	for l, want := range labels {
		label, err := r.store.Label(ctx, ackstore.Scope(l[0]), l[1])
		require.NoError(r, err)
		require.Equal(r, want, positive(label.Counts), "%s %s and a full scan", l[0], l[1])
	}
}

// mixed fills a store with actions of every filter's kind.
func (r *rig) mixed() {
	r.Helper()
	for i := range 20 {
		r.push(action(fmt.Sprintf("a%02d", i), of(fmt.Sprint("m", i%2)), lane(fmt.Sprint("s", i%3)), replay(fmt.Sprint("r", i%4)),
			kind([]string{"click", "type"}[i%2]), label("n", fmt.Sprint(i%5)), label("k", "v")))
		r.clock.add(time.Second)
	}
	for i := range 5 {
		r.cancel(fmt.Sprintf("a%02d", i))
	}
}

func names(actions []ackstore.Action) []string {
	ids := []string{}
	for _, a := range actions {
		ids = append(ids, a.ID)
	}
	return ids
}

// readChecks is what the readers of a store promise.
var readChecks = []check{
	{"list pages newest first, whatever the size of the page", func(r *rig) {
		r.mixed()
		want := []string{}
		for i := 19; i >= 0; i-- {
			want = append(want, fmt.Sprintf("a%02d", i))
		}
		for _, page := range []int{1, 3, 7, 20, 100} {
			require.Equal(r, want, names(r.list(ackstore.Filter{}, page)), "pages of %d", page)
		}
	}},
	{"filters hold together", func(r *rig) {
		r.mixed()
		start := r.get("a00").CreatedAt
		for i, c := range []struct {
			f    ackstore.Filter
			want func(i int) bool
		}{
			{ackstore.Filter{MachineID: "m1"}, func(i int) bool { return i%2 == 1 }},
			{ackstore.Filter{SessionID: "s2"}, func(i int) bool { return i%3 == 2 }},
			{ackstore.Filter{ReplayID: "r3"}, func(i int) bool { return i%4 == 3 }},
			{ackstore.Filter{Type: "click"}, func(i int) bool { return i%2 == 0 }},
			{ackstore.Filter{Labels: map[string]string{"n": "3", "k": "v"}}, func(i int) bool { return i%5 == 3 }},
			{ackstore.Filter{Labels: map[string]string{"n": "3", "k": "w"}}, func(int) bool { return false }},
			{ackstore.Filter{States: []ackstore.State{ackstore.Cancelled}}, func(i int) bool { return i < 5 }},
			{ackstore.Filter{States: []ackstore.State{ackstore.Cancelled, ackstore.Queued}}, func(int) bool { return true }},
			{ackstore.Filter{Before: start.Add(3 * time.Second)}, func(i int) bool { return i < 3 }},
			{ackstore.Filter{Reach: func(m string) bool { return m == "m0" }}, func(i int) bool { return i%2 == 0 }},
			{ackstore.Filter{MachineID: "m1", SessionID: "s2", States: []ackstore.State{ackstore.Queued}}, func(i int) bool { return i%2 == 1 && i%3 == 2 && i >= 5 }},
			{ackstore.Filter{MachineID: "m7"}, func(int) bool { return false }},
		} {
			want := []string{}
			for n := 19; n >= 0; n-- {
				if c.want(n) {
					want = append(want, fmt.Sprintf("a%02d", n))
				}
			}
			for _, page := range []int{2, 50} {
				require.Equal(r, want, names(r.list(c.f, page)), "filter %d, pages of %d", i, page)
			}
		}
	}},
	{"a cursor holds while others write", func(r *rig) {
		r.mixed()
		first, next, err := r.store.List(ctx, ackstore.Filter{}, "", 10)
		require.NoError(r, err)
		r.push(action("new"))
		r.cancel("a09")
		rest, _, err := r.store.List(ctx, ackstore.Filter{}, next, 100)
		require.NoError(r, err)
		got := append(names(first), names(rest)...)
		require.Len(r, got, 20)
		require.True(r, slices.IsSortedFunc(got, func(a, b string) int { return -compare(a, b) }), "%v", got)
	}},
	{"a cursor that no List gave is refused", func(r *rig) {
		r.push(action("a1"))
		for _, cursor := range []string{"nonsense", "\x00", "////"} {
			_, _, err := r.store.List(ctx, ackstore.Filter{}, cursor, 10)
			require.ErrorIs(r, err, ackstore.ErrCursor, "%q", cursor)
		}
	}},
	{"list is what get is, but for payloads and results", func(r *rig) {
		l := r.attach()
		r.push(action("a1", lane("s")), action("a2"))
		l.expect("a1", "a2")
		r.answers(ackstore.Settled, done("a1", result("1")))
		for _, a := range r.list(ackstore.Filter{}, 10) {
			r.same(r.get(a.ID).Action, a, "%s", a.ID)
		}
	}},
	{"an action that nobody knows", func(r *rig) { r.unknown("nobody", "") }},
	{"owners are told in the order that was asked", func(r *rig) {
		r.push(action("a1"), action("b1", of("m2")))
		got, err := r.store.Owners(ctx, []string{"b1", "nobody", "a1", "b1"})
		require.NoError(r, err)
		require.Equal(r, []string{"m2", "", "m1", "m2"}, got)
	}},
	{"the overview of an empty store", func(r *rig) {
		o := r.overview()
		require.Empty(r, positive(o.Counts))
		require.Zero(r, o.Machines)
		require.True(r, o.OldestQueued.IsZero())
		require.NoError(r, r.store.Writable(ctx))
		require.True(r, r.store.Now().Equal(r.clock.now()))
	}},
	{"the oldest that waits is told", func(r *rig) {
		start := r.clock.now()
		r.push(action("a1"))
		r.clock.add(time.Minute)
		r.push(action("a2"))
		require.True(r, r.overview().OldestQueued.Equal(start))
		require.True(r, r.machine("m1").OldestQueuedAt.Equal(start))
	}},
	{"the reasons for waiting, the first that holds", func(r *rig) {
		r.push(action("a1", lane("s")), action("a2", lane("s")), action("b1", delay(time.Hour)))
		require.Equal(r, "a1", r.waitsFor("a2", "lane").ActionID)
		r.waitsFor("a1", "machine_offline")
		r.waitsFor("b1", "available_at")
		r.hold(ackstore.OfMachine, "m1")
		for _, id := range []string{"a1", "a2", "b1"} {
			r.waitsFor(id, "paused")
		}
		r.unhold(ackstore.OfMachine, "m1")
		l := r.attach(room(0))
		l.quiet()
		r.waitsFor("a1", "credit")
		r.is(ackstore.Queued, "a1")
		l.end()
		r.waitsFor("a1", "machine_offline")
		r.cancel("a1")
		require.Nil(r, r.get("a1").WaitingFor)
	}},
	{"changes are heard in the order of commits", func(r *rig) {
		l := r.attach()
		r.push(action("a1"))
		l.expect("a1")
		r.done("a1")
		states := func() (got []string) {
			r.heard.mu.Lock()
			defer r.heard.mu.Unlock()
			for _, c := range r.heard.changes {
				if c.ActionID == "a1" && (len(got) == 0 || got[len(got)-1] != c.State.String()) {
					got = append(got, c.State.String())
				}
			}
			return got
		}
		require.Eventually(r, func() bool {
			got := states()
			return len(got) > 0 && got[len(got)-1] == "done"
		}, 5*time.Second, time.Millisecond)
		require.Subset(r, states(), []string{"in_flight", "done"})
	}},
	{"the timeline keeps its first 16 and last 48 lines", func(r *rig) {
		r.rules.ErrorDelay = time.Millisecond
		l := r.attach()
		r.push(action("a1", attempts(100)))
		for n := 1; n <= 40; n++ {
			l.again("a1", n)
			r.answers(ackstore.Accepted, working("a1"))
			if n%2 == 0 {
				r.answers(ackstore.Retry, failed("a1", "error", delivery(n)))
			} else {
				r.answers(ackstore.ReleasedBack, released("a1", delivery(n)))
			}
			r.pass(r.get("a1").AvailableAt.Sub(r.clock.now()))
		}
		rec := r.get("a1")
		require.Len(r, rec.Timeline, ackstore.TimelineFirst+ackstore.TimelineLast)
		require.Positive(r, rec.TimelineCut)
		require.LessOrEqual(r, rec.Timeline[0].Delivery, 1)
		require.GreaterOrEqual(r, rec.Timeline[len(rec.Timeline)-1].Delivery, 40)
		for i, e := range rec.Timeline {
			require.NotEqual(r, "working", e.Event)
			if i > 0 {
				require.False(r, e.At.Before(rec.Timeline[i-1].At), "in the order of time")
			}
		}
	}},
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}
