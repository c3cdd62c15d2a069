package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

var pushChecks = []check{
	{"a group is answered in its order and seq grows", func(r *rig) {
		got := r.push(action("a1"), action("a2"), action("b1", of("m2")), action("a3"))
		for i, id := range []string{"a1", "a2", "b1", "a3"} {
			require.Equal(r, id, got[i].ActionID)
			require.Equal(r, ackstore.Queued, got[i].State)
			require.False(r, got[i].Duplicate)
			require.Equal(r, got[i].Seq, r.get(id).Seq)
		}
		require.Less(r, got[0].Seq, got[1].Seq)
		require.Less(r, got[1].Seq, got[3].Seq)
		require.Less(r, got[3].Seq, r.push(action("a4"))[0].Seq)
	}},
	{"what was pushed is read back as it was", func(r *rig) {
		now := r.clock.now()
		a := action("a1", lane("s1"), replay("r1"), kind("click"), target("claude/x"), priority(7), once, skip,
			payload(`{"b":1.10,"a":"\u0041"}`), label("k", "v"), label("l", ""), ttl(time.Hour), orphan(time.Second),
			idle(2*time.Second), ceiling(3*time.Second), resends(0), attempts(3), transients(4))
		r.push(a)
		got := r.get("a1")
		require.Equal(r, string(a.Payload), string(got.Payload), "the payload is kept byte by byte")
		require.Equal(r, len(a.Payload), got.PayloadBytes)
		require.Equal(r, []any{"m1", "s1", "r1", "click", "claude/x", 7, ackstore.AtMostOnce, ackstore.SkipDead},
			[]any{got.MachineID, got.SessionID, got.ReplayID, got.Type, got.Target, got.Priority, got.Guarantee, got.OnDead})
		require.Equal(r, map[string]string{"k": "v", "l": ""}, got.Labels)
		require.Equal(r, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, []time.Duration{got.OrphanTimeout, got.InactivityTimeout, got.Ceiling})
		require.Equal(r, []int{0, 3, 4}, []int{got.MaxResends, got.MaxAttempts, got.TransientMaxAttempts})
		require.True(r, got.CreatedAt.Equal(now))
		require.True(r, got.ExpiresAt.Equal(now.Add(time.Hour)), "a ttl runs from the store's now")
		require.Zero(r, got.Delivery)
		require.NotEmpty(r, got.Timeline)
	}},
	{"an empty payload and a large one", func(r *rig) {
		large := fmt.Sprintf(`"%01000000d"`, 7)
		r.push(action("empty", payload("null")), action("large", payload(large)))
		require.Equal(r, "null", string(r.get("empty").Payload))
		require.Equal(r, large, string(r.get("large").Payload))
		sent := r.attach().expect("empty", "large")
		require.Equal(r, large, string(sent[1].Payload))
	}},
	{"a repeat is a duplicate in every state and tells the present one", repeatInEveryState},
	{"a repeat inside a group counts once", func(r *rig) {
		got := r.push(action("a1"), action("a1"), action("a2"))
		require.False(r, got[0].Duplicate)
		require.True(r, got[1].Duplicate)
		require.Equal(r, got[0].Seq, got[1].Seq)
		require.Len(r, r.list(ackstore.Filter{}, 10), 2)
	}},
	{"a repeat of what is long cut from its labels or machine conflicts", func(r *rig) {
		r.push(action("a1"))
		for name, other := range map[string]ackstore.NewAction{
			"payload": action("a1", payload("2")), "machine": action("a1", of("m2")), "session": action("a1", lane("s")),
		} {
			require.ErrorIs(r, r.tryPush(other).Err, ackstore.ErrConflict, name)
		}
		require.Equal(r, `{"x":1}`, string(r.get("a1").Payload))
	}},
	{"a conflict takes its whole group with it and names the culprit", func(r *rig) {
		r.push(action("old"))
		p := r.tryPush(action("n1"), action("old", payload("2")), action("n2"))
		var conflict *ackstore.ConflictError
		require.ErrorAs(r, p.Err, &conflict)
		require.Equal(r, ackstore.ConflictError{Index: 1, ActionID: "old"}, *conflict)
		require.Nil(r, p.Items)
		r.unknown("n1", "n2")
	}},
	{"a conflict inside a group takes it whole", func(r *rig) {
		p := r.tryPush(action("n1"), action("n2"), action("n2", payload("2")))
		var conflict *ackstore.ConflictError
		require.ErrorAs(r, p.Err, &conflict)
		require.Equal(r, 2, conflict.Index)
		r.unknown("n1", "n2")
	}},
	{"groups fail apart", func(r *rig) {
		r.push(action("old"))
		got, err := r.store.Push(ctx, r.rules, [][]ackstore.NewAction{
			{action("a1"), action("a2")}, {action("b1"), action("old", payload("2"))}, {action("a1"), action("c1")},
		})
		require.NoError(r, err)
		require.NoError(r, got[0].Err)
		require.ErrorIs(r, got[1].Err, ackstore.ErrConflict)
		require.NoError(r, got[2].Err)
		require.True(r, got[2].Items[0].Duplicate, "a group sees the ones before it")
		r.is(ackstore.Queued, "a1", "a2", "c1")
		r.unknown("b1")
	}},
	{"what could never be sent is refused if it is new, and takes its group with it", func(r *rig) {
		late := func(n *ackstore.NewAction) { n.Late = true }
		p := r.tryPush(action("n1"), action("n2", late))
		var refused *ackstore.LateError
		require.ErrorAs(r, p.Err, &refused)
		require.Equal(r, ackstore.LateError{Index: 1, ActionID: "n2"}, *refused)
		r.unknown("n1", "n2")
		r.push(action("a1"))
		require.True(r, r.push(action("a1", late))[0].Duplicate, "a repeat is answered as one")
		r.attach().expect("a1")
		r.done("a1")
		r.pass(r.rules.KeepSettled + time.Second)
		require.True(r, r.push(action("a1", late))[0].Duplicate, "and of a tombstone too")
		require.ErrorIs(r, r.tryPush(action("a1", late, payload("2"))).Err, ackstore.ErrConflict)
	}},
	{"the seq of a refused group is nobody's", func(r *rig) {
		first := r.push(action("a1"))[0].Seq
		r.tryPush(action("n1"), action("a1", payload("2")))
		second := r.push(action("a2"))[0].Seq
		require.Greater(r, second, first)
		r.attach(room(2)).expect("a1", "a2")
	}},
	{"the queue limit refuses a group whole and never a repeat", func(r *rig) {
		r.rules.MaxQueued = 3
		r.push(action("a1"), action("a2", delay(time.Hour)))
		p := r.tryPush(action("a3"), action("a4"))
		var limit *ackstore.LimitError
		require.ErrorAs(r, p.Err, &limit)
		require.Equal(r, ackstore.LimitError{Index: 1, MachineID: "m1", Setting: "limits.max_queued_per_machine", Limit: 3}, *limit)
		r.unknown("a3", "a4")
		r.push(action("a3"))
		require.ErrorIs(r, r.tryPush(action("a4")).Err, ackstore.ErrLimit)
		require.True(r, r.push(action("a1"))[0].Duplicate)
		require.True(r, r.push(action("a1"), action("a3"))[1].Duplicate)
		r.push(action("b1", of("m2"))) // another machine has its own
	}},
	{"the queue limit counts what waits, not what is out", func(r *rig) {
		r.push(action("a1"), action("a2"))
		r.attach().expect("a1", "a2")
		r.rules.MaxQueued = 1
		r.credit("m1", new(int), true)
		r.push(action("a3"))
		require.ErrorIs(r, r.tryPush(action("a4")).Err, ackstore.ErrLimit)
	}},
	{"resends, retries and redrives are not counted against the queue limit", func(r *rig) {
		l := r.attach(as("i1"))
		r.push(action("lost"), action("retried"), action("redriven"))
		l.expect("lost", "retried", "redriven")
		r.answers(ackstore.Settled, failed("redriven", "permanent"))
		r.rules.MaxQueued = 1
		r.answers(ackstore.Retry, failed("retried", "error"))
		r.credit("m1", new(int), true)
		r.pass(r.rules.OrphanTimeout)
		r.is(ackstore.Queued, "lost")
		r.redrive("redriven")
		r.is(ackstore.Queued, "redriven")
	}},
	{"the limit of machines refuses a new one only", func(r *rig) {
		r.rules.MaxMachines = 2
		r.push(action("a1"), action("b1", of("m2")))
		var limit *ackstore.LimitError
		require.ErrorAs(r, r.tryPush(action("a2"), action("c1", of("m3"))).Err, &limit)
		require.Equal(r, "limits.max_machines", limit.Setting)
		r.unknown("a2", "c1")
		r.push(action("a2"), action("b2", of("m2")))
	}},
	{"a machine that has never subscribed is said to be unknown", func(r *rig) {
		require.True(r, r.push(action("a1"))[0].UnknownMachine)
		require.True(r, r.push(action("a2"))[0].UnknownMachine)
		r.attach().end()
		require.False(r, r.push(action("a3"))[0].UnknownMachine)
		r.reopen()
		require.False(r, r.push(action("a4"))[0].UnknownMachine)
	}},
	{"of many pushes of one id at a time one is new", func(r *rig) {
		const callers = 16
		var wait sync.WaitGroup
		answers := make([]ackstore.Pushed, callers)
		for i := range callers {
			wait.Go(func() {
				got, err := r.store.Push(ctx, r.rules, [][]ackstore.NewAction{{action("a1")}})
				if err == nil {
					answers[i] = got[0]
				}
			})
		}
		wait.Wait()
		fresh := 0
		for _, a := range answers {
			require.NoError(r, a.Err)
			require.Len(r, a.Items, 1)
			if !a.Items[0].Duplicate {
				fresh++
			}
		}
		require.Equal(r, 1, fresh)
		require.Len(r, r.list(ackstore.Filter{}, 10), 1)
	}},
	{"each producer's own order is the order of its lane", func(r *rig) {
		const producers, each = 8, 10
		var wait sync.WaitGroup
		for p := range producers {
			wait.Go(func() {
				for i := range each {
					a := action(fmt.Sprintf("p%d-%02d", p, i), lane(fmt.Sprintf("s%d", p)))
					_, _ = r.store.Push(ctx, r.rules, [][]ackstore.NewAction{{a}})
				}
			})
		}
		wait.Wait()
		l := r.attach(room(producers))
		next := map[string]int{}
		for range each {
			for _, d := range l.take() {
				require.Equal(r, fmt.Sprintf("p%s-%02d", d.SessionID[1:], next[d.SessionID]), d.ActionID)
				next[d.SessionID]++
				r.done(d.ActionID)
			}
		}
		require.Len(r, next, producers)
	}},
}

// repeatInEveryState pushes an action again in each of the nine states.
func repeatInEveryState(r *rig) {
	first := map[string]ackstore.NewAction{}
	push := func(a ackstore.NewAction) {
		first[a.ActionID] = a
		r.push(a)
	}
	l := r.attach()
	for _, state := range []string{"in_flight", "done", "failed"} {
		push(action(state, orphan(time.Hour)))
	}
	push(action("in_doubt", once, orphan(time.Second)))
	push(action("gave_up", resends(0), orphan(time.Second)))
	l.expect("in_flight", "done", "failed", "in_doubt", "gave_up")
	r.credit("m1", new(int), true)
	push(action("queued"))
	push(action("scheduled", delay(time.Hour)))
	push(action("expired", ttl(time.Second)))
	push(action("cancelled"))
	r.done("done")
	r.answers(ackstore.Settled, failed("failed", "permanent"))
	r.cancel("cancelled")
	r.pass(time.Second)
	for _, state := range ackstore.States() {
		id := state.String()
		r.is(state, id)
		before := r.get(id)
		got := r.push(first[id])[0]
		require.True(r, got.Duplicate, "%s", id)
		require.Equal(r, state.String(), got.State.String())
		require.Equal(r, before.Seq, got.Seq)
		r.same(before.Action, r.get(id).Action, "a repeat changes nothing")
	}
}

// unknown wants ids that the store has never seen.
func (r *rig) unknown(ids ...string) {
	r.Helper()
	for _, id := range ids {
		_, err := r.store.Get(ctx, r.rules, id)
		require.ErrorIs(r, err, ackstore.ErrUnknown, "Get %s", id)
	}
}
