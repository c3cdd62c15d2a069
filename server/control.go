package server

import (
	"context"
	"net/http"
	"strings"

	"pushd/ackstore"
	"pushd/server/api"
)

// pauseMachine is POST /v1/machines/ID/pause.
func (c *call) pauseMachine() error {
	id, err := c.newMachine(mayOperate)
	if err != nil {
		return err
	}
	hold, err := c.readHold(ackstore.Hold{Scope: ackstore.OfMachine, ID: id})
	if err != nil {
		return err
	}
	if hold.MachineID != "" && hold.MachineID != id {
		return refuseField(malformed, "machine_id", "is not the machine in the path")
	}
	hold.MachineID = ""
	if err := c.store.Hold(context.WithoutCancel(c.r.Context()), c.rules(), hold); err != nil {
		return err
	}
	return c.answerHeldMachine(id)
}

// resumeMachine is POST /v1/machines/ID/resume.
func (c *call) resumeMachine() error {
	id, err := c.newMachine(mayOperate)
	if err == nil {
		err = c.noFields()
	}
	if err != nil {
		return err
	}
	if err := c.store.Unhold(context.WithoutCancel(c.r.Context()), c.rules(), ackstore.OfMachine, id, ""); err != nil {
		return nameUnknown(err, "machine", id)
	}
	return c.answerHeldMachine(id)
}

// answerHeldMachine shows a machine, known or not: it may be paused before its
// first action.
func (c *call) answerHeldMachine(id string) error {
	m, err := c.store.Machine(c.r.Context(), c.rules(), id)
	if r := judgeOrNil(err); r != nil && r.kind == unknown {
		m, err = ackstore.Machine{ID: id, Presence: ackstore.Offline}, nil
		overview, trouble := c.store.Overview(c.r.Context(), c.rules())
		if trouble != nil {
			return trouble
		}
		for _, h := range overview.Holds {
			if h.Scope == ackstore.OfMachine && h.ID == id {
				m.Holds = append(m.Holds, h)
			}
		}
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, c.machineOf(&m))
}

// pauseLabel is POST /v1/sessions|replays/ID/pause.
func (c *call) pauseLabel(scope ackstore.Scope) error {
	id, err := c.pathID(string(scope))
	if err != nil {
		return err
	}
	hold, err := c.readHold(ackstore.Hold{Scope: scope, ID: id})
	if err != nil {
		return err
	}
	if err := c.store.Hold(context.WithoutCancel(c.r.Context()), c.rules(), hold); err != nil {
		return err
	}
	return c.answerLabel(scope, id)
}

// readHold reads the body of a pause.
func (c *call) readHold(hold ackstore.Hold) (ackstore.Hold, error) {
	f := &faults{}
	o, err := c.object([]string{"note", "until", "machine_id"}, f)
	if err != nil {
		return hold, err
	}
	hold.Cause, hold.By = ackstore.HeldByOperator, c.who.name
	hold.MachineID = o.id("machine_id")
	hold.Note = o.short("note", maxNote)
	hold.Until = o.instant("until")
	if hold.Scope != ackstore.OfMachine {
		if err := c.coversAct(hold.MachineID, string(hold.Scope)); err != nil {
			return hold, err
		}
	}
	hold.Since = c.store.Now()
	if !hold.Until.IsZero() && !hold.Until.After(hold.Since) {
		o.fault("until", "is past: it would pause nothing")
	}
	return hold, f.err()
}

// resumeLabel is POST /v1/sessions|replays/ID/resume. It ends every cause, or with
// a machine_id those that hold it on that machine, which is all that a caller
// under a pattern may end.
func (c *call) resumeLabel(scope ackstore.Scope) error {
	id, machine, err := c.labelAct(scope)
	if err != nil {
		return err
	}
	if err := c.store.Unhold(context.WithoutCancel(c.r.Context()), c.rules(), scope, id, machine); err != nil {
		return nameUnknown(err, string(scope), id)
	}
	return c.answerLabel(scope, id)
}

// closeBreaker is POST /v1/breakers/close.
func (c *call) closeBreaker() error {
	f := &faults{}
	o, err := c.object([]string{"machine_id", "target"}, f)
	if err != nil {
		return err
	}
	machine, target := o.id("machine_id"), o.target("target")
	if err := c.coversAct(machine, "breaker"); err != nil {
		return err
	}
	if machine == "" && len(f.fields) == 0 && !strings.HasPrefix(target, "shared/") {
		o.fault("machine_id", "is required, but for a target that begins with shared/")
	}
	if err := f.err(); err != nil {
		return err
	}
	c.visit.machine = machine
	err = c.store.CloseBreaker(context.WithoutCancel(c.r.Context()), c.rules(), machine, target)
	if r := judgeOrNil(err); r != nil && r.kind != unknown { // one that is not there is closed
		return err
	}
	return c.answer(http.StatusOK, struct {
		MachineID string `json:"machine_id,omitempty"`
		Target    string `json:"target,omitempty"`
		State     string `json:"state"`
	}{machine, target, "closed"})
}

func (c *call) cancelAll() error  { return c.bulkCall(false) }
func (c *call) redriveAll() error { return c.bulkCall(true) }

var selectionFields = []string{"machine_id", "session_id", "replay_id", "state", "type", "older_than_s", "dry_run"}

// bulkCall is POST /v1/cancel and /v1/redrive.
func (c *call) bulkCall(redrive bool) error {
	f := &faults{}
	o, err := c.object(selectionFields, f)
	if err != nil {
		return err
	}
	filter := ackstore.Filter{MachineID: o.id("machine_id"), SessionID: o.id("session_id"), ReplayID: o.id("replay_id")}
	if err := c.coversAct(filter.MachineID, "selection"); err != nil {
		return err
	}
	if o.has("type") {
		filter.Type = o.actionType()
	}
	if text, ok := o.text("state"); ok {
		var state ackstore.State
		if err := state.UnmarshalText([]byte(text)); err != nil {
			o.fault("state", "is no state: %s", quote(text))
		}
		filter.States = []ackstore.State{state}
	}
	if age, given := o.seconds("older_than_s"); given {
		filter.Before = c.store.Now().Add(-age)
	}
	req := ackstore.BulkReq{Redrive: redrive, Filter: filter, DryRun: o.flag("dry_run"), By: c.who.name}
	if err := f.err(); err != nil {
		return err
	}
	if len(o.members) == 0 || len(o.members) == 1 && o.has("dry_run") {
		return refuse(malformed, "at least one of machine_id, session_id, replay_id, state, type and older_than_s is required")
	}
	count, err := c.bulk(c.r.Context(), req)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, api.Count{Count: count})
}

// bulk goes through a selection slice by slice: no one slice holds up the others.
func (c *call) bulk(ctx context.Context, req ackstore.BulkReq) (int, error) {
	const slice = 500
	req.Limit = slice
	count := 0
	for {
		result, err := c.store.Bulk(ctx, c.rules(), req)
		if err != nil {
			return count, err
		}
		count += result.Count
		if req.Cursor = result.Next; req.Cursor == "" {
			return count, nil
		}
	}
}
