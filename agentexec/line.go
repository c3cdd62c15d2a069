package agentexec

import (
	"context"
	"errors"
	"net/http"
	"time"

	"pushd/agentexec/task"
	"pushd/server/api"
)

// line holds the connection: a stream, or polls where a proxy holds streams. It
// has one connection at a time, and reads it in one goroutine: what was read from
// an older one has gone to the desk, or nowhere, before a newer is open.
type line struct {
	a        *Agent
	patience patience
	spell    time.Duration // of polling, when next a stream is held
}

func newLine(a *Agent) *line {
	return &line{a: a, spell: a.cfg.PollSpell, patience: patience{rand: a.cfg.Rand, healthy: a.cfg.Healthy}}
}

// run connects again and again until ctx ends.
func (l *line) run(ctx context.Context) {
	leaps, stop := l.a.naps.listen()
	defer stop()
	for ctx.Err() == nil {
		e := l.connect(ctx, leaps)
		if ctx.Err() != nil {
			return
		}
		pause := l.patience.next(e)
		l.a.cfg.Logger.Warn().Err(e.err).Dur("after", e.open).Dur("again_in", pause).Msg("the connection ended")
		if !l.sleep(ctx, pause, e, leaps) {
			return
		}
	}
}

// sleep waits before the next connection. After a leap of the clock there is no
// reason to wait on, unless another agent has the machine.
func (l *line) sleep(ctx context.Context, d time.Duration, e ending, leaps <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-leaps:
			if e.why != replaced && e.why != denied {
				return true
			}
		}
	}
}

// connect posts what is owed, and only then subscribes.
func (l *line) connect(ctx context.Context, leaps <-chan struct{}) ending {
	if err := l.a.deps.Journal.Touch(l.a.cfg.Now()); err != nil {
		return ending{err: err}
	}
	if err := l.a.post.flush(ctx); err != nil {
		return refused(err)
	}
	e := l.stream(ctx, leaps)
	switch {
	case e.why == held:
		l.a.cfg.Logger.Warn().Dur("for", l.spell).Msg("no byte of the stream arrives: a proxy seems to hold it; polling instead")
		l.a.single.Store(true)
		spell := l.spell
		l.spell = min(2*l.spell, time.Hour)
		return l.poll(ctx, spell, leaps)
	case e.open > l.a.cfg.Healthy:
		l.spell = l.a.cfg.PollSpell
	}
	return e
}

// subscription is what this connection asks for.
func (l *line) subscription() (api.Subscription, *api.Client, error) {
	instance, last, err := l.a.deps.Journal.Position()
	if err != nil {
		return api.Subscription{}, nil, err
	}
	client, err := l.a.client()
	return api.Subscription{
		MachineID: l.a.cfg.MachineID, InstanceID: instance, LastEventID: last,
		MaxInFlight: new(l.a.gate.credit()), OrphanTimeout: l.a.cfg.OrphanTimeout,
	}, client, err
}

// hello is the data of the first event.
type hello struct {
	StreamID    string      `json:"stream_id"`
	HeartbeatS  api.Seconds `json:"heartbeat_s"`
	MaxInFlight int         `json:"max_in_flight"`
	InFlight    []struct {
		ActionID string `json:"action_id"`
		Delivery int    `json:"delivery"`
		Cancel   bool   `json:"cancel"`
	} `json:"in_flight"`
}

// reconcile answers for what the server counts as ours. With the journal's
// promise there is nothing unknown among it, unless the directory was replaced.
func (a *Agent) reconcile(h hello) error {
	for _, f := range h.InFlight {
		act := task.Action{ActionID: f.ActionID, Delivery: f.Delivery, MachineID: a.cfg.MachineID}
		var err error
		switch {
		case f.Cancel:
			err = a.stop(act, "asked before this connection")
		case a.desk.knows(f.ActionID):
		default:
			err = a.deps.Journal.Report(act, api.Ack{Status: "failed", Error: &api.Failure{
				Kind: "transient", Code: "agent_restarted", Message: "the agent knows nothing of this action, which it had received",
			}})
			a.post.nudge()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stop does as a cancel asks. What is not here has a verdict, which goes its own
// way, or was never here: then there is nothing to stop.
func (a *Agent) stop(act task.Action, reason string) error {
	if a.desk.cancel(act.ActionID, reason) {
		return nil
	}
	act.MachineID = a.cfg.MachineID
	err := a.deps.Journal.Report(act, api.Ack{Status: "cancelled"})
	a.post.nudge()
	return err
}

// poll asks for one action after the other, for a spell.
func (l *line) poll(ctx context.Context, spell time.Duration, leaps <-chan struct{}) ending {
	begun := l.a.cfg.Now()
	hold := min(l.a.cfg.PollWait, l.a.cfg.FirstByte/2) // the first shows soon whether polls get through
	for {
		open := l.a.cfg.Now().Sub(begun)
		select {
		case <-leaps:
			return ending{why: leapt, err: errLeapt, open: open}
		default:
		}
		if ctx.Err() != nil || open >= spell {
			return ending{why: finished, err: ctx.Err(), open: open}
		}
		act, came, err := l.next(ctx, hold)
		if err != nil {
			e := refused(err)
			e.open = open
			return e
		}
		hold = l.a.cfg.PollWait
		l.a.online()
		if !came {
			continue
		}
		if err := l.a.arrive(act, eventID(act)); err != nil {
			return ending{err: err, open: open}
		}
	}
}

// errEarly: a poll that is replaced, or draining, answers before its time.
var errEarly = errors.New("agentexec: an empty answer came too soon")

// next is one poll. It is bounded by more than it waits: a silent network ends it.
func (l *line) next(ctx context.Context, hold time.Duration) (act task.Action, came bool, err error) {
	sub, client, err := l.subscription()
	if err != nil {
		return act, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, hold+l.a.cfg.FirstByte)
	defer cancel()
	asked := l.a.cfg.Now()
	resp, err := client.Next(ctx, sub, hold)
	if err != nil {
		return act, false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		if l.a.cfg.Now().Sub(asked) < hold/2 {
			return act, false, errEarly
		}
		return act, false, nil
	}
	raw, err := readAll(resp.Body)
	if err != nil {
		return act, false, err
	}
	act, err = task.ParseAction(raw)
	return act, err == nil, err
}
