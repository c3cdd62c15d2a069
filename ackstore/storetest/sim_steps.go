package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/ackstore"
)

func (w *world) stepPush(t *rapid.T) {
	if len(w.ids) >= 16 {
		t.Skip("enough")
	}
	w.begin("push", "")
	for range oneOf(t, "pushes", 1, 2, 3) {
		w.pushOne(t)
	}
}

func (w *world) pushOne(t *rapid.T) {
	id := fmt.Sprint("a", len(w.ids))
	a := action(id, of(oneOf(t, "machine", "m1", "m1", "m1", "m2", "m3")), lane(oneOf(t, "session", "", "s1", "s1", "s2", "s3")),
		replay(oneOf(t, "replay", "", "", "r1")), target(oneOf(t, "target", "", "", "x", "shared/x")),
		priority(oneOf(t, "priority", 0, 0, 1, 9)), resends(oneOf(t, "resends", 0, 1, 2)), attempts(oneOf(t, "attempts", 1, 2)),
		transients(oneOf(t, "transients", 1, 3)), delay(oneOf(t, "delay", 0, 0, 0, 7*time.Second)),
		orphan(oneOf(t, "orphan", 0, 0, 4*time.Second)), idle(oneOf(t, "idle", 0, 0, 12*time.Second)),
		ceiling(oneOf(t, "ceiling", 0, 0, 30*time.Second)), ttl(oneOf(t, "ttl", 0, 0, 0, 15*time.Second, time.Minute)),
		payload(fmt.Sprintf(`"%s"`, id)))
	if oneOf(t, "once", false, false, true) {
		once(&a)
	}
	if oneOf(t, "skip", false, true) {
		skip(&a)
	}
	a.Digest = digest(a)
	got := w.push(a)[0]
	require.False(w, got.Duplicate)
	w.asPushed(a)
	w.ids = append(w.ids, id)
	w.things[id] = &thing{pushed: a, sends: map[int]ackstore.Dispatch{}, acked: map[int]bool{}, vague: map[int]bool{}, verdicts: map[int]ackstore.Verb{}}
}

// asPushed wants the store to keep what it was given.
func (w *world) asPushed(a ackstore.NewAction) {
	w.Helper()
	rec, now := w.get(a.ActionID), w.clock.now()
	require.Equal(w, []any{a.SessionID, a.ReplayID, a.Target, a.Priority, a.Guarantee, a.OnDead, a.MaxResends, a.MaxAttempts, a.TransientMaxAttempts},
		[]any{rec.SessionID, rec.ReplayID, rec.Target, rec.Priority, rec.Guarantee, rec.OnDead, rec.MaxResends, rec.MaxAttempts, rec.TransientMaxAttempts})
	require.Equal(w, a.TTL == 0, rec.ExpiresAt.IsZero(), "expires_at of %s", a.ActionID)
	require.True(w, a.TTL == 0 || rec.ExpiresAt.Equal(now.Add(a.TTL)), "expires_at of %s", a.ActionID)
	require.Equal(w, a.Delay > 0, rec.State == ackstore.Scheduled, "%s is %s", a.ActionID, rec.State)
	require.True(w, a.Delay == 0 || rec.AvailableAt.Equal(now.Add(a.Delay)), "available_at of %s", a.ActionID)
}

// stepPushAgain repeats a push, as it was or with other content.
func (w *world) stepPushAgain(t *rapid.T) {
	before := w.pick(t, nil)
	a := w.things[before.ID].pushed
	w.begin("push again", before.ID)
	if oneOf(t, "other content", false, true) {
		a.Payload = []byte("2")
		a.Digest = digest(a)
		require.ErrorIs(w, w.tryPush(action("never"), a).Err, ackstore.ErrConflict)
		w.unknown("never")
	} else {
		got := w.push(a)[0]
		require.Equal(w, []any{true, before.State.String(), before.Seq}, []any{got.Duplicate, got.State.String(), got.Seq})
	}
	w.still(before, "a repeated push moves nothing")
}

func (w *world) stepAttach(t *rapid.T) {
	m := oneOf(t, "machine", "m1", "m1", "m2", "m3")
	w.births++
	instance := oneOf(t, "instance", "", fmt.Sprint("i", w.births))
	w.subscribe(t, m, instance, oneOf(t, "room", 0, 1, 2, 5, 5, 5))
}

// stepReturn is an agent that comes back as who it was.
func (w *world) stepReturn(t *rapid.T) {
	m := oneOf(t, "machine", machinesOfSim...)
	instance, known := w.names[m]
	if !known {
		t.Skip("has never been here")
	}
	w.subscribe(t, m, instance, oneOf(t, "room", 1, 2, 5, 5))
}

// subscribe attaches a stream or a poll and holds it against section 7.
func (w *world) subscribe(t *rapid.T, m, instance string, most int) {
	subs := []sub{on(m), as(instance), room(most)}
	known := uint64(0)
	if w.hasMachine(m) {
		known = w.machine(m).LastEventID
	}
	lastID, given := uint64(0), true
	switch oneOf(t, "last", "none", "newest", "newest", "older", "zero", "future") {
	case "none":
		given = false
	case "newest":
		lastID = w.events[m]
	case "older":
		lastID = uint64(rapid.IntRange(0, int(w.events[m])).Draw(t, "older"))
	case "future":
		lastID = known + 100
	}
	if given {
		subs = append(subs, last(lastID))
	}
	poll := oneOf(t, "poll", false, false, false, false, true)
	if poll {
		subs = append(subs, byPoll)
	}
	w.begin("attach", "")
	before := w.look()
	l := w.attach(subs...)
	l.last = 0 // the wire's own rule looks at event ids
	w.credits.subscribed(m, w.names[m], instance, most)
	w.credits.inForce(w, m, l.hello.Credit)
	w.lines[m], w.names[m] = l, instance
	if poll {
		w.vaguely(m)
		return
	}
	w.judged(before, w.look(), l, judging{m, instance, lastID, given && lastID <= known})
	if oneOf(t, "takes", true, true, false) {
		w.takes(l, 0)
	}
}

// vaguely gives up on knowing what a poll's Last-Event-ID made of deliveries.
func (w *world) vaguely(m string) {
	for _, th := range w.things {
		if th.pushed.MachineID == m {
			for d := range th.sends {
				th.vague[d] = true
			}
			if th.pushed.Guarantee == ackstore.AtMostOnce && !th.over {
				th.free = true
			}
		}
	}
}

func (w *world) hasMachine(m string) bool {
	_, err := w.store.Machine(ctx, w.rules, m)
	return err == nil
}

func (w *world) liveLine(t *rapid.T) *line {
	var live []string
	for _, m := range machinesOfSim {
		if w.lines[m] != nil {
			live = append(live, m)
		}
	}
	if len(live) == 0 {
		t.Skip("nobody is there")
	}
	return w.lines[rapid.SampledFrom(live).Draw(t, "line")]
}

func (w *world) stepClaim(t *rapid.T) {
	l := w.liveLine(t)
	w.begin("claim", "")
	w.takes(l, oneOf(t, "most", 0, 0, 1))
}

// takes claims once, or all there is, which parks the lease.
func (w *world) takes(l *line, most int) {
	w.Helper()
	for {
		got := l.claim(most)
		require.NoError(w, got.Err)
		w.claimed(l, got)
		if most > 0 || len(got.Dispatches)+len(got.Cancels) == 0 {
			return
		}
	}
}

// stepDetach ends a stream, at times with deliveries that were never written.
func (w *world) stepDetach(t *rapid.T) {
	l := w.liveLine(t)
	m := l.lease.MachineID
	w.begin("detach", "")
	q := ackstore.DetachReq{Lease: l.lease, Quiet: oneOf(t, "quiet", false, false, true)}
	if oneOf(t, "unwritten", false, true) {
		for _, id := range w.ids {
			a, th := w.cur.actions[id], w.things[id]
			if a.MachineID == m && a.State == ackstore.InFlight && a.Epoch == l.lease.Epoch && th.newest == a.Delivery && !th.acked[a.Delivery] && !th.vague[a.Delivery] {
				q.Unwritten = append(q.Unwritten, ackstore.Ref{ActionID: id, Delivery: a.Delivery})
				delete(th.sends, a.Delivery)
				th.free = true
			}
		}
	}
	l.detach(q)
	for _, u := range q.Unwritten {
		rec := w.get(u.ActionID)
		require.Equal(w, []any{ackstore.Queued.String(), u.Delivery, w.cur.actions[u.ActionID].Deliveries - 1}, []any{unlessAsked(rec), rec.Delivery, rec.Deliveries}, "%s was never written", u.ActionID)
	}
	w.lines[m] = nil
}

// unlessAsked reads a state, where a cancel that was asked for is as good as queued.
func unlessAsked(rec *ackstore.Record) string {
	if rec.State == ackstore.Cancelled || rec.State == ackstore.Expired {
		return ackstore.Queued.String()
	}
	return rec.State.String()
}

// stepLose is what goes out and is not heard of: a stream that ends, or silence.
func (w *world) stepLose(t *rapid.T) {
	if oneOf(t, "cut", true, false) {
		l := w.liveLine(t)
		w.begin("pass", "")
		l.end()
		w.lines[l.lease.MachineID] = nil
		w.pass(w.rules.DisconnectGrace)
		return
	}
	w.begin("pass", "")
	w.pass(w.rules.OrphanTimeout)
}

func (w *world) stepPass(t *rapid.T) {
	w.begin("pass", "")
	w.pass(oneOf(t, "pass", time.Millisecond, time.Second, 2*time.Second, 4*time.Second, 5*time.Second, 8*time.Second, 10*time.Second, 20*time.Second, 45*time.Second, 21*time.Minute))
}

func (w *world) stepHold(t *rapid.T) {
	w.begin("hold", "")
	words := []func(*ackstore.Hold){}
	if oneOf(t, "until", false, true) {
		words = append(words, until(w.clock.now().Add(10*time.Second)))
	}
	scope, id := oneOf(t, "scope", ackstore.OfMachine, ackstore.OfSession, ackstore.OfReplay), "r1"
	switch scope {
	case ackstore.OfMachine:
		id = oneOf(t, "machine", machinesOfSim...)
	case ackstore.OfSession:
		id = oneOf(t, "session", "s1", "s2")
		if oneOf(t, "here", false, true) {
			words = append(words, onMachine("m1"))
		}
	}
	w.hold(scope, id, words...)
	require.Contains(w, w.causes(scope, id), ackstore.HeldByOperator, "what an operator paused is shown")
}

func (w *world) stepResume(t *rapid.T) {
	if len(w.cur.holds) == 0 {
		t.Skip("nothing is paused")
	}
	h := rapid.SampledFrom(w.cur.holds).Draw(t, "hold")
	w.begin("resume", "")
	w.unhold(h.Scope, h.ID)
}

func (w *world) stepCloseBreaker(t *rapid.T) {
	if len(w.cur.breakers) == 0 {
		t.Skip("all are closed")
	}
	b := rapid.SampledFrom(w.cur.breakers).Draw(t, "breaker")
	w.begin("breaker", "")
	w.closeBreaker(b.MachineID, b.Target)
}

func (w *world) stepCredit(t *rapid.T) {
	w.begin("credit", "")
	most := oneOf(t, "most", 0, 1, 3, 5)
	operator := oneOf(t, "operator", false, true)
	m := oneOf(t, "machine", machinesOfSim...)
	if operator && oneOf(t, "lift", false, true) {
		w.credits.operator[m] = nil
		w.credits.inForce(w, m, w.credit(m, nil, true).Credit)
		return
	}
	if operator {
		w.credits.operator[m] = &most
	} else {
		w.credits.patched[m], w.credits.own[m] = true, most
	}
	w.credits.inForce(w, m, w.credit(m, &most, operator).Credit)
}

func (w *world) stepCrash(*rapid.T) {
	w.begin("crash", "")
	clear(w.lines)
	inv15(w)
}

// stepCancel holds a cancel against its column of the second table of section 12.
func (w *world) stepCancel(t *rapid.T) {
	a := w.pick(t, nil)
	w.begin("cancel", a.ID)
	got := w.cancel(a.ID)
	switch {
	case a.State.Settled():
		w.still(a, "a cancel of what is settled")
	case a.State == ackstore.InFlight:
		require.True(w, got.CancelAsked() || got.State == ackstore.Cancelled)
	default:
		require.Equal(w, ackstore.Cancelled.String(), got.State.String())
	}
}

func (w *world) stepRedrive(t *rapid.T) {
	a := w.pick(t, func(a ackstore.Action) bool { return a.State >= ackstore.InDoubt || a.Redrives > 0 })
	w.begin("redrive", a.ID)
	got := w.act(w.store.Redrive, ackstore.Act{ActionID: a.ID})
	if a.State != ackstore.InDoubt && !a.State.DeadLetter() && a.State != ackstore.Cancelled {
		require.ErrorIs(w, got.Err, ackstore.ErrNotEligible)
		w.still(a, "a redrive that is refused")
		return
	}
	require.NoError(w, got.Err)
	rec := w.get(a.ID)
	require.Contains(w, []ackstore.State{ackstore.Queued, ackstore.InFlight}, rec.State)
	require.Equal(w, []any{0, 0, 0, 0, 0, 0, true}, []any{rec.Resent(), rec.Attempts, rec.TransientAttempts, rec.QuotaWaits, rec.ConfigWaits, rec.Releases, rec.ExpiresAt.IsZero()})
	th := w.things[a.ID]
	th.over, th.free, th.result = false, true, ""
}

func (w *world) stepResolve(t *rapid.T) {
	a := w.pick(t, func(a ackstore.Action) bool { return a.State >= ackstore.InFlight })
	as := oneOf(t, "as", ackstore.Done, ackstore.Failed)
	w.begin("resolve", a.ID)
	got := w.act(w.store.Resolve, ackstore.Act{ActionID: a.ID, As: as})
	if a.State != ackstore.InDoubt && a.State != ackstore.GaveUp {
		require.ErrorIs(w, got.Err, ackstore.ErrNotEligible)
		w.still(a, "a resolve that is refused")
		return
	}
	require.NoError(w, got.Err)
	require.Equal(w, as.String(), got.Action.State.String())
	w.things[a.ID].over = true
}
