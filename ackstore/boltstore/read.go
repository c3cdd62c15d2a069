package boltstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
	"pushd/policy"
)

// Get is an action with all that is kept of it. It waits in line with the writes,
// so that what it tells is on disk and of one moment.
func (s *Store) Get(ctx context.Context, r ackstore.Rules, id string) (ackstore.Record, error) {
	var record ackstore.Record
	found := false
	err := s.submit(ctx, r, func(t *tx) {
		rec, _, ok := t.find(id)
		if found = ok && rec != nil; !found {
			return
		}
		key := be(rec.a.Ord)
		record = ackstore.Record{Action: rec.a, Payload: clone(t.bucket(bucketBodies).Get(key))}
		record.Timeline = slices.Clone(rec.a.Timeline)
		if rec.a.HasResult {
			record.Result = clone(t.bucket(bucketResults).Get(key))
		}
		record.WaitingFor = t.explain(rec)
	})
	if err == nil && !found {
		err = ackstore.ErrUnknown
	}
	return record, err
}

// explain is why an action that waits is not dispatched: the first that holds of
// the list in protocol section 12.
func (t *tx) explain(r *rec) *ackstore.Waiting {
	a, m := &r.a, r.m
	if !a.State.Waits() {
		return nil
	}
	w := &ackstore.Waiting{Resend: a.Orphan != 0, MachineID: m.id}
	if h := t.held(a); h != nil {
		w.Reason, w.Hold, w.Until = "paused", h, h.Until
		return w
	}
	if q := m.lanes[a.SessionID]; a.SessionID != "" && q != nil && q.head != nil && q.head.a.Ord != a.Ord {
		w.Reason, w.ActionID = "lane", q.head.a.ID
		return w
	}
	if a.State == ackstore.Scheduled {
		w.Reason, w.Until = "available_at", a.AvailableAt
		return w
	}
	if b := t.shutFor(r); b != nil {
		w.Reason, w.MachineID, w.Target, w.Until, w.ActionID = "breaker_open", b.Machine, b.Target, b.Until, b.ProbeID
		return w
	}
	switch t.presence(m) {
	case ackstore.Offline, ackstore.Grace:
		w.Reason = "machine_offline"
	case ackstore.Suspect:
		w.Reason = "machine_suspect"
	default:
		w.Reason, w.InFlight = "credit", t.inFlightIDs(m)
	}
	return w
}

func (t *tx) inFlightIDs(m *machine) []string {
	var ids []string
	for _, r := range t.openOf(m) {
		if r.a.State == ackstore.InFlight {
			ids = append(ids, r.a.ID)
		}
	}
	return ids
}

// presence of a machine. A poller is online while it polls, and for
// reconnect_grace after its last poll or ack; a stream's machine is in grace for
// as long as what it has not acked.
func (t *tx) presence(m *machine) ackstore.Presence {
	p, _ := t.presenceSince(m)
	return p
}

func (t *tx) presenceSince(m *machine) (ackstore.Presence, time.Time) {
	l := m.lease
	switch {
	case l != nil && l.suspect(t.now, t.r):
		return ackstore.Suspect, l.signed.Add(t.r.SuspectAfter)
	case l != nil && l.via == ackstore.ViaStream:
		return ackstore.Online, m.row.Attached
	case l != nil && l.polls > 0:
		return ackstore.Online, l.lastPoll
	case l != nil:
		quiet := l.lastPoll
		if l.signed.After(quiet) {
			quiet = l.signed
		}
		return t.polled(quiet)
	}
	if !m.row.Ever {
		return ackstore.Offline, time.Time{}
	}
	if m.row.Attached.IsZero() { // it never had a stream, and its lease ended with the server before this one
		return t.polled(m.row.LastSeen)
	}
	gone := m.row.Detached
	if t.s.boot.After(gone) && m.row.Attached.After(m.row.Detached) {
		gone = t.s.boot // its stream ended with the server before this one
	}
	if end := gone.Add(t.r.DisconnectGrace); !t.now.Before(end) {
		return ackstore.Offline, end
	}
	return ackstore.Grace, gone
}

// polled is the presence of a machine whose last poll or ack came at quiet.
func (t *tx) polled(quiet time.Time) (ackstore.Presence, time.Time) {
	if end := quiet.Add(t.r.ReconnectGrace); !t.now.Before(end) {
		return ackstore.Offline, end
	}
	return ackstore.Online, quiet
}

// doors are the breakers that are not closed, by machine.
func (t *tx) doors(which func(breakerID) bool) map[string][]ackstore.Breaker {
	all := map[string][]ackstore.Breaker{}
	for id, b := range t.s.breakers {
		if b.State != policy.Closed && which(id) {
			all[id.machine] = append(all[id.machine], b.show())
		}
	}
	for _, doors := range all {
		sortBreakers(doors)
	}
	return all
}

// show is a machine as it stands.
func (t *tx) show(m *machine) ackstore.Machine {
	return t.showWith(m, t.doors(func(id breakerID) bool { return id.machine == m.id })[m.id])
}

func (t *tx) showWith(m *machine, doors []ackstore.Breaker) ackstore.Machine {
	presence, since := t.presenceSince(m)
	row := &m.row
	credit, why := m.creditWhy()
	return ackstore.Machine{
		ID: m.id, InstanceID: row.Instance, Address: row.Address, Presence: presence, Since: since,
		LastSeenAt: row.LastSeen, Credit: credit, CreditReason: why, InFlight: m.inFlight, Queued: row.Counts.waiting(),
		Unsettled: row.Counts.unsettled(), OldestQueuedAt: t.oldest(m), LastEventID: row.EventID,
		EverSubscribed: row.Ever, Via: row.Via, StreamID: row.StreamID, Holds: t.holdsOn(ackstore.OfMachine, m.id),
		Breakers: doors,
	}
}

// oldest is when the action that has waited longest was pushed: one of the heads
// of its queues.
func (t *tx) oldest(m *machine) time.Time {
	var at time.Time
	look := func(r *rec) {
		if r.a.State.Waits() && (at.IsZero() || r.a.CreatedAt.Before(at)) {
			at = r.a.CreatedAt
		}
	}
	for _, q := range m.lanes {
		look(q.head)
	}
	for _, q := range m.flows {
		look(q.head)
	}
	for _, r := range m.open {
		look(r)
	}
	return at
}

func (b *breakerRow) show() ackstore.Breaker {
	return ackstore.Breaker{
		MachineID: b.Machine, Target: b.Target, State: b.State.String(), Until: b.Until,
		Reason: b.Reason, Since: b.Since, Probe: b.ProbeID,
	}
}

func sortBreakers(all []ackstore.Breaker) {
	slices.SortFunc(all, func(a, b ackstore.Breaker) int {
		if c := strings.Compare(a.MachineID, b.MachineID); c != 0 {
			return c
		}
		return strings.Compare(a.Target, b.Target)
	})
}

func sortHolds(all []ackstore.Hold) {
	slices.SortFunc(all, func(a, b ackstore.Hold) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(string(a.Scope)+a.ID+a.MachineID+a.Cause, string(b.Scope)+b.ID+b.MachineID+b.Cause)
	})
}

// Owners tells which machine each action is for. That never changes, so it is
// read beside the committer.
func (s *Store) Owners(_ context.Context, ids []string) ([]string, error) {
	owners := make([]string, len(ids))
	err := s.db.View(func(bt *bolt.Tx) error {
		known, actions := bt.Bucket(bucketIDs), bt.Bucket(bucketActions)
		for i, id := range ids {
			owner, err := ownerOf(known, actions, id)
			if err != nil {
				return err
			}
			owners[i] = owner
		}
		return nil
	})
	return owners, err
}

func ownerOf(ids, actions *bolt.Bucket, id string) (string, error) {
	v := ids.Get([]byte(id))
	if v == nil {
		return "", nil
	}
	var k known
	if err := decode(v, &k); err != nil {
		return "", err
	}
	if v = actions.Get(be(k.Ord)); v == nil {
		return "", nil
	}
	var a ackstore.Action
	err := decode(v, &a)
	return a.MachineID, err
}

// Overview is the store at a glance.
func (s *Store) Overview(ctx context.Context, r ackstore.Rules) (ackstore.Overview, error) {
	var o ackstore.Overview
	err := s.submit(ctx, r, func(t *tx) {
		o = ackstore.Overview{Counts: t.s.counts.byState(), Machines: t.s.known, Commits: s.commits.Load(), Bytes: t.bt.Size()}
		for _, h := range t.s.holds {
			o.Holds = append(o.Holds, *h)
		}
		sortHolds(o.Holds)
		for _, b := range t.s.breakers {
			if b.State != policy.Closed {
				o.Breakers = append(o.Breakers, b.show())
			}
		}
		sortBreakers(o.Breakers)
		o.Presences, o.Evicted, o.ClockJumps = map[ackstore.Presence]int{}, maps.Clone(s.seen.evicted), s.seen.jumps
		for _, m := range t.s.machines {
			t.overlook(m, &o)
		}
	})
	return o, err
}

// overlook adds a machine to an overview.
func (t *tx) overlook(m *machine, o *ackstore.Overview) {
	first := func(oldest *time.Time, at time.Time) {
		if !at.IsZero() && (oldest.IsZero() || at.Before(*oldest)) {
			*oldest = at
		}
	}
	first(&o.OldestQueued, t.oldest(m))
	for _, r := range m.open {
		if r.a.Orphan != 0 {
			o.Orphans++
		}
		if r.a.State == ackstore.InFlight {
			first(&o.OldestInFlight, r.a.DispatchedAt)
		}
	}
	if !m.listed {
		return
	}
	presence := t.presence(m)
	o.Presences[presence]++
	if presence == ackstore.Online || presence == ackstore.Suspect {
		o.CreditUsed += m.inFlight
		o.Credit += m.credit()
	}
}

// Machine is one machine as it stands.
func (s *Store) Machine(ctx context.Context, r ackstore.Rules, id string) (ackstore.Machine, error) {
	var shown ackstore.Machine
	found := false
	err := s.submit(ctx, r, func(t *tx) {
		m := t.s.machines[id]
		if found = m != nil && (m.listed || len(t.holdsOn(ackstore.OfMachine, id)) > 0); found {
			shown = t.show(m)
			return
		}
		// A scope may be paused before its first action.
		if holds := t.holdsOn(ackstore.OfMachine, id); len(holds) > 0 {
			found, shown = true, ackstore.Machine{ID: id, Presence: ackstore.Offline, Credit: 1, Holds: holds}
		}
	})
	if err == nil && !found {
		err = ackstore.ErrUnknown
	}
	return shown, err
}

// Machines pages through the machines by id, in the order in which they are on
// disk: there may be very many.
func (s *Store) Machines(ctx context.Context, r ackstore.Rules, after string, limit int) ([]ackstore.Machine, error) {
	var all []ackstore.Machine
	err := s.submit(ctx, r, func(t *tx) {
		all = nil
		doors := t.doors(func(breakerID) bool { return true })
		c := t.bucket(bucketMachines).Cursor()
		for key, _ := c.Seek(append([]byte(after), 0)); key != nil && len(all) < limit; key, _ = c.Next() {
			if m := t.s.machines[string(key)]; m != nil && m.listed {
				all = append(all, t.showWith(m, doors[m.id]))
			}
		}
	})
	return all, err
}

// Label is a session or replay as it stands.
func (s *Store) Label(ctx context.Context, scope ackstore.Scope, id string) (ackstore.Label, error) {
	var shown ackstore.Label
	found := false
	err := s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		row, holds := t.labelIf(scope, id), t.holdsOn(scope, id)
		if found = row != nil || len(holds) > 0; found {
			shown = showLabel(scope, id, row, holds)
		}
	})
	if err == nil && !found {
		err = ackstore.ErrUnknown
	}
	return shown, err
}

// Labels pages through sessions or replays by id.
func (s *Store) Labels(ctx context.Context, scope ackstore.Scope, after string, limit int) ([]ackstore.Label, error) {
	var all []ackstore.Label
	err := s.submit(ctx, ackstore.Rules{}, func(t *tx) {
		all = nil
		prefix := labelKey(scope, "")
		c := t.bucket(bucketLabels).Cursor()
		for key, v := c.Seek(append(labelKey(scope, after), 0)); key != nil && key[0] == prefix[0] && len(all) < limit; key, v = c.Next() {
			row := t.labels[string(key)]
			if row == nil {
				row = &labelRow{}
				t.fail(decode(v, row))
			}
			id := string(key[1:])
			all = append(all, showLabel(scope, id, row, t.holdsOn(scope, id)))
		}
	})
	return all, err
}

func showLabel(scope ackstore.Scope, id string, row *labelRow, holds []ackstore.Hold) ackstore.Label {
	l := ackstore.Label{Scope: scope, ID: id, Status: "active", Holds: holds, Counts: map[ackstore.State]int{}}
	if row != nil {
		l.Closed, l.Counts = row.Closed, row.Counts.byState()
	}
	switch {
	case l.Closed:
		l.Status = "closed"
	case slices.ContainsFunc(holds, func(h ackstore.Hold) bool { return h.Cause == ackstore.HeldNeedHelp }):
		l.Status = "paused_need_help"
	case len(holds) > 0:
		l.Status = "paused"
	}
	return l
}

// Writable tells whether a commit succeeds. While they do there is nothing to try.
func (s *Store) Writable(ctx context.Context) error {
	if !s.broken.Load() {
		return nil
	}
	return s.submit(ctx, ackstore.Rules{}, func(t *tx) { t.put(bucketMeta, keyProbe, be(uint64(t.now.UnixMilli()))) })
}
