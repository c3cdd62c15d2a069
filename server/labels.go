package server

import (
	"context"
	"net/http"

	"pushd/ackstore"
	"pushd/server/api"
)

// listLabels is GET /v1/sessions and /v1/replays.
func (c *call) listLabels(scope ackstore.Scope) error {
	after, limit, err := c.page()
	if err != nil {
		return err
	}
	var trouble error
	keep := func(l ackstore.Label) (api.Label, bool) {
		shown, ok, err := c.labelWithin(l)
		if err != nil {
			trouble = err
		}
		return shown, ok
	}
	page, err := gather(after, limit, func(l ackstore.Label) string { return l.ID },
		func(after string, limit int) ([]ackstore.Label, error) {
			if trouble != nil {
				return nil, trouble
			}
			return c.store.Labels(c.r.Context(), scope, after, limit)
		}, keep)
	if err == nil {
		err = trouble
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, page)
}

// labelWithin shows what of a label is within the caller's reach: nothing, if
// none of its actions is for a machine there.
func (c *call) labelWithin(l ackstore.Label) (api.Label, bool, error) {
	reach := c.who.reach(mayRead)
	if reach == nil {
		return labelOf(&l), true, nil
	}
	counts, err := c.countWithin(labelFilter(l.Scope, l.ID, reach))
	if err != nil || len(counts) == 0 {
		return api.Label{}, false, err
	}
	l.Counts = counts
	l.Holds = holdsWithin(l.Holds, reach)
	return labelOf(&l), true, nil
}

func labelFilter(scope ackstore.Scope, id string, reach func(string) bool) ackstore.Filter {
	f := ackstore.Filter{Reach: reach}
	if scope == ackstore.OfReplay {
		f.ReplayID = id
	} else {
		f.SessionID = id
	}
	return f
}

// countWithin counts by looking: only the counts of all are kept ready.
func (c *call) countWithin(f ackstore.Filter) (map[ackstore.State]int, error) {
	counts := map[ackstore.State]int{}
	for cursor := ""; ; {
		items, next, err := c.store.List(c.r.Context(), f, cursor, 1000)
		if err != nil {
			return nil, err
		}
		for i := range items {
			counts[items[i].State]++
		}
		if cursor = next; cursor == "" {
			return counts, nil
		}
	}
}

// holdsWithin leaves out pauses of machines out of reach.
func holdsWithin(holds []ackstore.Hold, reach func(string) bool) []ackstore.Hold {
	var out []ackstore.Hold
	for _, h := range holds {
		machine := h.MachineID
		if h.Scope == ackstore.OfMachine {
			machine = h.ID
		}
		if machine == "" || reach(machine) {
			out = append(out, h)
		}
	}
	return out
}

// getLabel is GET /v1/sessions/ID and /v1/replays/ID.
func (c *call) getLabel(scope ackstore.Scope) error {
	id, err := c.pathID(string(scope))
	if err != nil {
		return err
	}
	label, err := c.store.Label(c.r.Context(), scope, id)
	if err != nil {
		return nameUnknown(err, string(scope), id)
	}
	shown, ok, err := c.labelWithin(label)
	if err != nil {
		return err
	}
	if !ok {
		return refuse(forbidden, "no action of %s %s is for a machine that the token covers", scope, quote(id))
	}
	return c.answer(http.StatusOK, shown)
}

// answerLabel shows a label after an act on it.
func (c *call) answerLabel(scope ackstore.Scope, id string) error {
	label, err := c.store.Label(c.r.Context(), scope, id)
	if r := judgeOrNil(err); r != nil && r.kind == unknown {
		// Nothing is kept of a label without actions, pauses or a closed door.
		label, err = ackstore.Label{Scope: scope, ID: id, Status: "active"}, nil
	}
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, labelOf(&label))
}

func judgeOrNil(err error) *refusal {
	if err == nil {
		return nil
	}
	return judge(err)
}

// cancelLabel is POST /v1/sessions|replays/ID/cancel. The door is closed first, so
// that nothing slips in behind what is cancelled. With a machine_id only what that
// machine has of it is cancelled, and the door stays open for the others.
func (c *call) cancelLabel(scope ackstore.Scope) error {
	id, machine, err := c.labelAct(scope)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(c.r.Context())
	if machine == "" {
		if err := c.store.CloseLabel(ctx, scope, id); err != nil {
			return nameUnknown(err, string(scope), id)
		}
	}
	filter := labelFilter(scope, id, nil)
	filter.MachineID = machine
	if _, err := c.bulk(ctx, ackstore.BulkReq{Filter: filter, By: c.who.name}); err != nil {
		return err
	}
	return c.answerLabel(scope, id)
}

// coversAct holds an act on a session, a replay or in bulk to the token's pattern:
// it must name a machine within it.
func (c *call) coversAct(machineID, what string) error {
	switch {
	case c.who.reach(mayOperate) == nil:
		return nil
	case machineID == "":
		return refuseField(forbidden, "machine_id", "must name a machine within the token's pattern for an act on a %s", what)
	case !c.who.over(mayOperate, machineID):
		return outOfReach(machineID)
	}
	return nil
}

// labelAct reads an act on a session or replay: which one, and on which machine
// if not on all.
func (c *call) labelAct(scope ackstore.Scope) (id, machine string, err error) {
	if id, err = c.pathID(string(scope)); err != nil {
		return "", "", err
	}
	f := &faults{}
	o, err := c.object([]string{"machine_id"}, f)
	if err != nil {
		return "", "", err
	}
	machine = o.id("machine_id")
	if err := c.coversAct(machine, string(scope)); err != nil {
		return "", "", err
	}
	return id, machine, f.err()
}
