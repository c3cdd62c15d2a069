package storetest

import (
	"context"
	"slices"

	"pushd/ackstore"
)

// SeededFaults are the faults that the suite must catch.
func SeededFaults() []Fault {
	return slices.Concat(pushFaults, dispatchFaults, ackFaults, otherFaults)
}

// changing plants a fault in each action that is pushed.
func changing(change func(*ackstore.NewAction)) func(*mutant) {
	return func(m *mutant) {
		m.push = func(c context.Context, r ackstore.Rules, groups [][]ackstore.NewAction) ([]ackstore.Pushed, error) {
			for _, group := range groups {
				for i := range group {
					change(&group[i])
				}
			}
			return m.Store.Push(c, r, groups)
		}
	}
}

var pushFaults = []Fault{
	{
		"resends at_most_once", "watchdog/at_most_once is in doubt, not settled, and closes its lane", true,
		changing(func(a *ackstore.NewAction) { a.Guarantee = ackstore.AtLeastOnce }),
	},
	{
		"ignores expiry", "schedule and expiry/what waits expires, what is out does not", true,
		changing(func(a *ackstore.NewAction) { a.TTL = 0 }),
	},
	{
		"opens lanes", "order/a lane has one action out at a time, in order", true,
		changing(func(a *ackstore.NewAction) { a.SessionID = "" }),
	},
	{
		"ignores priority", "order/higher priority goes first, seq among equals", true,
		changing(func(a *ackstore.NewAction) { a.Priority = 0 }),
	},
	{
		"dispatches what is delayed", "schedule and expiry/a delay runs from the store's now, an instant is as it was sent", true,
		changing(func(a *ackstore.NewAction) { a.Delay = 0 }),
	},
	{"pushes a group in halves", "push/a conflict takes its whole group with it and names the culprit", true, func(m *mutant) {
		m.push = func(c context.Context, r ackstore.Rules, groups [][]ackstore.NewAction) ([]ackstore.Pushed, error) {
			for _, group := range groups {
				if len(group) > 1 {
					if _, err := m.Store.Push(c, r, [][]ackstore.NewAction{group[:1]}); err != nil {
						return nil, err
					}
				}
			}
			return m.Store.Push(c, r, groups)
		}
	}},
	{"takes two commits to push", "claim/a push rides its own commit to a parked lease and wakes its machine", false, func(m *mutant) {
		m.push = func(c context.Context, r ackstore.Rules, groups [][]ackstore.NewAction) ([]ackstore.Pushed, error) {
			got, err := m.Store.Push(c, r, groups)
			if err == nil {
				err = m.PutToken(c, ackstore.Token{ID: "t"})
			}
			return got, err
		}
	}},
	{"loses a push on reopen", "restart/everything is what it was", true, func(m *mutant) {
		lost := ""
		m.list = func(c context.Context, f ackstore.Filter, cursor string, limit int) ([]ackstore.Action, string, error) {
			items, next, err := m.Store.List(c, f, cursor, limit)
			if m.reopened && lost == "" && len(items) > 0 {
				lost = items[0].ID // the newest
			}
			return slices.DeleteFunc(items, func(a ackstore.Action) bool { return a.ID == lost }), next, err
		}
	}},
}

var dispatchFaults = []Fault{
	{"forgets an operator's credit", "credit/an operator's lasts until an operator changes it, across a crash", false, func(m *mutant) {
		m.credit = func(c context.Context, r ackstore.Rules, q []ackstore.CreditReq) ([]ackstore.Machine, error) {
			for i := range q {
				q[i].ByOperator = false // the next subscription replaces it
			}
			return m.Store.SetCredit(c, r, q)
		}
	}},
	{"sends beyond the credit", "credit/no more is out than the credit allows", true, func(m *mutant) {
		m.attach = func(c context.Context, r ackstore.Rules, q []ackstore.AttachReq) ([]ackstore.Attached, error) {
			for i := range q {
				q[i].MaxInFlight++
			}
			return m.Store.Attach(c, r, q)
		}
	}},
	{"replays what is settled", "order/a lane has one action out at a time, in order", true, func(m *mutant) {
		var old []ackstore.Dispatch
		m.claim = func(c context.Context, r ackstore.Rules, q []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
			got, err := m.Store.Claim(c, r, q)
			if err == nil && got[0].Err == nil {
				for _, d := range old {
					if rec, gerr := m.Store.Get(c, r, d.ActionID); gerr == nil && rec.State == ackstore.Done && d.MachineID == q[0].Lease.MachineID {
						d.EventID, d.Delivery = d.EventID+1000, d.Delivery+1
						got[0].Dispatches = append(got[0].Dispatches, d)
						old = nil
						break
					}
				}
				old = append(old, got[0].Dispatches...)
			}
			return got, err
		}
	}},
	{"reuses event ids", "restart/seq, event ids and deliveries go on", true, func(m *mutant) {
		issued := uint64(0)
		m.claim = func(c context.Context, r ackstore.Rules, q []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
			got, err := m.Store.Claim(c, r, q)
			for i := range got {
				for j := range got[i].Dispatches {
					issued++
					got[i].Dispatches[j].EventID = issued // from 1 at every start
				}
			}
			return got, err
		}
	}},
	{"resets delivery", "redrive/budgets are full, expires_at is dropped, deliveries go on", true, func(m *mutant) {
		m.claim = func(c context.Context, r ackstore.Rules, q []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
			got, err := m.Store.Claim(c, r, q)
			for i := range got {
				for j := range got[i].Dispatches {
					got[i].Dispatches[j].Delivery = got[i].Dispatches[j].Resent + 1
				}
			}
			return got, err
		}
	}},
	{"does not fence", "claim/every attach raises the epoch and fences the older lease", false, func(m *mutant) {
		newest := map[string]ackstore.Lease{}
		m.attach = func(c context.Context, r ackstore.Rules, q []ackstore.AttachReq) ([]ackstore.Attached, error) {
			got, err := m.Store.Attach(c, r, q)
			for _, a := range got {
				newest[a.Lease.MachineID] = a.Lease
			}
			return got, err
		}
		m.claim = func(c context.Context, r ackstore.Rules, q []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
			for i := range q {
				q[i].Lease = newest[q[i].Lease.MachineID]
			}
			return m.Store.Claim(c, r, q)
		}
	}},
	{"counts what was never written", "stream end/unwritten deliveries go back uncounted, their numbers spent", true, func(m *mutant) {
		m.detach = func(c context.Context, r ackstore.Rules, q []ackstore.DetachReq) error {
			for i := range q {
				q[i].Unwritten = nil
			}
			return m.Store.Detach(c, r, q)
		}
	}},
	{"does not read Last-Event-ID", "reconnect/several: what is past Last-Event-ID is sent again, the rest is kept", true, func(m *mutant) {
		m.attach = func(c context.Context, r ackstore.Rules, q []ackstore.AttachReq) ([]ackstore.Attached, error) {
			for i := range q {
				q[i].LastEventID = nil
			}
			return m.Store.Attach(c, r, q)
		}
	}},
	{"dispatches what is paused", "pause/nothing is sent while any of several scopes is paused", true, func(m *mutant) {
		m.hold = func(context.Context, ackstore.Rules, ackstore.Hold) error { return nil }
	}},
}

// acking plants a fault in each ack: what it is turned into.
func acking(change func(m *mutant, rec ackstore.Record, a *ackstore.Ack)) func(*mutant) {
	return func(m *mutant) {
		m.settle = func(c context.Context, r ackstore.Rules, acks []ackstore.Ack) ([]ackstore.AckResult, error) {
			for i := range acks {
				if rec, err := m.Store.Get(c, r, acks[i].ActionID); err == nil {
					change(m, rec, &acks[i])
				}
			}
			return m.Store.Settle(c, r, acks)
		}
	}
}

// answering plants a fault in each answer to an ack.
func answering(change func(*ackstore.AckResult)) func(*mutant) {
	return func(m *mutant) {
		m.settle = func(c context.Context, r ackstore.Rules, acks []ackstore.Ack) ([]ackstore.AckResult, error) {
			got, err := m.Store.Settle(c, r, acks)
			for i := range got {
				change(&got[i])
			}
			return got, err
		}
	}
}

var ackFaults = []Fault{
	{"drops a late done", "ack/a late done drops a queued resend", true, func(m *mutant) {
		m.settle = func(c context.Context, r ackstore.Rules, acks []ackstore.Ack) ([]ackstore.AckResult, error) {
			rec, err := m.Store.Get(c, r, acks[0].ActionID)
			if err == nil && rec.Orphan != 0 && acks[0].Verb == ackstore.SaysDone {
				return []ackstore.AckResult{{ActionID: rec.ID, Outcome: ackstore.Settled, State: ackstore.Done}}, nil
			}
			return m.Store.Settle(c, r, acks)
		}
	}},
	{
		"answers a duplicate as settled", "ack/the first result is the one kept, of many at a time", true,
		answering(func(a *ackstore.AckResult) {
			if a.Outcome == ackstore.Duplicate {
				a.Outcome = ackstore.Settled
			}
		}),
	},
	{
		"does not say cancel", "ack/a delivery takes one verdict: the same is a duplicate, another is stale", true,
		answering(func(a *ackstore.AckResult) { a.Cancel = false }),
	},
	{
		"lets a stale failure move", "ack/what was stale was not taken", true,
		acking(func(_ *mutant, rec ackstore.Record, a *ackstore.Ack) {
			if a.Verb == ackstore.SaysFailed && a.Delivery > 0 && a.Delivery < rec.Delivery {
				a.Delivery = rec.Delivery
			}
		}),
	},
	{
		"takes another machine's word", "ack/another machine's action, or a delivery never made, is a conflict", true,
		acking(func(_ *mutant, _ ackstore.Record, a *ackstore.Ack) { a.MachineID = "" }),
	},
	{
		"applies what is forbidden", "ack/what is forbidden moves nothing", false,
		acking(func(_ *mutant, _ ackstore.Record, a *ackstore.Ack) { a.Forbidden = false }),
	},
	{
		"retries for ever", "policy/permanent ends it, whatever is left", true,
		acking(func(_ *mutant, _ ackstore.Record, a *ackstore.Ack) {
			if a.Error != nil && a.Error.Kind == "permanent" {
				a.Error.Kind = "transient"
			}
		}),
	},
	{
		"loses the result", "ack/done keeps its result and who said so", true,
		acking(func(_ *mutant, _ ackstore.Record, a *ackstore.Ack) { a.Result = nil }),
	},
	{"does not note a receipt", "watchdog/a receipt ends the orphan timeout", true, func(m *mutant) {
		m.settle = func(c context.Context, r ackstore.Rules, acks []ackstore.Ack) ([]ackstore.AckResult, error) {
			rec, err := m.Store.Get(c, r, acks[0].ActionID)
			if err == nil && rec.State == ackstore.InFlight && acks[0].Verb == ackstore.SaysReceived && acks[0].Delivery <= rec.Delivery {
				return []ackstore.AckResult{{ActionID: rec.ID, Outcome: ackstore.Accepted, State: rec.State}}, nil
			}
			return m.Store.Settle(c, r, acks)
		}
	}},
}

var otherFaults = []Fault{
	{"forgets that a cancel is asked", "cancel/in flight: the agent is told, and its cancelled ends it", true, func(m *mutant) {
		m.cancel = func(c context.Context, r ackstore.Rules, acts []ackstore.Act) ([]ackstore.Acted, error) {
			if rec, err := m.Store.Get(c, r, acts[0].ActionID); err == nil && rec.State == ackstore.InFlight {
				return []ackstore.Acted{{Action: rec.Action}}, nil
			}
			return m.Store.Cancel(c, r, acts)
		}
	}},
	{"counts wrong", "read/the overview of an empty store", true, func(m *mutant) {
		m.look = func(c context.Context, r ackstore.Rules) (ackstore.Overview, error) {
			o, err := m.Store.Overview(c, r)
			if o.Counts == nil {
				o.Counts = map[ackstore.State]int{}
			}
			o.Counts[ackstore.Queued]++
			return o, err
		}
	}},
	{"resends early after a restart", "restart/nothing in flight moves before reconnect_grace, and acks are taken", false, func(m *mutant) {
		m.sweep = func(c context.Context, r ackstore.Rules, limit int) (ackstore.Swept, error) {
			if m.reopened {
				r.ReconnectGrace = 0
			}
			return m.Store.Sweep(c, r, limit)
		}
	}},
	{
		"never gives up", "watchdog/an unanswered delivery is resent max_resends times, then given up", true,
		changing(func(a *ackstore.NewAction) { a.MaxResends = 1000 }),
	},
	{"pages over what it lists", "read/list pages newest first, whatever the size of the page", false, func(m *mutant) {
		m.list = func(c context.Context, f ackstore.Filter, cursor string, limit int) ([]ackstore.Action, string, error) {
			items, next, err := m.Store.List(c, f, cursor, limit)
			if len(items) > 1 && next != "" {
				items = items[:len(items)-1]
			}
			return items, next, err
		}
	}},
}
