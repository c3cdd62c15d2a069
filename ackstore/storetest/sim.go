package storetest

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pushd/ackstore"
)

// Simulate drives a store with random steps and checks the invariants of design
// section 7 after each. Its oracle is what went out on the wire, a model of what
// was said, and its own copy of the table of protocol section 9. The histories
// are the same each time, so that a red build speaks of the change; for others,
// and longer ones: -rapid.seed=N -rapid.checks=2000 -rapid.steps=100.
func Simulate(t *testing.T, open Factory) {
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.steps": "60"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			set(t, name, value)
		}
	}
	reached := map[[2]int]int{}
	rapid.Check(t, func(rt *rapid.T) { simulate(t, rt, open, reached) })
	for verb := ackstore.SaysReceived; verb <= ackstore.SaysCancelled; verb++ {
		for col := outNewest; col <= wasCancelled; col++ {
			if reached[[2]int{int(verb), int(col)}] == 0 {
				t.Logf("no %s reached column %d of the ack table", verb, col)
			}
		}
	}
}

// set gives a flag of rapid's another value for the rest of a test.
func set(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	require.NoError(t, f.Value.Set(value))
	t.Cleanup(func() { require.NoError(t, f.Value.Set(before)) })
}

// simulate is one run; reached counts acks by verb and column of the table.
func simulate(host testing.TB, t *rapid.T, open Factory, reached map[[2]int]int) {
	w := newWorld(host, t, open)
	w.reached = reached
	w.warm(t)
	t.Repeat(w.steps())
	w.settleAll()
}

// steps are drawn evenly by their names: what is to come often has several.
func (w *world) steps() map[string]func(*rapid.T) {
	often := func(all map[string]func(*rapid.T), n int, name string, step func(*rapid.T)) {
		for i := range n {
			all[fmt.Sprint(name, " ", i)] = step
		}
	}
	all := map[string]func(*rapid.T){
		"push again": w.stepPushAgain, "detach": w.stepDetach, "hold": w.stepHold, "credit": w.stepCredit,
		"breaker": w.stepCloseBreaker, "cancel": w.stepCancel, "resolve": w.stepResolve, "crash": w.stepCrash,
		"": func(*rapid.T) { w.check() },
	}
	often(all, 9, "ack", w.stepAck)
	often(all, 3, "pass", w.stepPass)
	often(all, 2, "push", w.stepPush)
	often(all, 2, "attach", w.stepAttach)
	often(all, 2, "return", w.stepReturn)
	often(all, 2, "claim", w.stepClaim)
	often(all, 2, "lose", w.stepLose)
	often(all, 2, "resume", w.stepResume)
	often(all, 2, "redrive", w.stepRedrive)
	return all
}

// warm begins with an agent at work, for a run is short.
func (w *world) warm(t *rapid.T) {
	w.stepPush(t)
	w.check()
	w.subscribe(t, "m1", "i0", 5)
	w.check()
	w.stepPush(t)
	w.check()
}

// thing is what the model knows of one action.
type thing struct {
	pushed   ackstore.NewAction
	sends    map[int]ackstore.Dispatch // on the wire, by delivery
	newest   int                       // highest delivery that was on the wire
	acked    map[int]bool              // an ack has named it, or a Last-Event-ID covers it
	vague    map[int]bool              // the protocol leaves open whether it counts as acked
	verdicts map[int]ackstore.Verb
	over     bool   // a result was taken, and no redrive came after it
	free     bool   // at_most_once: its last delivery was certainly not begun
	result   string // that settled it as done
}

// stepKind is what the last step was, for invariants that allow it more.
type stepKind struct {
	name string
	id   string // of the action it was about
}

// world is a store, a model of it, and the last two looks at the store.
type world struct {
	*rig
	things map[string]*thing
	ids    []string
	lines  map[string]*line
	names  map[string]string // instance that subscribed last, by machine
	events map[string]uint64 // highest event id on the wire, by machine
	births int               // instances so far

	credits credits
	reached map[[2]int]int

	step      stepKind
	prev, cur snapshot
	forgotten map[string]bool // past retention
}

// snapshot is all that a store tells of its actions at one moment.
type snapshot struct {
	actions  map[string]ackstore.Action
	holds    []ackstore.Hold
	breakers []ackstore.Breaker
	now      time.Time
}

func newWorld(host testing.TB, t *rapid.T, open Factory) *world {
	w := &world{
		rig: newRig(host, t, open), things: map[string]*thing{}, lines: map[string]*line{},
		names: map[string]string{}, credits: newCredits(), events: map[string]uint64{}, forgotten: map[string]bool{},
	}
	w.rules.OrphanTimeout, w.rules.PollOrphanTimeout = 10*time.Second, 20*time.Second
	w.rules.InactivityTimeout, w.rules.Ceiling = 40*time.Second, 200*time.Second
	w.rules.MaxDisconnectResends = 3
	w.rules.DisconnectGrace, w.rules.ReconnectGrace, w.rules.CancelGrace = 5*time.Second, 20*time.Second, 8*time.Second
	w.rules.BackoffBase, w.rules.BackoffMax, w.rules.QuotaDelay = 2*time.Second, 8*time.Second, time.Minute
	w.rules.BreakerPause = 30 * time.Second
	w.rules.KeepSettled, w.rules.KeepDead, w.rules.KeepTombstones = 20*time.Minute, 30*time.Minute, 24*time.Hour
	w.rules.RepushTail = rapid.Float64Range(0, 1).Draw(t, "tail") > 0.85
	w.cur = w.look()
	w.prev = w.cur
	return w
}

// look takes a snapshot.
func (w *world) look() snapshot {
	w.Helper()
	s := snapshot{actions: map[string]ackstore.Action{}, now: w.clock.now()}
	for _, a := range w.list(ackstore.Filter{}, 500) {
		require.NotContains(w, s.actions, a.ID, "listed once")
		s.actions[a.ID] = a
	}
	o := w.overview()
	s.holds, s.breakers = o.Holds, o.Breakers
	return s
}

// begin names the step that follows.
func (w *world) begin(name, id string) { w.step = stepKind{name, id} }

// check is made after each step.
func (w *world) check() {
	w.Helper()
	w.prev, w.cur = w.cur, w.look()
	for _, inv := range invariants {
		inv.holds(w)
	}
	w.step = stepKind{}
}

// claimed notes what came out on a line and holds it against the wire's rules.
func (w *world) claimed(l *line, got ackstore.Claimed) {
	w.Helper()
	for _, d := range got.Dispatches {
		th := w.things[d.ActionID]
		require.NotNil(w, th, "%s was never pushed", d.ActionID)
		inv2(w, th, d)
		inv3(w, th, d)
		inv4(w, th, d)
		require.Equal(w, l.lease.MachineID, d.MachineID)
		require.Equal(w, string(th.pushed.Payload), string(d.Payload), "payload of %s", d.ActionID)
		th.sends[d.Delivery], th.newest, th.free = d, d.Delivery, false
		w.events[d.MachineID] = d.EventID
	}
}

// pick draws one of the actions there are, or skips the step.
func (w *world) pick(t *rapid.T, fits func(ackstore.Action) bool) ackstore.Action {
	var found []string
	for _, id := range w.ids {
		if a, ok := w.cur.actions[id]; ok && (fits == nil || fits(a)) {
			found = append(found, id)
		}
	}
	if len(found) == 0 {
		t.Skip("no such action")
	}
	return w.cur.actions[rapid.SampledFrom(found).Draw(t, "action")]
}

// still wants an action to be as it was, but for what only a start knows.
func (w *world) still(before ackstore.Action, msg string) {
	w.Helper()
	w.same(durable(&ackstore.Record{Action: before}).Action, durable(w.get(before.ID)).Action, "%s: %s", before.ID, msg)
}

func oneOf[T any](t *rapid.T, name string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, name)
}

var machinesOfSim = []string{"m1", "m2", "m3"}

// settleAll is a healthy agent with nothing paused: all must settle.
func (w *world) settleAll() {
	w.Helper()
	w.begin("settle all", "")
	for round := range 60 {
		for _, h := range w.overview().Holds {
			w.unhold(h.Scope, h.ID)
		}
		for _, b := range w.overview().Breakers {
			require.NoError(w, w.store.CloseBreaker(ctx, w.rules, b.MachineID, b.Target))
		}
		for _, m := range machinesOfSim {
			w.credit(m, nil, true)
			l := w.attach(on(m), as(fmt.Sprint("healthy", round)), room(50))
			for _, d := range l.take() {
				w.claimed(l, ackstore.Claimed{Dispatches: []ackstore.Dispatch{d}})
				if a := w.ack(done(d.ActionID, delivery(d.Delivery))); a.State == ackstore.Done {
					w.things[d.ActionID].over = true
				}
			}
		}
		open := 0
		for _, a := range w.list(ackstore.Filter{}, 500) {
			if a.State == ackstore.InDoubt {
				w.done(a.ID)
				w.things[a.ID].over = true
			} else if !a.State.Settled() {
				open++
			}
		}
		if open == 0 {
			return
		}
		w.pass(time.Minute)
	}
	inv11(w)
}
