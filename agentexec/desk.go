package agentexec

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"pushd/agentexec/journal"
	"pushd/agentexec/task"
)

// desk is where actions wait for a place and run. Its mutex guards the lists and
// is never held across I/O.
type desk struct {
	a *Agent

	mu       sync.Mutex
	jobs     map[string]*job // waiting or running
	waiting  []*job
	running  int
	draining bool
	wg       sync.WaitGroup
}

// job is one action at the desk.
type job struct {
	act    task.Action
	pulse  task.Pulse
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func newDesk(a *Agent) *desk { return &desk{a: a, jobs: make(map[string]*job)} }

// take puts an arrival where it belongs.
func (d *desk) take(act task.Action, standing journal.Standing) {
	switch standing {
	case journal.Finished:
		d.a.cfg.Logger.Info().Str("action", act.ActionID).Int("delivery", act.Delivery).Msg("answered from memory")
		d.a.post.nudge()
		return
	case journal.InWork:
		d.renumber(act)
		d.a.post.say(received(act))
		return
	}
	j := &job{act: act}
	j.ctx, j.cancel = context.WithCancelCause(context.Background())
	d.mu.Lock()
	d.jobs[act.ActionID] = j
	if d.draining {
		d.mu.Unlock()
		d.conclude(j, released())
		return
	}
	d.a.post.say(received(act)) // before the verdict can be
	d.waiting = append(d.waiting, j)
	d.fill()
	d.mu.Unlock()
}

// fill starts what there is a place for; the caller holds the mutex.
func (d *desk) fill() {
	for len(d.waiting) > 0 && d.running < d.a.cfg.MaxConcurrency {
		j := d.waiting[0]
		d.waiting = d.waiting[1:]
		d.running++
		d.wg.Go(func() { d.work(j) })
	}
}

// work sees one job to its end.
func (d *desk) work(j *job) {
	d.conclude(j, d.execute(j))
	d.mu.Lock()
	d.running--
	d.fill()
	d.mu.Unlock()
}

func (d *desk) execute(j *job) task.Verdict {
	handler, known := d.a.deps.Handlers[j.act.Type]
	if !known {
		return d.a.unknownType(j.act.Type)
	}
	err := d.a.gate.ask(j.ctx, j.act.Type, handler)
	if j.ctx.Err() != nil {
		return stopped(j)
	}
	if err != nil || d.ends() {
		return released()
	}
	run := task.Job{Action: j.act, RunID: d.a.mark + rand.Text()}
	if err := d.a.deps.Journal.Begin(j.act.ActionID, run.RunID, d.a.cfg.Now()); err != nil {
		d.a.cfg.Logger.Error().Err(err).Str("action", j.act.ActionID).Msg("the journal does not take it: not begun")
		return released()
	}
	d.a.cfg.Logger.Info().Str("action", j.act.ActionID).Str("type", j.act.Type).Int("delivery", j.act.Delivery).
		Str("run", run.RunID).Msg("begun")
	told := make(chan struct{})
	over, finish := context.WithCancel(context.Background())
	go func() {
		defer close(told)
		d.tell(over, j)
	}()
	verdict := handler.Run(j.ctx, run, &j.pulse)
	finish()
	<-told
	return verdict
}

// tell sends working acks while the pulse goes on.
func (d *desk) tell(over context.Context, j *job) {
	ticker := time.NewTicker(d.a.cfg.WorkingFrom)
	defer ticker.Stop()
	teller := teller{to: d.a.cfg.WorkingTo}
	for {
		select {
		case <-over.Done():
			return
		case <-ticker.C:
		}
		if teller.due(&j.pulse, d.a.cfg.Now()) {
			d.a.post.say(d.working(j))
		}
	}
}

// renumber notes the newest delivery of an action that is here.
func (d *desk) renumber(act task.Action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.jobs[act.ActionID]; j != nil {
		j.act.Delivery = max(j.act.Delivery, act.Delivery)
	}
}

// knows tells whether an action waits or runs here.
func (d *desk) knows(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[id] != nil
}

// cancel stops an action; false if it is not here.
func (d *desk) cancel(id, reason string) bool {
	d.mu.Lock()
	j := d.jobs[id]
	waited := j != nil && d.unqueue(j)
	d.mu.Unlock()
	if j == nil {
		return false
	}
	d.a.cfg.Logger.Info().Str("action", id).Str("reason", reason).Msg("cancel")
	j.cancel(task.ErrCancelled)
	if waited {
		d.conclude(j, cancelled())
	}
	return true
}

// unqueue takes a job from those that wait; false if another has done so, who
// concludes it.
func (d *desk) unqueue(j *job) bool {
	i := slices.Index(d.waiting, j)
	if i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	return i >= 0
}

// drain begins nothing more, gives back what waits, and returns when what runs
// has ended, by itself within patience or stopped after it.
func (d *desk) drain(patience time.Duration) {
	d.mu.Lock()
	d.draining = true
	waiting := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	for _, j := range waiting {
		d.conclude(j, released())
	}
	stop := time.AfterFunc(patience, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, j := range d.jobs {
			j.cancel(task.ErrStopping)
		}
	})
	defer stop.Stop()
	d.wg.Wait()
}
