package server

import (
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// itemOf is an action as a list shows it.
func itemOf(a *ackstore.Action) api.Record {
	labels := a.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return api.Record{
		ActionID: a.ID, MachineID: a.MachineID, SessionID: a.SessionID, ReplayID: a.ReplayID,
		Type: a.Type, Target: a.Target, Priority: a.Priority,
		Guarantee: a.Guarantee.String(), OnDead: a.OnDead.String(), Labels: labels, Traceparent: a.Trace,
		OrphanTimeoutS: secondsOf(a.OrphanTimeout), InactivityTimeoutS: secondsOf(a.InactivityTimeout), CeilingS: secondsOf(a.Ceiling),
		MaxResends: a.MaxResends, MaxAttempts: a.MaxAttempts, TransientMaxAttempts: a.TransientMaxAttempts,
		State: stateText(a.State), Seq: a.Seq,
		Delivery: a.Delivery, Deliveries: a.Deliveries, ResentCount: a.Resent(),
		Resends:  api.Resends{Timeout: a.ResentTimeout, Disconnect: a.ResentDisconnect},
		Attempts: a.Attempts, TransientAttempts: a.TransientAttempts, QuotaWaits: a.QuotaWaits, ConfigWaits: a.ConfigWaits,
		CreatedAt: api.At(a.CreatedAt), AvailableAt: api.At(a.AvailableAt), ExpiresAt: api.At(a.ExpiresAt),
		FirstDispatchedAt: api.At(a.FirstDispatchedAt), DispatchedAt: api.At(a.DispatchedAt), LastResentAt: api.At(a.LastResentAt),
		ReceivedAt: api.At(a.ReceivedAt), LastActivityAt: api.At(a.ActiveAt), SettledAt: api.At(a.SettledAt),
		CancelAskedAt: api.At(a.CancelAskedAt), CancelConfirmed: a.CancelConfirmed,
		Error: failureOf(a.Error), Progress: progressOf(a.Progress), Note: a.Note, Late: a.Late,
	}
}

// recordOf is the whole of an action.
func (s *Server) recordOf(r *ackstore.Record) api.Record {
	out := itemOf(&r.Action)
	out.Payload = r.Payload
	if len(out.Payload) == 0 {
		out.Payload = []byte("null")
	}
	if r.HasResult {
		out.Result = r.Result
	}
	out.Timeline = make([]api.Entry, len(r.Timeline))
	for i, e := range r.Timeline {
		out.Timeline[i] = api.Entry{At: api.At(e.At), Event: e.Event, Delivery: e.Delivery, Detail: e.Detail}
	}
	out.TimelineCut = r.TimelineCut
	if r.WaitingFor != nil && r.State.Waits() {
		out.WaitingFor = s.waitingOf(r.WaitingFor, r.MachineID)
	}
	return out
}

// waitingOf says why an action waits. That the server stops comes before all that
// the store knows of.
func (s *Server) waitingOf(w *ackstore.Waiting, machineID string) *api.Waiting {
	why := predicament{waiting: *w, machine: machineID, now: s.store.Now()}
	if s.draining.Load() {
		why.waiting.Reason = "draining"
		return &api.Waiting{Reason: "draining", Resend: w.Resend, Explanation: explain(why)}
	}
	out := &api.Waiting{
		Explanation: explain(why),
		Reason:      w.Reason, Resend: w.Resend, ActionID: w.ActionID, InFlight: w.InFlight,
		MachineID: w.MachineID, Target: w.Target, Until: api.At(w.Until),
	}
	if w.Hold != nil {
		out.Scope, out.ID, out.Cause, out.Note = string(w.Hold.Scope), w.Hold.ID, w.Hold.Cause, w.Hold.Note
		out.MachineID, out.Until = w.Hold.MachineID, api.At(w.Hold.Until)
	}
	return out
}

func secondsOf(d time.Duration) *api.Seconds {
	if d == 0 {
		return nil
	}
	return api.S(d)
}

func failureOf(f *ackstore.Failure) *api.Failure {
	if f == nil {
		return nil
	}
	return &api.Failure{Kind: f.Kind, Message: f.Message, Code: f.Code}
}

func progressOf(p *ackstore.Progress) *api.Progress {
	if p == nil {
		return nil
	}
	return &api.Progress{Percent: p.Percent, Note: p.Note}
}

func pausesOf(holds []ackstore.Hold) []api.Pause {
	out := make([]api.Pause, 0, len(holds))
	for _, h := range holds {
		out = append(out, api.Pause{
			Scope: string(h.Scope), ID: h.ID, MachineID: h.MachineID, Cause: h.Cause, Note: h.Note, By: h.By,
			Since: api.At(h.Since), Until: api.At(h.Until), ActionID: h.ActionID,
		})
	}
	return out
}

func breakersOf(breakers []ackstore.Breaker) []api.Breaker {
	out := make([]api.Breaker, 0, len(breakers))
	for _, b := range breakers {
		out = append(out, api.Breaker{
			MachineID: b.MachineID, Target: b.Target, State: b.State, Until: api.At(b.Until),
			Reason: b.Reason, Since: api.At(b.Since), Probe: b.Probe,
		})
	}
	return out
}

// countsOf names every state, zeros too.
func countsOf(counts map[ackstore.State]int) map[string]int {
	out := map[string]int{}
	for _, state := range ackstore.States() {
		out[state.String()] = counts[state]
	}
	return out
}

func (s *Server) machineOf(m *ackstore.Machine) api.Machine {
	out := api.Machine{
		MachineID: m.ID, State: string(m.Presence), Since: api.At(m.Since), Address: m.Address, InstanceID: m.InstanceID,
		StreamID: m.StreamID, MaxInFlight: m.Credit, CreditReason: m.CreditReason, InFlight: m.InFlight, Queued: m.Queued,
		Breakers: breakersOf(m.Breakers), Paused: pausesOf(m.Holds), LastSeenAt: api.At(m.LastSeenAt), LastEventID: m.LastEventID,
		Explanation: explainMachine(m, s.draining.Load(), s.store.Now()),
	}
	if !m.OldestQueuedAt.IsZero() {
		out.OldestQueuedAgeS = api.S(max(0, s.store.Now().Sub(m.OldestQueuedAt)))
	}
	if contest, is := s.registry.Contested(m.ID); is {
		out.Contested = &api.Contested{Addresses: contest.Addresses, Since: api.At(contest.Since)}
	}
	return out
}

func labelOf(l *ackstore.Label) api.Label {
	out := api.Label{Status: l.Status, Closed: l.Closed, Counts: countsOf(l.Counts), Paused: pausesOf(l.Holds)}
	if l.Scope == ackstore.OfReplay {
		out.ReplayID = l.ID
	} else {
		out.SessionID = l.ID
	}
	return out
}
