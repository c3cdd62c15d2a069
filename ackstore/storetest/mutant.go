package storetest

import (
	"context"

	"pushd/ackstore"
)

// mutant is a correct store in which one fault is planted at the port. A hook
// that is nil leaves its verb as it is.
type mutant struct {
	ackstore.Store
	reopened bool // the directory had been used before

	push   func(context.Context, ackstore.Rules, [][]ackstore.NewAction) ([]ackstore.Pushed, error)
	attach func(context.Context, ackstore.Rules, []ackstore.AttachReq) ([]ackstore.Attached, error)
	claim  func(context.Context, ackstore.Rules, []ackstore.ClaimReq) ([]ackstore.Claimed, error)
	detach func(context.Context, ackstore.Rules, []ackstore.DetachReq) error
	settle func(context.Context, ackstore.Rules, []ackstore.Ack) ([]ackstore.AckResult, error)
	sweep  func(context.Context, ackstore.Rules, int) (ackstore.Swept, error)
	credit func(context.Context, ackstore.Rules, []ackstore.CreditReq) ([]ackstore.Machine, error)
	cancel func(context.Context, ackstore.Rules, []ackstore.Act) ([]ackstore.Acted, error)
	hold   func(context.Context, ackstore.Rules, ackstore.Hold) error
	get    func(context.Context, ackstore.Rules, string) (ackstore.Record, error)
	list   func(context.Context, ackstore.Filter, string, int) ([]ackstore.Action, string, error)
	look   func(context.Context, ackstore.Rules) (ackstore.Overview, error)
}

// Mutant plants a fault in a store. Reopened says that the store stands on what
// an earlier one left.
func Mutant(s ackstore.Store, f Fault, reopened bool) ackstore.Store {
	m := &mutant{Store: s, reopened: reopened}
	f.plant(m)
	return m
}

// Abandon drops the store inside as its driver does.
func (m *mutant) Abandon() error { return Crash(m.Store) }

func (m *mutant) Push(c context.Context, r ackstore.Rules, groups [][]ackstore.NewAction) ([]ackstore.Pushed, error) {
	if m.push != nil {
		return m.push(c, r, groups)
	}
	return m.Store.Push(c, r, groups)
}

func (m *mutant) Attach(c context.Context, r ackstore.Rules, q []ackstore.AttachReq) ([]ackstore.Attached, error) {
	if m.attach != nil {
		return m.attach(c, r, q)
	}
	return m.Store.Attach(c, r, q)
}

func (m *mutant) Claim(c context.Context, r ackstore.Rules, q []ackstore.ClaimReq) ([]ackstore.Claimed, error) {
	if m.claim != nil {
		return m.claim(c, r, q)
	}
	return m.Store.Claim(c, r, q)
}

func (m *mutant) Detach(c context.Context, r ackstore.Rules, q []ackstore.DetachReq) error {
	if m.detach != nil {
		return m.detach(c, r, q)
	}
	return m.Store.Detach(c, r, q)
}

func (m *mutant) Settle(c context.Context, r ackstore.Rules, acks []ackstore.Ack) ([]ackstore.AckResult, error) {
	if m.settle != nil {
		return m.settle(c, r, acks)
	}
	return m.Store.Settle(c, r, acks)
}

func (m *mutant) Sweep(c context.Context, r ackstore.Rules, limit int) (ackstore.Swept, error) {
	if m.sweep != nil {
		return m.sweep(c, r, limit)
	}
	return m.Store.Sweep(c, r, limit)
}

func (m *mutant) SetCredit(c context.Context, r ackstore.Rules, q []ackstore.CreditReq) ([]ackstore.Machine, error) {
	if m.credit != nil {
		return m.credit(c, r, q)
	}
	return m.Store.SetCredit(c, r, q)
}

func (m *mutant) Cancel(c context.Context, r ackstore.Rules, acts []ackstore.Act) ([]ackstore.Acted, error) {
	if m.cancel != nil {
		return m.cancel(c, r, acts)
	}
	return m.Store.Cancel(c, r, acts)
}

func (m *mutant) Hold(c context.Context, r ackstore.Rules, h ackstore.Hold) error {
	if m.hold != nil {
		return m.hold(c, r, h)
	}
	return m.Store.Hold(c, r, h)
}

func (m *mutant) Get(c context.Context, r ackstore.Rules, id string) (ackstore.Record, error) {
	if m.get != nil {
		return m.get(c, r, id)
	}
	return m.Store.Get(c, r, id)
}

func (m *mutant) List(c context.Context, f ackstore.Filter, cursor string, limit int) ([]ackstore.Action, string, error) {
	if m.list != nil {
		return m.list(c, f, cursor, limit)
	}
	return m.Store.List(c, f, cursor, limit)
}

func (m *mutant) Overview(c context.Context, r ackstore.Rules) (ackstore.Overview, error) {
	if m.look != nil {
		return m.look(c, r)
	}
	return m.Store.Overview(c, r)
}
