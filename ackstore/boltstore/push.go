package boltstore

import (
	"context"
	"iter"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// Push takes groups of new actions; a group is all or nothing.
func (s *Store) Push(ctx context.Context, r ackstore.Rules, groups [][]ackstore.NewAction) ([]ackstore.Pushed, error) {
	answers := make([]ackstore.Pushed, len(groups))
	err := s.submit(ctx, r, func(t *tx) {
		for i, group := range groups {
			answers[i] = t.push(group)
		}
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// push looks at the whole group before it writes anything of it.
func (t *tx) push(group []ackstore.NewAction) ackstore.Pushed {
	p := pushing{t: t, first: map[string]int{}, news: map[string]int{}}
	for i := range group {
		if err := p.look(i, group); err != nil {
			return ackstore.Pushed{Err: err}
		}
	}
	items := make([]ackstore.PushedAction, len(group))
	for i := range group {
		if at, again := p.first[group[i].ActionID]; again && at != i {
			items[i] = items[at]
			items[i].Duplicate = true
			continue
		}
		if known := p.known[i]; known != nil {
			items[i] = *known
			continue
		}
		items[i] = t.insert(&group[i])
	}
	return ackstore.Pushed{Items: items}
}

// pushing is a group under examination.
type pushing struct {
	t        *tx
	first    map[string]int // action_id -> its first place in the group
	known    map[int]*ackstore.PushedAction
	news     map[string]int // machine -> new actions
	machines int            // machines that the group makes
}

func (p *pushing) look(i int, group []ackstore.NewAction) error {
	n := &group[i]
	if at, again := p.first[n.ActionID]; again {
		if group[at].Digest != n.Digest {
			return &ackstore.ConflictError{Index: i, ActionID: n.ActionID}
		}
		return nil
	}
	p.first[n.ActionID] = i
	if r, k, ok := p.t.find(n.ActionID); ok {
		if k.Digest != n.Digest {
			return &ackstore.ConflictError{Index: i, ActionID: n.ActionID}
		}
		if p.known == nil {
			p.known = map[int]*ackstore.PushedAction{}
		}
		p.known[i] = p.t.again(n, r, k)
		return nil
	}
	if n.Late {
		return &ackstore.LateError{Index: i, ActionID: n.ActionID}
	}
	return p.room(i, n)
}

// again answers a push of what is known.
func (t *tx) again(n *ackstore.NewAction, r *rec, k known) *ackstore.PushedAction {
	a := &ackstore.PushedAction{ActionID: n.ActionID, State: k.State, Seq: k.Seq, Duplicate: true}
	if r != nil {
		a.State, a.Seq = r.a.State, r.a.Seq
	}
	a.UnknownMachine = !t.subscribed(n.MachineID)
	return a
}

func (t *tx) subscribed(machine string) bool {
	m := t.s.machines[machine]
	return m != nil && m.row.Ever
}

// room checks what a new action must find: open labels, and room in its queue.
func (p *pushing) room(i int, n *ackstore.NewAction) error {
	t := p.t
	for scope, id := range map[ackstore.Scope]string{ackstore.OfSession: n.SessionID, ackstore.OfReplay: n.ReplayID} {
		if id == "" {
			continue
		}
		if row := t.labelIf(scope, id); row != nil && row.Closed {
			return &ackstore.ClosedError{Index: i, Scope: scope, ID: id}
		}
	}
	m := t.s.machines[n.MachineID]
	waiting := 0
	if m != nil {
		waiting = m.row.Counts.waiting()
	}
	if (m == nil || m.row.Gone) && p.news[n.MachineID] == 0 {
		if p.machines++; t.s.known+p.machines > t.r.MaxMachines {
			return &ackstore.LimitError{Index: i, MachineID: n.MachineID, Setting: "limits.max_machines", Limit: t.r.MaxMachines}
		}
	}
	if p.news[n.MachineID]++; waiting+p.news[n.MachineID] > t.r.MaxQueued {
		return &ackstore.LimitError{Index: i, MachineID: n.MachineID, Setting: "limits.max_queued_per_machine", Limit: t.r.MaxQueued}
	}
	return nil
}

// crowded tells whether a call would make more machines known than may be.
func (t *tx) crowded(ids iter.Seq[string]) error {
	news := map[string]bool{}
	for id := range ids {
		if m := t.s.machines[id]; m != nil && m.listed {
			continue
		}
		if news[id] = true; t.s.known+len(news) > t.r.MaxMachines {
			return &ackstore.LimitError{MachineID: id, Setting: "limits.max_machines", Limit: t.r.MaxMachines}
		}
	}
	return nil
}

// known machines are those that are not forgotten.
func (t *tx) appear(m *machine) {
	if m.listed {
		return
	}
	m.listed, m.row.Gone = true, false
	t.s.known++
	t.touch(m)
}

func (t *tx) insert(n *ackstore.NewAction) ackstore.PushedAction {
	m := t.machine(n.MachineID)
	t.appear(m)
	m.row.Seq++
	t.s.ord++
	t.metaTold = true
	r := newRec(m, t.action(n, m.row.Seq))
	a := &r.a
	a.Record(t.now, "pushed", "")
	key := be(a.Ord)
	t.append(bucketBodies, key, n.Payload)
	t.put(bucketIDs, []byte(a.ID), encode(known{Ord: a.Ord, Digest: n.Digest}))
	t.put(bucketTags, tagKey(tagMachine, a.MachineID, a.Ord), nil)
	if a.SessionID != "" {
		t.put(bucketTags, tagKey(tagSession, a.SessionID, a.Ord), nil)
	}
	if a.ReplayID != "" {
		t.put(bucketTags, tagKey(tagReplay, a.ReplayID, a.Ord), nil)
	}
	t.write(r, nil)
	t.retell(r, nil)
	t.kick(m)
	// What it becomes in this commit is told after the ride; its place is known.
	answer := ackstore.PushedAction{ActionID: a.ID, State: a.State, Seq: a.Seq, UnknownMachine: !m.row.Ever}
	return answer
}

// action makes the record of a new action, with the instants it works out to.
func (t *tx) action(n *ackstore.NewAction, seq uint64) ackstore.Action {
	a := ackstore.Action{
		Ord: t.s.ord, ID: n.ActionID, MachineID: n.MachineID, SessionID: n.SessionID, ReplayID: n.ReplayID,
		Type: n.Type, Target: n.Target, Priority: n.Priority, Guarantee: n.Guarantee, OnDead: n.OnDead, Labels: n.Labels,
		OrphanTimeout: n.OrphanTimeout, InactivityTimeout: n.InactivityTimeout, Ceiling: n.Ceiling,
		MaxResends: n.MaxResends, MaxAttempts: n.MaxAttempts, TransientMaxAttempts: n.TransientMaxAttempts,
		Trace: n.Trace, PayloadBytes: len(n.Payload), Seq: seq, State: ackstore.Queued, CreatedAt: t.now,
	}
	available := n.AvailableAt
	if n.Delay > 0 {
		available, a.Delayed = t.now.Add(n.Delay), true
	}
	if available = ledger.CeilMilli(available); available.After(t.now) {
		a.State, a.AvailableAt = ackstore.Scheduled, available
	}
	if n.TTL > 0 {
		a.ExpiresAt, a.TTL = ledger.CeilMilli(t.now.Add(n.TTL)), true
	} else if !n.ExpiresAt.IsZero() {
		a.ExpiresAt = ledger.CeilMilli(n.ExpiresAt)
	}
	return a
}
