package boltstore_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

func (d *desk) redrive(id string) error {
	acted, err := d.s.Redrive(d.t.Context(), rules, []ackstore.Act{{ActionID: id}})
	require.NoError(d.t, err)
	return acted[0].Err
}

func (d *desk) overview() ackstore.Overview {
	o, err := d.s.Overview(d.t.Context(), rules)
	require.NoError(d.t, err)
	return o
}

// lose lets the orphan timeout pass and reads what is sent again, until id is
// out of resends, and returns the number of the delivery that is lost last.
func (d *desk) spend(id string) int {
	for range 2 {
		d.pass(rules.OrphanTimeout)
		require.Len(d.t, d.read(), 1)
	}
	return d.record(id).Delivery
}

// The ack that lifts a machine's pause is not beaten by what the end of the pause
// does to its own action.
func TestAnAckIsAppliedBeforeThePauseThatItLifts(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, d.s.Follow(t.Context(), []ackstore.Following{{Rule: "after"}}))
	d.subscribe(1)
	d.read()
	for _, id := range []string{"dead1", "dead2"} {
		d.push(job(id, "m1", ""))
		require.Len(t, d.read(), 1)
		d.spend(id)
		if id == "dead2" {
			d.push(job("a1", "m1", "s"))
		}
		d.pass(rules.OrphanTimeout)
		require.Equal(t, ackstore.GaveUp, d.record(id).State)
	}
	require.Len(t, d.overview().Holds, 1)
	// Somebody resumes it; a1 goes out and is lost in its turn while it is paused anew.
	require.NoError(t, d.s.Unhold(t.Context(), rules, ackstore.OfMachine, "m1", ""))
	require.Len(t, d.read(), 1)
	n := d.spend("a1")
	require.NoError(t, d.s.Hold(t.Context(), rules, ackstore.Hold{Scope: ackstore.OfMachine, ID: "m1", Cause: ackstore.HeldNeedHelp}))
	d.pass(rules.OrphanTimeout)
	require.Equal(t, ackstore.Queued, d.record("a1").State)
	require.Equal(t, ackstore.Revived, d.ack("a1", ackstore.SaysReceived, n).Outcome)
	rec := d.record("a1")
	require.Equal(t, ackstore.InFlight, rec.State)
	require.Empty(t, d.overview().Holds)
	ends, err := d.s.Ended(t.Context(), 10)
	require.NoError(t, err)
	for _, e := range ends {
		require.NotEqual(t, "a1", e.ActionID, "noted as %s", e.State)
	}
}

// The result is that of the execution that settled it.
func TestTheResultOfAFailedAttemptGoesWithIt(t *testing.T) {
	for name, last := range map[string][]byte{"another": []byte(`"whole"`), "none": nil} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.subscribe(1)
			d.push(job("a1", "m1", ""))
			require.Len(t, d.read(), 1)
			_, err := d.s.Settle(t.Context(), rules, []ackstore.Ack{{ActionID: "a1", Verb: ackstore.SaysFailed, Result: []byte(`"half"`)}})
			require.NoError(t, err)
			require.Equal(t, `"half"`, string(d.record("a1").Result))
			d.pass(2 * rules.ErrorDelay)
			require.Len(t, d.read(), 1)
			_, err = d.s.Settle(t.Context(), rules, []ackstore.Ack{{ActionID: "a1", Verb: ackstore.SaysDone, Result: last}})
			require.NoError(t, err)
			rec := d.record("a1")
			require.Equal(t, []any{string(last), last != nil}, []any{string(rec.Result), rec.HasResult})
		})
	}
}

// Work for a machine makes it known again, though it had been deleted.
func TestARedriveBringsADeletedMachineBack(t *testing.T) {
	d := newDesk(t)
	d.subscribe(1)
	d.push(job("a1", "m1", ""))
	require.Len(t, d.read(), 1)
	n := job("a1", "m1", "")
	d.ack(n.ActionID, ackstore.SaysFailed, 1)
	_, err := d.s.Cancel(t.Context(), rules, []ackstore.Act{{ActionID: "a1"}})
	require.NoError(t, err)
	require.NoError(t, d.s.Detach(t.Context(), rules, []ackstore.DetachReq{{Lease: d.lease}}))
	d.pass(time.Hour)
	require.NoError(t, d.s.DropMachine(t.Context(), rules, "m1"))
	require.NoError(t, d.redrive("a1"))
	m, err := d.s.Machine(t.Context(), rules, "m1")
	require.NoError(t, err)
	require.Equal(t, 1, m.Unsettled)
	require.Equal(t, 1, d.overview().Machines)
}

// Its breakers go with a machine: one that config has locked would never open,
// for a machine that is not known has no instance that could be a new one.
func TestTheBreakersOfADeletedMachineGoWithIt(t *testing.T) {
	d := newDesk(t)
	d.subscribe(1)
	d.push(job("a1", "m1", ""))
	require.Len(t, d.read(), 1)
	_, err := d.s.Settle(t.Context(), rules, []ackstore.Ack{{ActionID: "a1", Verb: ackstore.SaysFailed, Error: &ackstore.Failure{Kind: "config"}}})
	require.NoError(t, err)
	require.Len(t, d.overview().Breakers, 1)
	_, err = d.s.Cancel(t.Context(), rules, []ackstore.Act{{ActionID: "a1"}})
	require.NoError(t, err)
	require.NoError(t, d.s.Detach(t.Context(), rules, []ackstore.DetachReq{{Lease: d.lease}}))
	d.pass(time.Hour)
	require.NoError(t, d.s.DropMachine(t.Context(), rules, "m1"))
	require.Empty(t, d.overview().Breakers)
	require.NoError(t, d.s.Close())
	d.open()
	require.Empty(t, d.overview().Breakers)
}

// What is paused anew by the first give-ups of a resume is not given up.
func TestAResumeGivesUpNoMoreThanPausesItAgain(t *testing.T) {
	d := newDesk(t)
	d.subscribe(5)
	for i := range 5 {
		d.push(job(fmt.Sprintf("a%d", i), "m1", ""))
	}
	require.Len(t, d.read(), 5)
	for range 2 {
		d.pass(rules.OrphanTimeout)
		require.Len(t, d.read(), 5)
	}
	require.NoError(t, d.s.Hold(t.Context(), rules, ackstore.Hold{Scope: ackstore.OfMachine, ID: "m1", Cause: ackstore.HeldByOperator}))
	d.pass(rules.OrphanTimeout)
	require.Equal(t, 5, d.overview().Orphans)
	require.NoError(t, d.s.Unhold(t.Context(), rules, ackstore.OfMachine, "m1", ""))
	o := d.overview()
	require.Equal(t, []int{2, 3, 1}, []int{o.Counts[ackstore.GaveUp], o.Orphans, len(o.Holds)})
	require.Equal(t, ackstore.GaveUp, d.record("a0").State)
	require.Equal(t, ackstore.GaveUp, d.record("a1").State)
}

// A session of which nothing is left is not paused for ever by what it did.
func TestTheLastRecordOfASessionTakesItsAutomaticPauseAlong(t *testing.T) {
	d := newDesk(t)
	d.subscribe(1)
	d.push(job("a1", "m1", "s1"))
	require.Len(t, d.read(), 1)
	_, err := d.s.Settle(t.Context(), rules, []ackstore.Ack{{ActionID: "a1", Verb: ackstore.SaysFailed, Error: &ackstore.Failure{Kind: "permanent"}}})
	require.NoError(t, err)
	require.Len(t, d.overview().Holds, 1)
	require.NoError(t, d.s.Hold(t.Context(), rules, ackstore.Hold{Scope: ackstore.OfSession, ID: "s1", Cause: ackstore.HeldByOperator}))
	short := rules
	short.KeepDead = time.Minute
	d.pass(time.Hour)
	_, err = d.s.Sweep(t.Context(), short, 1000)
	require.NoError(t, err)
	holds := d.overview().Holds
	require.Len(t, holds, 1)
	require.Equal(t, ackstore.HeldByOperator, holds[0].Cause)
}

// tail: only a loss sends an action behind its lane, not what was never written.
func TestWhatWasNeverWrittenKeepsItsPlace(t *testing.T) {
	tail := rules
	tail.RepushTail = true
	d := newDesk(t)
	d.push(job("a1", "m1", "s"), job("a2", "m1", "s"))
	d.subscribe(1)
	require.Len(t, d.read(), 1)
	lost := d.record("a1").Seq
	d.mu.Lock()
	d.now = d.now.Add(rules.OrphanTimeout)
	d.mu.Unlock()
	_, err := d.s.Sweep(t.Context(), tail, 100)
	require.NoError(t, err)
	behind := d.record("a1").Seq
	require.Greater(t, behind, lost)
	require.Equal(t, "a2", d.read()[0].ActionID)
	d.ack("a2", ackstore.SaysDone, 1)
	again := d.read()
	require.Equal(t, "a1", again[0].ActionID)
	require.NoError(t, d.s.Detach(t.Context(), tail, []ackstore.DetachReq{{Lease: d.lease, Unwritten: []ackstore.Ref{{ActionID: "a1", Delivery: again[0].Delivery}}}}))
	require.Equal(t, behind, d.record("a1").Seq)
}

// Numbers tell what was sent before a restart, not the clock, which may have been
// set meanwhile: nothing is resent before its agent has had time to come back.
func TestARestartUnderAClockSetBackAsksNobody(t *testing.T) {
	d := newDesk(t)
	d.push(job("a1", "m1", ""))
	d.subscribe(1)
	require.Len(t, d.read(), 1)
	require.NoError(t, d.s.Close())
	d.now = d.now.Add(-time.Hour)
	d.open()
	d.pass(rules.ReconnectGrace - time.Second)
	require.Equal(t, ackstore.InFlight, d.record("a1").State)
	d.pass(time.Second)
	require.Equal(t, ackstore.Queued, d.record("a1").State)
}

// A machine that is one too many is refused however it comes; those that are known
// come and go.
func TestOneMachineTooManyIsRefusedHoweverItComes(t *testing.T) {
	d := newDesk(t)
	narrow := rules
	narrow.MaxMachines = 1
	d.subscribe(1)
	var limit *ackstore.LimitError
	_, err := d.s.Attach(t.Context(), narrow, []ackstore.AttachReq{{MachineID: "m1"}, {MachineID: "m2"}})
	require.ErrorAs(t, err, &limit)
	require.Equal(t, ackstore.LimitError{MachineID: "m2", Setting: "limits.max_machines", Limit: 1}, *limit)
	d.read() // nothing of the call was done: this lease stands
	_, err = d.s.SetCredit(t.Context(), narrow, []ackstore.CreditReq{{MachineID: "m2", Max: new(int)}})
	require.ErrorIs(t, err, ackstore.ErrLimit)
	require.Equal(t, 1, d.overview().Machines)
	_, err = d.s.Attach(t.Context(), narrow, []ackstore.AttachReq{{MachineID: "m1"}})
	require.NoError(t, err)
}

type dues struct {
	mu   sync.Mutex
	last time.Time
}

func (*dues) Wake(string)               {}
func (*dues) Changed([]ackstore.Change) {}
func (l *dues) Due(next time.Time)      { l.mu.Lock(); l.last = next; l.mu.Unlock() }

// A breaker that has lost its probe waits for nothing but the next one: its end,
// which is past, does not stand before the deadlines to come.
func TestABreakerWithoutItsProbeHidesNoDeadline(t *testing.T) {
	d := newDesk(t)
	require.NoError(t, d.s.Close())
	told := &dues{}
	s, err := boltstore.Open(boltstore.Config{Dir: d.dir, Now: d.clock, Listener: told})
	require.NoError(t, err)
	d.s = s
	d.subscribe(1)
	d.push(job("a1", "m1", ""))
	require.Len(t, d.read(), 1)
	quota := ackstore.Ack{ActionID: "a1", Verb: ackstore.SaysFailed, Error: &ackstore.Failure{Kind: "quota"}, RetryAfter: time.Minute}
	_, err = s.Settle(t.Context(), rules, []ackstore.Ack{quota})
	require.NoError(t, err)
	d.pass(5 * time.Minute)
	require.Len(t, d.read(), 1, "the probe")
	d.pass(time.Second)
	require.Equal(t, ackstore.ReleasedBack, d.ack("a1", ackstore.SaysReleased, 2).Outcome)
	require.NoError(t, s.Writable(t.Context()))
	_, err = s.Get(t.Context(), rules, "a1") // what came before is announced by now
	require.NoError(t, err)
	told.mu.Lock()
	defer told.mu.Unlock()
	require.Equal(t, rules.ReleaseDelay, told.last.Sub(d.clock()))
}
