package storetest

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// reporter is what a check fails on: a *testing.T, a *rapid.T or a recorder.
type reporter interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	FailNow()
	Failed() bool
	Cleanup(func())
}

// rig is a store under test with its clock, its numbers and its ears.
type rig struct {
	reporter
	store ackstore.Store
	rules ackstore.Rules
	clock *clock
	heard *ear

	host testing.TB
	open Factory
	dir  string
}

// ctx is that of every call: nothing here is cancelled half-way.
var ctx = context.Background()

// newRig opens a store in a directory of its own; at the end of the test its
// counts are compared with a full scan.
func newRig(host testing.TB, report reporter, open Factory) *rig {
	host.Helper()
	dir, err := os.MkdirTemp("", "storetest")
	require.NoError(report, err)
	r := &rig{
		reporter: report, rules: defaults(), host: host, open: open, dir: dir,
		clock: &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		heard: newEar(),
	}
	r.store = open(host, dir, r.clock.now, r.heard)
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	r.Cleanup(func() {
		if !r.Failed() {
			r.tally()
		}
		err := r.store.Close()
		if !r.Failed() {
			require.NoError(r, err)
		}
	})
	return r
}

// defaults are the settings of design section 5.
func defaults() ackstore.Rules {
	return ackstore.Rules{
		OrphanTimeout: 15 * time.Second, PollOrphanTimeout: 30 * time.Second,
		InactivityTimeout: 10 * time.Minute, Ceiling: 4 * time.Hour, MaxDisconnectResends: 8,
		DisconnectGrace: 10 * time.Second, ReconnectGrace: time.Minute,
		CancelGrace: 30 * time.Second, SuspectAfter: 45 * time.Second,
		ErrorDelay: time.Second, BackoffBase: 10 * time.Second, BackoffMax: 10 * time.Minute,
		QuotaDelay: 15 * time.Minute, ReleaseDelay: 250 * time.Millisecond,
		BreakerThreshold: 3, BreakerPause: 5 * time.Minute,
		MaxInFlightBytes: 8 << 20, MaxQueued: 100_000, MaxMachines: 100_000,
		KeepSettled: 24 * time.Hour, KeepDead: 336 * time.Hour, KeepTombstones: 720 * time.Hour,
	}
}

// reopen crashes the store and starts another on what is left.
func (r *rig) reopen() {
	r.Helper()
	require.NoError(r, Crash(r.store), "crash")
	r.store = r.open(r.host, r.dir, r.clock.now, r.heard)
}

// pass moves the clock and lets the store do what that brings.
func (r *rig) pass(d time.Duration) ackstore.Swept {
	r.Helper()
	r.clock.add(d)
	return r.sweep()
}

func (r *rig) sweep() ackstore.Swept {
	r.Helper()
	var sum ackstore.Swept
	for range 10_000 {
		s, err := r.store.Sweep(ctx, r.rules, 64)
		require.NoError(r, err, "Sweep")
		sum.Detected += s.Detected
		sum.GaveUp += s.GaveUp
		sum.Doubted += s.Doubted
		sum.Stalled += s.Stalled
		sum.Expired += s.Expired
		if !s.More {
			return sum
		}
	}
	require.Fail(r, "Sweep says for ever that there is more")
	return sum
}

// sameSet compares two lists of which the order does not matter.
func (r *rig) sameSet(want, got any, msg string) {
	r.Helper()
	texts := func(list any) []string {
		raw, err := json.Marshal(list)
		require.NoError(r, err)
		var items []json.RawMessage
		require.NoError(r, json.Unmarshal(raw, &items))
		out := []string{}
		for _, item := range items {
			out = append(out, string(item))
		}
		slices.Sort(out)
		return out
	}
	require.Equal(r, texts(want), texts(got), msg)
}

// push takes one group whole.
func (r *rig) push(group ...ackstore.NewAction) []ackstore.PushedAction {
	r.Helper()
	p := r.tryPush(group...)
	require.NoError(r, p.Err, "Push")
	require.Len(r, p.Items, len(group), "a group is answered item by item")
	return p.Items
}

func (r *rig) tryPush(group ...ackstore.NewAction) ackstore.Pushed {
	r.Helper()
	answers, err := r.store.Push(ctx, r.rules, [][]ackstore.NewAction{group})
	require.NoError(r, err, "Push")
	require.Len(r, answers, 1)
	return answers[0]
}

// ack applies one ack.
func (r *rig) ack(a ackstore.Ack) ackstore.AckResult {
	r.Helper()
	answers, err := r.store.Settle(ctx, r.rules, []ackstore.Ack{a})
	require.NoError(r, err, "Settle")
	require.Len(r, answers, 1)
	require.Equal(r, a.ActionID, answers[0].ActionID)
	return answers[0]
}

// answers applies one ack and wants its outcome.
func (r *rig) answers(want ackstore.Outcome, a ackstore.Ack) ackstore.AckResult {
	r.Helper()
	got := r.ack(a)
	require.Equal(r, want.String(), got.Outcome.String(), "%s of %s", a.Verb, a.ActionID)
	return got
}

// done settles actions by their newest delivery.
func (r *rig) done(ids ...string) {
	r.Helper()
	for _, id := range ids {
		r.answers(ackstore.Settled, done(id))
	}
}

func (r *rig) get(id string) *ackstore.Record {
	r.Helper()
	rec, err := r.store.Get(ctx, r.rules, id)
	require.NoError(r, err, "Get %s", id)
	return &rec
}

// same compares what two reads gave: as text, for instants of one moment may
// differ in memory.
func (r *rig) same(want, got any, msg string, args ...any) {
	r.Helper()
	a, err := json.MarshalIndent(want, "", " ")
	require.NoError(r, err)
	b, err := json.MarshalIndent(got, "", " ")
	require.NoError(r, err)
	require.Equal(r, string(a), string(b), append([]any{msg}, args...)...)
}

// is wants every one of ids in a state.
func (r *rig) is(want ackstore.State, ids ...string) {
	r.Helper()
	for _, id := range ids {
		require.Equal(r, want.String(), r.get(id).State.String(), "state of %s", id)
	}
}

// waitsFor wants the reason why an action is not sent.
func (r *rig) waitsFor(id, reason string) ackstore.Waiting {
	r.Helper()
	rec := r.get(id)
	require.NotNil(r, rec.WaitingFor, "%s is %s and waits for nothing", id, rec.State)
	require.Equal(r, reason, rec.WaitingFor.Reason, "what %s waits for", id)
	return *rec.WaitingFor
}

func (r *rig) overview() ackstore.Overview {
	r.Helper()
	o, err := r.store.Overview(ctx, r.rules)
	require.NoError(r, err, "Overview")
	return o
}

func (r *rig) machine(id string) ackstore.Machine {
	r.Helper()
	m, err := r.store.Machine(ctx, r.rules, id)
	require.NoError(r, err, "Machine %s", id)
	return m
}

// act applies one operator's verb to one action.
func (r *rig) act(verb func(context.Context, ackstore.Rules, []ackstore.Act) ([]ackstore.Acted, error), a ackstore.Act) ackstore.Acted {
	r.Helper()
	if a.By == "" {
		a.By = "operator"
	}
	got, err := verb(ctx, r.rules, []ackstore.Act{a})
	require.NoError(r, err)
	require.Len(r, got, 1)
	return got[0]
}

func (r *rig) cancel(id string) ackstore.Action {
	r.Helper()
	got := r.act(r.store.Cancel, ackstore.Act{ActionID: id})
	require.NoError(r, got.Err, "Cancel %s", id)
	return got.Action
}

func (r *rig) redrive(id string) ackstore.Action {
	r.Helper()
	got := r.act(r.store.Redrive, ackstore.Act{ActionID: id})
	require.NoError(r, got.Err, "Redrive %s", id)
	return got.Action
}

func (r *rig) resolve(id string, as ackstore.State) ackstore.Action {
	r.Helper()
	got := r.act(r.store.Resolve, ackstore.Act{ActionID: id, As: as, Note: "looked at the screen"})
	require.NoError(r, got.Err, "Resolve %s", id)
	return got.Action
}

// hold pauses a scope as an operator does.
func (r *rig) hold(scope ackstore.Scope, id string, words ...func(*ackstore.Hold)) {
	r.Helper()
	h := ackstore.Hold{Scope: scope, ID: id, Cause: ackstore.HeldByOperator, By: "operator", Since: r.clock.now()}
	for _, word := range words {
		word(&h)
	}
	require.NoError(r, r.store.Hold(ctx, r.rules, h), "Hold %s %s", scope, id)
}

func (r *rig) unhold(scope ackstore.Scope, id string) {
	r.Helper()
	require.NoError(r, r.store.Unhold(ctx, r.rules, scope, id, ""), "Unhold %s %s", scope, id)
}

// causes lists why a scope is paused, sorted.
func (r *rig) causes(scope ackstore.Scope, id string) []string {
	r.Helper()
	found := []string{}
	for _, h := range r.overview().Holds {
		if h.Scope == scope && h.ID == id {
			found = append(found, h.Cause)
		}
	}
	slices.Sort(found)
	return found
}

// credit changes a machine's max_in_flight; nil lifts the operator's.
func (r *rig) credit(machine string, most *int, byOperator bool) ackstore.Machine {
	r.Helper()
	got, err := r.store.SetCredit(ctx, r.rules, []ackstore.CreditReq{{MachineID: machine, Max: most, ByOperator: byOperator}})
	require.NoError(r, err, "SetCredit")
	require.Len(r, got, 1)
	return got[0]
}

// list reads all that a filter selects, a small page at a time.
func (r *rig) list(f ackstore.Filter, page int) []ackstore.Action {
	r.Helper()
	var all []ackstore.Action
	cursor := ""
	for range 10_000 {
		items, next, err := r.store.List(ctx, f, cursor, page)
		require.NoError(r, err, "List")
		require.LessOrEqual(r, len(items), page)
		all = append(all, items...)
		if next == "" {
			return all
		}
		cursor = next
	}
	require.Fail(r, "List pages for ever")
	return nil
}

// clock is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// ear is a Listener that remembers.
type ear struct {
	mu      sync.Mutex
	wakes   map[string]chan struct{}
	due     time.Time
	changes []ackstore.Change
}

func newEar() *ear { return &ear{wakes: map[string]chan struct{}{}} }

func (e *ear) Wake(machineID string) {
	select {
	case e.bell(machineID) <- struct{}{}:
	default:
	}
}

func (e *ear) Due(next time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.due = next
}

func (e *ear) Changed(changes []ackstore.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changes = append(e.changes, changes...)
}

func (e *ear) bell(machineID string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wakes[machineID] == nil {
		e.wakes[machineID] = make(chan struct{}, 1)
	}
	return e.wakes[machineID]
}

// forget drops a wake that was heard before.
func (e *ear) forget(machineID string) {
	select {
	case <-e.bell(machineID):
	default:
	}
}

// woken waits for a wake; a listener may hear it after the verb has answered.
func (e *ear) woken(machineID string) bool {
	select {
	case <-e.bell(machineID):
		return true
	case <-time.After(5 * time.Second):
		return false
	}
}
