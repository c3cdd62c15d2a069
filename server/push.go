package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"pushd/ackstore"
	"pushd/server/api"
)

// push is POST /v1/actions: one action, an array of them, or lines.
func (c *call) push() error {
	if c.draining.Load() {
		return refuse(draining, "the server is stopping and takes no pushes; send it again when it is back")
	}
	media, err := c.media(jsonMedia, ndjsonMedia)
	if err != nil {
		return err
	}
	if media == ndjsonMedia {
		return c.pushLines()
	}
	body, err := c.readBody()
	if err != nil {
		return err
	}
	decoder := c.pushDecoder()
	decoder.trace = traceOf(c.r)
	items, single, err := decoder.array(body)
	if err != nil {
		return err
	}
	at := func(i int, field string) string {
		if single {
			return field
		}
		return fmt.Sprintf("[%d].%s", i, field)
	}
	pushed, err := c.pushGroup(items, at)
	if err != nil {
		return err
	}
	return c.answerPush(pushed, single)
}

func (s *Server) pushDecoder() *pushDecoder {
	return &pushDecoder{defaults: s.defaults(), maxPayload: s.limits().MaxPayloadBytes, now: s.store.Now()}
}

// pushGroup pushes items, all or none.
func (c *call) pushGroup(items []pushItem, at func(i int, field string) string) ([]ackstore.PushedAction, error) {
	for i, item := range items {
		if err := c.reachPush(item, at(i, "machine_id")); err != nil {
			return nil, err
		}
	}
	group := make([]ackstore.NewAction, len(items))
	for i := range items {
		if err := c.name(&items[i]); err != nil {
			return nil, err
		}
		group[i] = items[i].action
	}
	c.visit.machine = group[0].MachineID
	// A client that goes now has sent all: what it asked for is done all the same.
	answers, err := c.store.Push(context.WithoutCancel(c.r.Context()), c.rules(), [][]ackstore.NewAction{group})
	if err != nil {
		return nil, err
	}
	c.countPushed("api", answers)
	if answers[0].Err != nil {
		return nil, ofLate(answers[0].Err, items, at)
	}
	return answers[0].Items, nil
}

func (c *call) reachPush(item pushItem, field string) error {
	if c.who.over(mayPush, item.action.MachineID) {
		return nil
	}
	r := outOfReach(item.action.MachineID)
	r.fields = []api.FieldError{{Field: field, Message: "is out of the token's reach"}}
	return r
}

// countPushed counts what became of groups at the door.
func (s *Server) countPushed(source string, answers []ackstore.Pushed) {
	for _, a := range answers {
		if a.Err != nil {
			s.metrics.Enqueued(source, admissionOf(a.Err), 1)
			continue
		}
		for _, item := range a.Items {
			outcome := "queued"
			if item.Duplicate {
				outcome = "duplicate"
			}
			s.metrics.Enqueued(source, outcome, 1)
		}
	}
}

func admissionOf(err error) string {
	switch {
	case errors.Is(err, ackstore.ErrConflict):
		return "conflict"
	case errors.Is(err, ackstore.ErrLimit):
		return "limit"
	case errors.Is(err, ackstore.ErrClosed):
		return "closed"
	case errors.Is(err, ackstore.ErrLate):
		return "late"
	}
	return "other"
}

// ofLate says in the words of its item why an action could never be sent.
func ofLate(err error, items []pushItem, at func(i int, field string) string) error {
	var late *ackstore.LateError
	if errors.As(err, &late) {
		return items[late.Index].late.err()
	}
	return ofGroup(err, at)
}

// name gives an action without an id a new UUIDv7. Whether one that could never
// be sent is a repeat, which is answered as such, only the store knows.
func (s *Server) name(item *pushItem) error {
	item.action.Late = item.late.err() != nil
	if item.named {
		return nil
	}
	id, err := uuid.NewV7FromReader(s.cfg.Rand)
	item.action.ActionID = id.String()
	return err
}

// ofGroup says which item of a group was at fault.
func ofGroup(err error, at func(i int, field string) string) error {
	r := judge(err)
	var (
		known  *ackstore.ConflictError
		limit  *ackstore.LimitError
		closed *ackstore.ClosedError
	)
	field := ""
	switch {
	case errors.As(err, &known):
		field = at(known.Index, "action_id")
	case errors.As(err, &limit):
		field = at(limit.Index, "machine_id")
	case errors.As(err, &closed):
		field = at(closed.Index, string(closed.Scope)+"_id")
	default:
		return r
	}
	r.fields = []api.FieldError{{Field: field, Message: r.detail}}
	return r
}

func (c *call) answerPush(pushed []ackstore.PushedAction, single bool) error {
	status := http.StatusOK
	all := make([]api.Pushed, len(pushed))
	for i, p := range pushed {
		all[i] = pushedOf(p)
		if !p.Duplicate {
			status = http.StatusCreated
		}
	}
	if single {
		return c.answer(status, all[0])
	}
	return c.answer(status, all)
}

func pushedOf(p ackstore.PushedAction) api.Pushed {
	out := api.Pushed{ActionID: p.ActionID, State: stateText(p.State), Seq: p.Seq, Deduplicated: p.Duplicate}
	if p.UnknownMachine {
		out.Machine = "unknown"
	}
	return out
}
