package server

import (
	"context"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// statsUnacked is how many deliveries without an ack are known one by one.
const statsUnacked = 50_000

// unacked is a delivery in flight that no ack has named.
type unacked struct {
	machineID string
	sentAt    time.Time
}

// oldestUnacked is the one that has waited longest.
type oldestUnacked struct {
	ActionID  string   `json:"action_id"`
	MachineID string   `json:"machine_id"`
	SentAt    api.Time `json:"sent_at"`
}

// trackUnacked follows a delivery from its dispatch to whatever becomes of it. The
// lock is held.
func (s *stats) trackUnacked(c *ackstore.Change) {
	switch c.Event {
	case "dispatched", "resent":
		if _, known := s.unacked[c.ActionID]; known || len(s.unacked) < statsUnacked {
			s.unacked[c.ActionID] = unacked{c.MachineID, c.At}
		}
	case "cancel_asked": // it is out as it was
	default:
		delete(s.unacked, c.ActionID)
		s.heard(c.ActionID)
	}
}

// heard keeps whom a change has told of until the seed has been read: it is older
// than that change. Where there are too many the seed is not taken.
func (s *stats) heard(actionID string) {
	if len(s.early) >= statsUnacked {
		s.early = nil
	}
	if s.early != nil {
		s.early[actionID] = struct{}{}
	}
}

// oldest is the number of deliveries without an ack on machines within reach (nil:
// all), and the oldest of them.
func (s *stats) oldest(reach func(machineID string) bool) (n int, first *oldestUnacked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.unacked {
		if reach != nil && !reach(u.machineID) {
			continue
		}
		n++
		if first == nil || u.sentAt.Before(first.SentAt.Time) {
			first = &oldestUnacked{id, u.machineID, api.At(u.sentAt)}
		}
	}
	return n, first
}

// seedUnacked finds what was in flight when the server started.
func (s *Server) seedUnacked(ctx context.Context) {
	defer s.hub.stats.seeded()
	for cursor, more := "", true; more; more = cursor != "" {
		items, next, err := s.store.List(ctx, ackstore.Filter{States: []ackstore.State{ackstore.InFlight}}, cursor, 1000)
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Debug().Err(err).Msg("deliveries from before the start are not shown as unacked")
			}
			return
		}
		s.hub.stats.adopt(items)
		cursor = next
	}
}

// seeded forgets whom changes told of: nothing older comes any more.
func (s *stats) seeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.early = nil
}

// adopt takes deliveries that were out before, but for those of which a change has
// told meanwhile.
func (s *stats) adopt(inFlight []ackstore.Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range inFlight {
		a := &inFlight[i]
		_, known := s.unacked[a.ID]
		_, told := s.early[a.ID]
		if !known && !told && s.early != nil && !a.Acked && len(s.unacked) < statsUnacked {
			s.unacked[a.ID] = unacked{a.MachineID, a.DispatchedAt}
		}
	}
}
