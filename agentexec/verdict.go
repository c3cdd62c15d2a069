package agentexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pushd/agentexec/task"
	"pushd/policy"
	"pushd/server/api"
)

// statusReleased is the verdict that is none of a run's.
const statusReleased policy.Status = "released"

func released() task.Verdict {
	return task.Verdict{Outcome: policy.Outcome{Status: statusReleased}}
}

func cancelled() task.Verdict {
	return task.Verdict{Outcome: policy.Outcome{Status: policy.Cancelled}}
}

// stopped is the verdict on a job that was stopped before it began.
func stopped(j *job) task.Verdict {
	if errors.Is(context.Cause(j.ctx), task.ErrCancelled) {
		return cancelled()
	}
	return released()
}

func (a *Agent) unknownType(name string) task.Verdict {
	var known []string
	for t := range a.deps.Handlers {
		known = append(known, t)
	}
	slices.Sort(known)
	return task.Failed(policy.Permanent, "unknown_type",
		fmt.Sprintf("this agent has no handler for type %q; it has: %s", name, strings.Join(known, ", ")))
}

// journalPause is between two tries to write a verdict.
const journalPause = 5 * time.Second

// conclude keeps a verdict on disk and has it posted. A journal that cannot write
// is tried until it can: an unwritten verdict may not be posted, and the place
// stays taken, so that a full disk stops the work and loses none.
func (d *desk) conclude(j *job, v task.Verdict) {
	ack := d.ack(j, v)
	for {
		err := d.a.deps.Journal.Finish(ack)
		if err == nil {
			break
		}
		d.a.cfg.Logger.Error().Err(err).Str("action", j.act.ActionID).Msg("the journal does not take the verdict; trying again")
		if d.ends() {
			break // the next start reports it as interrupted
		}
		wait(context.Background(), journalPause)
	}
	d.mu.Lock()
	if d.jobs[j.act.ActionID] == j { // once the verdict is answered it may have come again
		delete(d.jobs, j.act.ActionID)
	}
	d.mu.Unlock()
	j.cancel(nil)
	d.a.post.drop(j.act.ActionID)
	d.a.post.nudge()
}

// ends tells whether the agent stops.
func (d *desk) ends() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining
}

// ack spells a verdict. A run that the agent's own end stopped is not cancelled,
// which nobody asked for, but interrupted.
func (d *desk) ack(j *job, v task.Verdict) api.Ack {
	if v.Status == policy.Cancelled && !errors.Is(context.Cause(j.ctx), task.ErrCancelled) {
		result := v.Result
		v = task.Failed(policy.Transient, "agent_stopped", "the agent was stopped while it worked on this")
		v.Result = result
	}
	ack := api.Ack{ActionID: j.act.ActionID, MachineID: d.a.cfg.MachineID, Status: string(v.Status)}
	ack.Result = d.fit(v.Result)
	switch v.Status {
	case policy.Failed:
		ack.Error = &api.Failure{Kind: kindOf(v.Kind), Code: v.Code, Message: v.Message}
		if v.RetryAfter > 0 {
			ack.RetryAfterS = api.S(v.RetryAfter)
		}
	case statusReleased, policy.Cancelled:
		ack.Result = nil
	}
	d.a.cfg.Logger.Info().Str("action", ack.ActionID).Str("verdict", ack.Status).Str("kind", string(v.Kind)).
		Str("code", v.Code).Msg("ended")
	return ack
}

// fit sees to it that the server takes a result: as JSON, and not too large.
func (d *desk) fit(result json.RawMessage) json.RawMessage {
	if len(result) == 0 {
		return nil
	}
	if !json.Valid(result) {
		return json.RawMessage(`{"dropped":"the result was no JSON"}`)
	}
	if len(result) > d.a.cfg.MaxResult {
		return json.RawMessage(fmt.Sprintf(`{"dropped":"the result has %d bytes, %d are allowed"}`, len(result), d.a.cfg.MaxResult))
	}
	return result
}

func received(act task.Action) api.Ack {
	return api.Ack{ActionID: act.ActionID, MachineID: act.MachineID, Delivery: act.Delivery, Status: statusTaken}
}

// working is what a job tells of itself now.
func (d *desk) working(j *job) api.Ack {
	d.mu.Lock()
	act := j.act
	d.mu.Unlock()
	beat := j.pulse.Read()
	ack := received(act)
	ack.Status, ack.ActivityToken = statusAtWork, new(beat.Token)
	if beat.Note != "" || beat.Percent != nil {
		ack.Progress = &api.Progress{Note: beat.Note, Percent: beat.Percent}
	}
	return ack
}

// stillHere is how often an agent speaks of work that does not move: the same
// token is no activity, but while no stream is there it keeps the action ours, and
// the answer tells of a cancel.
const stillHere = 30 * time.Second

// teller decides when a pulse is worth a word.
type teller struct {
	to    time.Duration
	token uint64
	note  string
	at    time.Time
}

func (t *teller) due(pulse *task.Pulse, now time.Time) bool {
	if t.at.IsZero() {
		t.at = now
	}
	beat := pulse.Read()
	late := now.Sub(t.at) >= t.to
	if late && beat.Token == t.token && beat.Vouch {
		pulse.Vouched()
		beat = pulse.Read()
	}
	moved := beat.Token != t.token && (late || beat.Note != t.note)
	if !moved && now.Sub(t.at) < stillHere {
		return false
	}
	t.token, t.note, t.at = beat.Token, beat.Note, now
	return true
}
