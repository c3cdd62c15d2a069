package server

import (
	"context"
	"encoding/base64"
	"net/http"

	"pushd/ackstore"
	"pushd/server/api"
	"pushd/stream"
)

// listMachines is GET /v1/machines.
func (c *call) listMachines() error {
	after, limit, err := c.page()
	if err != nil {
		return err
	}
	reach := c.who.reach(mayRead)
	keep := func(m ackstore.Machine) (api.Machine, bool) {
		if reach != nil && !reach(m.ID) {
			return api.Machine{}, false
		}
		return c.machineOf(&m), true
	}
	page, err := gather(after, limit, func(m ackstore.Machine) string { return m.ID },
		func(after string, limit int) ([]ackstore.Machine, error) {
			return c.store.Machines(c.r.Context(), c.rules(), after, limit)
		}, keep)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, page)
}

// page reads the parameters of a list by id: its cursor is an id in disguise.
func (c *call) page() (after string, limit int, err error) {
	limit = c.query.limit()
	if cursor := c.query.values.Get("cursor"); cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || !idForm.Match(raw) {
			c.query.faults.add("cursor", "is none that a list gave")
		}
		after = string(raw)
	}
	return after, limit, c.query.faults.err()
}

// gather fills a page with what keep lets pass, asking for more as long as it is
// not full: to a caller with a pattern, what is out of reach is not there.
func gather[From, To any](after string, limit int, id func(From) string,
	read func(after string, limit int) ([]From, error), keep func(From) (To, bool),
) (api.List[To], error) {
	page := api.List[To]{Items: []To{}}
	for {
		some, err := read(after, limit+1)
		if err != nil {
			return page, err
		}
		for _, from := range some {
			to, ok := keep(from)
			if ok && len(page.Items) == limit {
				page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(after))
				return page, nil
			}
			if ok {
				page.Items = append(page.Items, to)
			}
			after = id(from)
		}
		if len(some) <= limit {
			return page, nil
		}
	}
}

// getMachine is GET /v1/machines/ID.
func (c *call) getMachine() error {
	id, err := c.pathMachine(mayRead)
	if err != nil {
		return err
	}
	return c.answerMachine(id)
}

func (c *call) answerMachine(id string) error {
	m, err := c.store.Machine(c.r.Context(), c.rules(), id)
	if err != nil {
		return nameUnknown(err, "machine", id)
	}
	return c.answer(http.StatusOK, c.machineOf(&m))
}

// dropMachine is DELETE /v1/machines/ID.
func (c *call) dropMachine() error {
	id, err := c.pathMachine(mayOperate)
	if err != nil {
		return err
	}
	if err := c.store.DropMachine(c.r.Context(), c.rules(), id); err != nil {
		if r := judge(err); r.kind == conflict {
			return refuse(conflict, "machine %s is not offline, or has something unsettled", quote(id))
		}
		return nameUnknown(err, "machine", id)
	}
	return c.nothing()
}

// beat is POST /v1/machines/ID/beat.
func (c *call) beat() error {
	id, err := c.pathMachine(mayAgent)
	if err != nil {
		return err
	}
	f := &faults{}
	o, err := c.object([]string{"stream_id"}, f)
	if err != nil {
		return err
	}
	o.require("stream_id")
	streamID, _ := o.text("stream_id")
	if err := f.err(); err != nil {
		return err
	}
	lease, standing := c.registry.Standing(id, streamID)
	if standing != stream.Live {
		return deadStream(standing)
	}
	errs, err := c.store.Beat(c.r.Context(), c.rules(), []ackstore.Lease{lease})
	if err != nil {
		return err
	}
	if errs[0] != nil { // fenced by a subscription that came just now
		return deadStream(stream.Replaced)
	}
	return c.nothing()
}

func deadStream(standing stream.Standing) *refusal {
	if standing == stream.Replaced {
		r := refuse(conflict, "another subscription has taken this machine; wait 30 s, then double, before you subscribe")
		r.reason = "replaced"
		return r
	}
	r := refuse(conflict, "this stream has ended, or was never known; subscribe again")
	r.reason = "gone"
	return r
}

// setCredit is PATCH /v1/machines/ID: an operator's word where the caller is one,
// else an agent's.
func (c *call) setCredit() error {
	id, err := c.newMachine(mayCredit)
	if err != nil {
		return err
	}
	f := &faults{}
	o, err := c.object([]string{"max_in_flight", "reason"}, f)
	if err != nil {
		return err
	}
	operator := c.who.over(mayOperate, id)
	req := ackstore.CreditReq{MachineID: id, ByOperator: operator, Reason: o.short("reason", maxNote)}
	o.require("max_in_flight")
	value, _ := o.find("max_in_flight")
	switch {
	case string(value) != "null":
		credit := o.whole("max_in_flight", 0, maxCredit, 0)
		req.Max = &credit
	case !operator:
		o.fault("max_in_flight", "null lifts an operator's limit, which an agent may not")
	}
	if err := f.err(); err != nil {
		return err
	}
	machines, err := c.store.SetCredit(context.WithoutCancel(c.r.Context()), c.rules(), []ackstore.CreditReq{req})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, c.machineOf(&machines[0]))
}
