package ledger

import (
	"strconv"
	"time"

	"pushd/ackstore"
	"pushd/policy"
)

// Ack applies an agent's word: the table of protocol section 9. An ack that is
// unknown or forbidden does not come this far.
func Ack(a *ackstore.Action, k ackstore.Ack, r ackstore.Rules, now time.Time) Effect {
	d, ok := deliveryOf(a, k)
	if !ok {
		return Effect{Outcome: ackstore.Conflict}
	}
	if k.Verb.Verdict() {
		if e, answered := repeated(a, k.Verb, d); answered {
			return e
		}
	}
	j := judge{a: a, k: k, d: d, r: r, now: now}
	switch {
	case a.State == ackstore.InFlight:
		return j.inFlight()
	case a.State == ackstore.InDoubt, a.Orphan != 0:
		return j.lost()
	case a.State.Waits():
		return j.waits()
	case a.State == ackstore.Cancelled:
		return j.cancelled()
	case a.State == ackstore.GaveUp, a.State == ackstore.Expired, a.State == ackstore.Failed && a.SettledBy == ackstore.ByWatchdog:
		return j.unheard()
	}
	return j.settled()
}

// deliveryOf finds the delivery that an ack speaks of. A verdict that may speak
// of an earlier one must name it.
func deliveryOf(a *ackstore.Action, k ackstore.Ack) (int, bool) {
	n := a.Delivery
	if n == 0 || k.Delivery > n || k.Delivery < 0 || (k.MachineID != "" && k.MachineID != a.MachineID) {
		return 0, false
	}
	if k.Delivery != 0 {
		return k.Delivery, true
	}
	if n > 1 && k.Verb.Verdict() && k.Verb != ackstore.SaysDone {
		return 0, false
	}
	return n, true
}

// repeated answers a verdict on a delivery that has had one, and those of an
// older delivery that can no longer matter.
func repeated(a *ackstore.Action, v ackstore.Verb, d int) (Effect, bool) {
	had := verdictOn(a, d)
	switch {
	case had == v:
		return Effect{Outcome: ackstore.Duplicate}, true
	case a.State.Settled() || v == ackstore.SaysDone:
		return Effect{}, false
	case had != 0 || d < a.Delivery:
		return Effect{Outcome: ackstore.Stale, Cancel: true}, true
	}
	return Effect{}, false
}

func verdictOn(a *ackstore.Action, d int) ackstore.Verb {
	for i := len(a.Verdicts) - 1; i >= 0; i-- {
		if a.Verdicts[i].Delivery == d {
			return a.Verdicts[i].Verb
		}
	}
	return 0
}

// judge is one ack on one action.
type judge struct {
	a   *ackstore.Action
	k   ackstore.Ack
	d   int // the delivery it speaks of
	r   ackstore.Rules
	now time.Time
}

// take notes the verdict; only what was taken is noted.
func (j judge) take() {
	j.a.Verdicts = append(j.a.Verdicts, ackstore.Verdict{Delivery: j.d, Verb: j.k.Verb})
}

func (j judge) inFlight() Effect {
	a := j.a
	switch j.k.Verb {
	case ackstore.SaysReceived, ackstore.SaysWorking:
		j.lives()
		return Effect{Outcome: ackstore.Accepted, Cancel: a.CancelAsked() || a.Stall != ""}
	case ackstore.SaysDone:
		tell := j.d < a.Delivery
		e := j.done(false)
		e.Tell, e.TellReason = tell, "settled by an earlier delivery"
		return e
	}
	return j.verdict()
}

// verdict is failed, released or cancelled, of the newest delivery.
func (j judge) verdict() Effect {
	a := j.a
	j.take()
	if a.CancelAsked() {
		cancelled(a, ackstore.ByAck, true, j.now, "its agent said "+j.k.Verb.String())
		return Effect{Outcome: ackstore.Settled, KeepResult: j.k.Result != nil}
	}
	if a.Stall != "" {
		said := ""
		if j.k.Error != nil {
			said = j.k.Error.Message
		}
		e := fail(a, stallFailure(a, said), failing{by: ackstore.ByAck, jitter: j.k.Jitter}, j.r, j.now)
		e.KeepResult = j.k.Result != nil
		return e
	}
	switch j.k.Verb {
	case ackstore.SaysReleased:
		return j.released()
	case ackstore.SaysCancelled:
		f := &ackstore.Failure{Kind: string(policy.Permanent), Message: "stopped by its agent, and nobody had asked"}
		return fail(a, f, failing{by: ackstore.ByAck, silent: true}, j.r, j.now)
	}
	return j.failed(false)
}

// failed counts a failure as policy says. Late ones are final.
func (j judge) failed(final bool) Effect {
	f := j.k.Error
	if f == nil {
		f = &ackstore.Failure{}
	}
	if f.Kind == "" {
		f.Kind = string(policy.Error)
	}
	retry := j.k.RetryAfter
	if !j.k.RetryAt.IsZero() {
		retry = max(retry, j.k.RetryAt.Sub(j.now))
	}
	e := fail(j.a, f, failing{by: ackstore.ByAck, retryAfter: retry, jitter: j.k.Jitter, final: final}, j.r, j.now)
	e.KeepResult = j.k.Result != nil
	return e
}

func (j judge) released() Effect {
	a := j.a
	v := policy.Release(j.k.Delay, countersOf(a), NumbersOf(j.r))
	setCounters(a, v.Counters)
	if v.Failed {
		a.Error = &ackstore.Failure{Kind: string(policy.Released), Message: "given back too often in a row"}
		a.Record(j.now, "failed", a.Error.Kind)
		settle(a, ackstore.Failed, ackstore.ByAck, j.now)
		return Effect{Outcome: ackstore.Settled}
	}
	a.Record(j.now, "released", "")
	wait(a, v.Wait, j.now)
	if a.State == ackstore.Expired {
		return Effect{Outcome: ackstore.Settled}
	}
	return Effect{Outcome: ackstore.ReleasedBack, AvailableAt: a.AvailableAt}
}

func (j judge) done(late bool) Effect {
	a := j.a
	j.take()
	a.SettledDelivery = j.d
	a.Late = a.Late || late
	a.Releases = 0
	settle(a, ackstore.Done, ackstore.ByAck, j.now)
	a.Error = nil
	a.Record(j.now, "done", delivered(a, j.d))
	e := Effect{Outcome: ackstore.Settled, KeepResult: true}
	if late {
		e.Outcome = ackstore.Late
	}
	if j.d == a.Delivery {
		e.Door, e.Answered = policy.DoorAnswered, true
	}
	return e
}

// lives notes a sign of life. What starts the inactivity timer is the first word
// of a delivery, and then whatever shows that the work moves.
func (j judge) lives() {
	a := j.a
	first := !a.Acked
	a.Acked = true
	a.LastAckAt = j.now
	if a.ReceivedAt.IsZero() {
		a.ReceivedAt = j.now
		a.Record(j.now, "received", delivered(a, j.d))
	}
	if first || a.ActiveAt.IsZero() || j.moves() {
		a.ActiveAt = j.now
	}
	if j.k.ActivityToken != nil {
		a.ActivityToken = j.k.ActivityToken
	}
	if j.k.Progress != nil {
		a.Progress = j.k.Progress
	}
}

// moves tells whether a `working` shows activity: without a token each does,
// with one only a token that differs from the last.
func (j judge) moves() bool {
	if j.k.Verb != ackstore.SaysWorking {
		return false
	}
	t := j.k.ActivityToken
	return t == nil || j.a.ActivityToken == nil || *t != *j.a.ActivityToken
}

// lost is orphan or in_doubt: any word of its agent settles what had become of it.
func (j judge) lost() Effect {
	switch j.k.Verb {
	case ackstore.SaysReceived, ackstore.SaysWorking:
		return j.revive()
	case ackstore.SaysDone:
		return j.done(false)
	}
	return j.verdict()
}

// revive brings a delivery back that was taken for lost: no resend goes out.
func (j judge) revive() Effect {
	a := j.a
	a.State, a.Orphan = ackstore.InFlight, 0
	a.Record(j.now, "revived", delivered(a, j.d))
	j.lives()
	a.ActiveAt = j.now // as for what its agent comes back with: the silence before was ours
	return Effect{Outcome: ackstore.Revived}
}

func (j judge) waits() Effect {
	if j.k.Verb == ackstore.SaysDone {
		return j.done(false)
	}
	return Effect{Outcome: ackstore.Stale, Cancel: true}
}

// unheard is gave_up, expired or failed by the watchdog: a result beats it.
func (j judge) unheard() Effect {
	a := j.a
	switch j.k.Verb {
	case ackstore.SaysReceived, ackstore.SaysWorking:
		a.Late = true
		return Effect{Outcome: ackstore.Late}
	case ackstore.SaysDone:
		return j.done(true)
	case ackstore.SaysFailed:
		j.take()
		a.Late = true
		a.SettledDelivery = j.d
		counted, was := a.State == ackstore.Failed, countersOf(a)
		e := j.failed(true)
		if counted { // by the watchdog, as an attempt of this very execution
			setCounters(a, was)
		}
		e.Outcome, e.AvailableAt = ackstore.Late, time.Time{}
		return e
	}
	return Effect{Outcome: ackstore.Stale, Cancel: true}
}

// settled is done, or failed by an ack or an operator.
func (j judge) settled() Effect {
	a := j.a
	switch j.k.Verb {
	case ackstore.SaysReceived, ackstore.SaysWorking:
		return Effect{Outcome: ackstore.Duplicate, Cancel: a.State == ackstore.Done || a.SettledBy == ackstore.ByAck}
	case ackstore.SaysDone:
		if a.State == ackstore.Done && a.SettledBy == ackstore.ByAck && j.d != a.SettledDelivery {
			j.take()
			a.Record(j.now, "double_execution", delivered(a, j.d))
		}
		return Effect{Outcome: ackstore.Duplicate}
	case ackstore.SaysFailed:
		return Effect{Outcome: ackstore.Duplicate}
	}
	return Effect{Outcome: ackstore.Stale, Cancel: true}
}

func (j judge) cancelled() Effect {
	a := j.a
	switch j.k.Verb {
	case ackstore.SaysReceived, ackstore.SaysWorking:
		a.Late = true
		return Effect{Outcome: ackstore.Late, Cancel: true}
	case ackstore.SaysDone:
		j.take()
		keep := !a.HasResult
		a.Late = true
		a.Record(j.now, "done", "after it was cancelled")
		return Effect{Outcome: ackstore.Late, KeepResult: keep}
	case ackstore.SaysFailed:
		j.take()
		a.Late = true
		if a.Error == nil {
			a.Error = j.k.Error
		}
		a.Record(j.now, "failed", "after it was cancelled")
		return Effect{Outcome: ackstore.Late}
	case ackstore.SaysCancelled:
		return Effect{Outcome: ackstore.Duplicate}
	}
	return Effect{Outcome: ackstore.Stale, Cancel: true}
}

// delivered says of which delivery a word is, where that is not the newest.
func delivered(a *ackstore.Action, d int) string {
	if d == a.Delivery {
		return ""
	}
	return "by delivery " + strconv.Itoa(d)
}
