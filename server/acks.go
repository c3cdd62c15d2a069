package server

import (
	"context"
	"net/http"

	"pushd/ackstore"
	"pushd/server/api"
)

// acks is POST /acks. Agents are heard while the server drains: what they say now
// spares a resend after the start.
func (c *call) acks() error {
	body, err := c.body()
	if err != nil {
		return err
	}
	acks, single, err := readAcks(body, c.limits().MaxResultBytes)
	if err != nil {
		return err
	}
	if len(acks) == 0 {
		return c.answer(http.StatusOK, []api.Acked{})
	}
	c.visit.machine = acks[0].MachineID
	if err := c.forbidAcks(acks); err != nil {
		return err
	}
	for i := range acks {
		acks[i].Jitter = c.jitter()
	}
	results, err := c.store.Settle(context.WithoutCancel(c.r.Context()), c.rules(), acks)
	if err != nil {
		return err
	}
	for i, r := range results {
		c.metrics.Acked(acks[i].Verb, r.Outcome)
	}
	if single {
		return c.answerAck(results[0], acks[0])
	}
	answers := make([]api.Acked, len(results))
	for i, r := range results {
		answers[i] = ackedOf(r)
	}
	return c.answer(http.StatusOK, answers)
}

// forbidAcks marks those for machines that the token does not cover. An action
// nobody knows is left to the store, which says so.
func (c *call) forbidAcks(acks []ackstore.Ack) error {
	reach := c.who.reach(mayAgent)
	if reach == nil {
		return nil
	}
	ids := make([]string, len(acks))
	for i, a := range acks {
		ids[i] = a.ActionID
	}
	owners, err := c.store.Owners(c.r.Context(), ids)
	if err != nil {
		return err
	}
	for i, machine := range owners {
		acks[i].Forbidden = machine != "" && !reach(machine)
	}
	return nil
}

// answerAck gives the three answers that a single ack gets by its status.
func (c *call) answerAck(r ackstore.AckResult, a ackstore.Ack) error {
	var refused *refusal
	switch r.Outcome {
	case ackstore.Conflict:
		refused = refuse(conflict, "%s of action %s was not taken: that delivery was never made or must be named, or the action is another machine's", a.Verb, quote(a.ActionID))
	case ackstore.Unknown:
		refused = refuse(unknown, "action %s was never seen, or is past its retention; drop this ack", quote(a.ActionID))
	case ackstore.Forbidden:
		refused = refuse(forbidden, "the token does not cover the machine of action %s", quote(a.ActionID))
	default:
		return c.answer(http.StatusOK, ackedOf(r))
	}
	refused.outcome, refused.actionID, refused.state = r.Outcome.String(), a.ActionID, stateText(r.State)
	return refused
}

func ackedOf(r ackstore.AckResult) api.Acked {
	return api.Acked{
		ActionID: r.ActionID, Outcome: r.Outcome.String(), State: stateText(r.State),
		Cancel: r.Cancel, AvailableAt: api.At(r.AvailableAt),
	}
}
