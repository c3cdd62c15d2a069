package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// claimChecks is what Claim and the lease promise.
var claimChecks = []check{
	{"a dispatch bears what its event needs, and it is on disk", func(r *rig) {
		r.push(action("a1", lane("s1"), replay("r1"), kind("click"), once, label("k", "v"), payload(`{"y":2}`)))
		d := r.attach().expect("a1")[0]
		require.Equal(r, []any{"m1", "s1", "r1", "click", `{"y":2}`, ackstore.AtMostOnce, 1, 0, 0, 0},
			[]any{d.MachineID, d.SessionID, d.ReplayID, d.Type, string(d.Payload), d.Guarantee, d.Delivery, d.Resent, d.Attempts, d.TransientAttempts})
		require.Equal(r, map[string]string{"k": "v"}, d.Labels)
		require.True(r, d.DispatchedAt.Equal(r.clock.now()))
		require.True(r, d.AckBy.Equal(r.clock.now().Add(r.rules.OrphanTimeout)))
		rec := r.get("a1")
		require.Equal(r, ackstore.InFlight, rec.State)
		require.Equal(r, []any{1, d.EventID, 1, "i1"}, []any{rec.Delivery, rec.EventID, rec.Deliveries, rec.SentTo})
		require.True(r, rec.FirstDispatchedAt.Equal(r.clock.now()))
		require.Equal(r, d.EventID, r.machine("m1").LastEventID)
	}},
	{"a push rides its own commit to a parked lease and wakes its machine", func(r *rig) {
		l := r.attach()
		l.quiet() // parks
		r.heard.forget("m1")
		before := r.overview().Commits
		r.push(action("a1"))
		r.is(ackstore.InFlight, "a1")
		require.True(r, r.heard.woken("m1"), "Wake is called")
		got := l.claim(0)
		require.Equal(r, []string{"a1"}, idsOf(got.Dispatches))
		require.Equal(r, before+1, r.overview().Commits, "commits from the push to the dispatch")
	}},
	{"an ack that frees its lane rides too", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1", lane("s")), action("a2", lane("s")))
		l.expect("a1")
		r.heard.forget("m1")
		before := r.overview().Commits
		r.done("a1")
		require.True(r, r.heard.woken("m1"), "Wake is called")
		require.Equal(r, []string{"a2"}, idsOf(l.claim(0).Dispatches))
		require.Equal(r, before+1, r.overview().Commits)
	}},
	{"a resume, a credit and a sweep wake a parked lease", func(r *rig) {
		l := r.attach(room(0))
		l.quiet()
		for i, free := range []func(){
			func() { three := 3; r.credit("m1", &three, false) },
			func() { r.unhold(ackstore.OfSession, "held") },
			func() { r.pass(time.Minute) },
		} {
			r.push([]ackstore.NewAction{action("a0", orphan(time.Hour)), action("a1", lane("held"), orphan(time.Hour)), action("a2", delay(time.Minute))}[i])
			if i == 0 {
				r.hold(ackstore.OfSession, "held")
			}
			l.quiet()
			r.heard.forget("m1")
			free()
			require.True(r, r.heard.woken("m1"), "Wake is called")
			l.expect(fmt.Sprint("a", i))
		}
	}},
	{"what no lease takes is not dispatched", func(r *rig) {
		r.attach().end()
		r.push(action("a1"))
		r.is(ackstore.Queued, "a1")
		require.Contains(r, []string{"machine_offline"}, r.get("a1").WaitingFor.Reason)
	}},
	{"a lease that has not taken its dispatches is given no more", func(r *rig) {
		l := r.attach(room(5))
		l.quiet()
		r.push(action("a1"))
		r.push(action("a2"))
		r.is(ackstore.InFlight, "a1")
		r.is(ackstore.Queued, "a2")
		l.expect("a1", "a2")
	}},
	{"a claim takes no more than it asks for", func(r *rig) {
		r.push(action("a1"), action("a2"), action("a3"))
		l := r.attach()
		require.Equal(r, []string{"a1"}, idsOf(l.claim(1).Dispatches))
		require.Equal(r, []string{"a2"}, idsOf(l.claim(1).Dispatches))
		l.expect("a3")
	}},
	{"a dispatch is handed over once", func(r *rig) {
		r.push(action("a1"))
		l := r.attach()
		l.expect("a1")
		l.quiet()
		l.quiet()
	}},
	{"every attach raises the epoch and fences the older lease", func(r *rig) {
		old := r.attach()
		next := r.attach()
		require.Greater(r, next.lease.Epoch, old.lease.Epoch)
		r.push(action("a1"))
		require.ErrorIs(r, old.claim(0).Err, ackstore.ErrFenced)
		next.expect("a1")
		require.ErrorIs(r, old.claim(0).Err, ackstore.ErrFenced)
		require.Equal(r, 1, r.get("a1").Deliveries)
	}},
	{"a fenced lease's end changes nothing", func(r *rig) {
		old := r.attach()
		next := r.attach()
		r.push(action("a1"))
		next.expect("a1")
		old.end()
		require.Equal(r, ackstore.Online, r.machine("m1").Presence)
		r.push(action("a2"))
		next.expect("a2")
		r.pass(r.rules.DisconnectGrace)
		r.is(ackstore.InFlight, "a1", "a2")
	}},
	{"a lease that ended is fenced or sends nothing", func(r *rig) {
		l := r.attach()
		l.end()
		r.push(action("a1"))
		got := l.claim(0)
		require.Empty(r, got.Dispatches)
		r.is(ackstore.Queued, "a1")
	}},
	{"epochs go on after a crash and old leases stay fenced", func(r *rig) {
		old := r.attach()
		r.reopen()
		next := r.attach()
		require.Greater(r, next.lease.Epoch, old.lease.Epoch)
		require.ErrorIs(r, old.claim(0).Err, ackstore.ErrFenced)
	}},
	{"a beat of a lease that is not the machine's is fenced", func(r *rig) {
		old := r.attach()
		next := r.attach()
		errs, err := r.store.Beat(ctx, r.rules, []ackstore.Lease{old.lease, next.lease, {MachineID: "m9", Epoch: 1}})
		require.NoError(r, err)
		require.Len(r, errs, 3)
		require.ErrorIs(r, errs[0], ackstore.ErrFenced)
		require.NoError(r, errs[1])
		require.ErrorIs(r, errs[2], ackstore.ErrFenced)
	}},
	{"a lease that misses its beats gets nothing until the next", func(r *rig) {
		l := r.attach()
		_, err := r.store.Beat(ctx, r.rules, []ackstore.Lease{l.lease})
		require.NoError(r, err)
		l.quiet()
		r.pass(r.rules.SuspectAfter - time.Millisecond)
		require.Equal(r, ackstore.Online, r.machine("m1").Presence)
		r.pass(time.Millisecond)
		require.Equal(r, ackstore.Suspect, r.machine("m1").Presence)
		r.push(action("a1"))
		l.quiet()
		r.waitsFor("a1", "machine_suspect")
		_, err = r.store.Beat(ctx, r.rules, []ackstore.Lease{l.lease})
		require.NoError(r, err)
		l.expect("a1")
		require.Equal(r, ackstore.Online, r.machine("m1").Presence)
	}},
	{"a lease that has never beaten is not suspected", func(r *rig) {
		l := r.attach()
		r.pass(time.Hour)
		require.Equal(r, ackstore.Online, r.machine("m1").Presence)
		r.push(action("a1"))
		l.expect("a1")
	}},
	{"credit holds under many callers at once", creditUnderLoad},
	{"many claims of one lease at a time hand over each dispatch once", func(r *rig) {
		const total = 200
		l := r.attach(room(total))
		for i := range total {
			r.push(action(fmt.Sprint("a", i)))
		}
		var wait sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]int{}
		for range 16 {
			wait.Go(func() {
				for range total {
					got, err := r.store.Claim(ctx, r.rules, []ackstore.ClaimReq{{Lease: l.lease, Max: 3}})
					if err != nil || len(got[0].Dispatches) == 0 {
						return
					}
					mu.Lock()
					for _, d := range got[0].Dispatches {
						seen[d.ActionID]++
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		for id, n := range seen {
			require.Equal(r, 1, n, "%s is handed over once", id)
		}
		for _, id := range idsOf(l.take()) {
			require.NotContains(r, seen, id)
			seen[id]++
		}
		require.Len(r, seen, total)
	}},
}

// creditUnderLoad races pushes, claims and acks, and looks at what is out.
func creditUnderLoad(r *rig) {
	const most, total = 3, 60
	l := r.attach(room(most))
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			for i := range total / 4 {
				_, _ = r.store.Push(ctx, r.rules, [][]ackstore.NewAction{{action(fmt.Sprintf("a%d-%d", p, i))}})
			}
		})
	}
	out, finished := map[string]bool{}, 0
	for finished < total {
		sent := l.claim(0).Dispatches
		if len(sent) == 0 && len(out) == finished {
			require.True(r, r.heard.woken("m1"), "all is sent in the end")
		}
		for _, d := range sent {
			require.False(r, out[d.ActionID], "%s is sent once", d.ActionID)
			out[d.ActionID] = true
		}
		require.LessOrEqual(r, len(out)-finished, most, "what is out")
		for id, open := range out {
			if open {
				r.done(id)
				out[id] = false
				finished++
				break
			}
		}
	}
	producers.Wait()
}

// creditChecks is max_in_flight from its three sources, and the byte limit.
var creditChecks = []check{
	{"no more is out than the credit allows", func(r *rig) {
		r.push(action("a1"), action("a2"), action("a3"))
		l := r.attach(room(2))
		require.Equal(r, 2, l.hello.Credit)
		l.expect("a1", "a2")
		require.ElementsMatch(r, []string{"a1", "a2"}, r.waitsFor("a3", "credit").InFlight)
		r.done("a1")
		l.expect("a3")
	}},
	{"a credit of 0 stops dispatch", func(r *rig) {
		l := r.attach(room(0))
		r.push(action("a1"))
		l.quiet()
		r.waitsFor("a1", "credit")
	}},
	{"the lower of the subscription's and an operator's is in force", func(r *rig) {
		two, five := 2, 5
		r.credit("m1", &two, true)
		require.Equal(r, 2, r.attach(room(9)).hello.Credit)
		require.Equal(r, 1, r.attach(room(1)).hello.Credit)
		r.attach(room(4))
		require.Equal(r, 4, r.credit("m1", &five, true).Credit)
		require.Equal(r, 4, r.credit("m1", nil, true).Credit)
	}},
	{"an operator's lasts until an operator changes it, across a crash", func(r *rig) {
		r.credit("m1", new(int), true)
		r.reopen()
		l := r.attach(as("another"), room(3))
		require.Equal(r, 0, l.hello.Credit)
		nine := 9
		require.Equal(r, 0, r.credit("m1", &nine, false).Credit)
		r.push(action("a1"))
		l.quiet()
		require.Equal(r, 9, r.credit("m1", nil, true).Credit, "the agent's own is what is left")
		l.expect("a1")
	}},
	{"an agent's own replaces the subscription's until another instance comes", func(r *rig) {
		one, seven := 1, 7
		r.attach(as("i1"), room(3))
		require.Equal(r, 7, r.credit("m1", &seven, false).Credit)
		require.Equal(r, 1, r.credit("m1", &one, false).Credit)
		require.Equal(r, 1, r.attach(as("i1"), room(3)).hello.Credit)
		require.Equal(r, 3, r.attach(as("i2"), room(3)).hello.Credit)
	}},
	{"the reason of the limit in force is shown", func(r *rig) {
		set := func(most *int, byOperator bool, why string) string {
			got, err := r.store.SetCredit(ctx, r.rules, []ackstore.CreditReq{{MachineID: "m1", Max: most, ByOperator: byOperator, Reason: why}})
			require.NoError(r, err)
			return got[0].CreditReason
		}
		shown := func() string {
			m, err := r.store.Machine(ctx, r.rules, "m1")
			require.NoError(r, err)
			return m.CreditReason
		}
		one, two := 1, 2
		r.attach(as("i1"), room(3))
		require.Equal(r, "no claude", set(&one, false, "no claude"))
		require.Equal(r, "no claude", set(&two, true, "night"))
		r.reopen()
		require.Equal(r, "no claude", shown())
		require.Equal(r, "repairs", set(new(int), true, "repairs"))
		require.Equal(r, "no claude", set(nil, true, "over"))
		require.Empty(r, set(&two, false, ""))
		set(&one, false, "no claude")
		r.attach(as("i2"), room(3))
		require.Empty(r, shown())
	}},
	{"an agent's own outlives a crash", func(r *rig) {
		r.attach(as("i1"), room(3)).end()
		r.credit("m1", new(int), false)
		r.reopen()
		l := r.attach(as("i1"), room(3))
		require.Equal(r, 0, l.hello.Credit)
		r.push(action("a1"))
		l.quiet()
	}},
	{"a machine that is not known is made", func(r *rig) {
		two := 2
		require.Equal(r, "m7", r.credit("m7", &two, true).ID)
		require.False(r, r.machine("m7").EverSubscribed)
	}},
	{"lowering withdraws nothing", func(r *rig) {
		l := r.attach(room(3))
		r.push(action("a1"), action("a2"), action("a3"), action("a4"))
		l.expect("a1", "a2", "a3")
		one := 1
		r.credit("m1", &one, false)
		r.is(ackstore.InFlight, "a1", "a2", "a3")
		r.done("a1", "a2")
		l.quiet()
		r.done("a3")
		l.expect("a4")
	}},
	{"what waits for a retry or a release holds no credit", func(r *rig) {
		l := r.attach(room(1))
		r.push(action("a1"), action("a2"), action("a3"))
		l.expect("a1")
		r.answers(ackstore.Retry, failed("a1", "transient"))
		l.expect("a2")
		r.answers(ackstore.ReleasedBack, released("a2", inAtLeast(time.Minute)))
		l.expect("a3")
	}},
	{"payload bytes in flight are bounded, one action always may be", func(r *rig) {
		r.rules.MaxInFlightBytes = 100
		big := payload(fmt.Sprintf(`"%080d"`, 1))
		r.push(action("a1", payload(fmt.Sprintf(`"%0200d"`, 1))), action("a2", big), action("a3", big), action("a4", payload("1")))
		l := r.attach()
		l.expect("a1")
		r.done("a1")
		require.Equal(r, "a2", l.take()[0].ActionID)
		r.is(ackstore.Queued, "a3")
		r.done("a2")
		require.Contains(r, idsOf(l.take()), "a3")
	}},
}
