package server

import (
	"context"
	"net/http"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// listActions is GET /v1/actions.
func (c *call) listActions() error {
	q := c.query
	f := ackstore.Filter{
		MachineID: q.id("machine_id"), SessionID: q.id("session_id"), ReplayID: q.id("replay_id"),
		Type: q.actionType(), States: q.states(), Labels: q.labels(), Reach: c.who.reach(mayRead),
	}
	limit := q.limit()
	if err := q.faults.err(); err != nil {
		return err
	}
	items, next, err := c.store.List(c.r.Context(), f, q.values.Get("cursor"), limit)
	if err != nil {
		return err
	}
	page := api.List[api.Record]{Items: make([]api.Record, len(items)), NextCursor: next}
	for i := range items {
		page.Items[i] = itemOf(&items[i])
	}
	return c.answer(http.StatusOK, page)
}

// getAction is GET /v1/actions/ID, which may wait until the action is settled.
func (c *call) getAction() error {
	wait := c.query.seconds("wait_s", maxWait)
	if err := c.query.faults.err(); err != nil {
		return err
	}
	id, err := c.ownAction(mayRead)
	if err != nil {
		return err
	}
	record, err := c.settledWithin(id, wait)
	if err != nil {
		return nameUnknown(err, "action", id)
	}
	c.visit.machine = record.MachineID
	return c.answer(http.StatusOK, c.recordOf(&record))
}

// settledWithin reads an action when it is settled, or after wait as it is then.
func (c *call) settledWithin(id string, wait time.Duration) (ackstore.Record, error) {
	ctx := c.r.Context()
	if wait == 0 {
		return c.store.Get(ctx, c.rules(), id)
	}
	// Listen before reading: what settles in between must not be missed.
	changed, stop := c.hub.watch(id)
	defer stop()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		record, err := c.store.Get(ctx, c.rules(), id)
		if err != nil || record.State.Settled() {
			return record, err
		}
		select {
		case <-changed:
		case <-timer.C:
			return c.store.Get(ctx, c.rules(), id)
		case <-c.stopping:
			return record, nil
		case <-ctx.Done():
			return record, ctx.Err()
		}
	}
}

// nameUnknown says which thing there is not.
func nameUnknown(err error, thing, id string) error {
	if r := judge(err); r.kind == unknown {
		return noSuch(thing, id)
	}
	return err
}

// verb is one of the store's acts on single actions.
type verb func(ctx context.Context, r ackstore.Rules, acts []ackstore.Act) ([]ackstore.Acted, error)

func (c *call) cancelAction() error  { return c.act(c.store.Cancel, nil) }
func (c *call) redriveAction() error { return c.act(c.store.Redrive, nil) }

// resolveAction is POST /v1/actions/ID/resolve.
func (c *call) resolveAction() error {
	return c.act(c.store.Resolve, func(o *object, act *ackstore.Act) {
		o.require("as")
		as := o.oneOf("as", "done", "failed")
		act.As = []ackstore.State{ackstore.Done, ackstore.Failed}[as]
		act.Note = o.short("note", maxNote)
	})
}

// act does one verb to the action in the path; fill reads the body, nil: it is empty.
func (c *call) act(do verb, fill func(*object, *ackstore.Act)) error {
	id, err := c.ownAction(mayOperate)
	if err != nil {
		return err
	}
	act := ackstore.Act{ActionID: id, By: c.who.name}
	f := &faults{}
	var known []string
	if fill != nil {
		known = []string{"as", "note"}
	}
	o, err := c.object(known, f)
	if err != nil {
		return err
	}
	if fill != nil {
		fill(o, &act)
	}
	if err := f.err(); err != nil {
		return err
	}
	acted, err := do(context.WithoutCancel(c.r.Context()), c.rules(), []ackstore.Act{act})
	if err == nil {
		err = acted[0].Err
	}
	if err != nil {
		return nameUnknown(err, "action", id)
	}
	return c.answerActed(&acted[0].Action)
}

// answerActed shows the action as the act left it, even if it has moved on since.
func (c *call) answerActed(a *ackstore.Action) error {
	c.visit.machine = a.MachineID
	record, err := c.store.Get(c.r.Context(), c.rules(), a.ID)
	if err != nil {
		return err
	}
	record.Action = *a
	return c.answer(http.StatusOK, c.recordOf(&record))
}
