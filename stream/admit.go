package stream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pushd/ackstore"
)

// Admit gives the seat of req.MachineID to the caller and attaches it to the
// store, or returns a *RefusedError or the store's error. The holder before, if
// there is one, is told to go and waited for, not for long. ctx is the
// request's: once it is done the seat counts as empty. req.StreamID is drawn if
// it is empty; tokenID is opaque, see CloseTokens. Whoever gets a Seat must
// Leave it.
func (r *Registry) Admit(ctx context.Context, rules ackstore.Rules, req ackstore.AttachReq, tokenID string) (*Seat, error) {
	if req.StreamID == "" {
		req.StreamID = fmt.Sprintf("%016x%016x", r.random(), r.random())
	}
	s := newSeat(ctx, r, rules, req, tokenID)
	older, against, err := r.place(s)
	if err != nil {
		return nil, err
	}
	if against != "" {
		r.log.Warn().Str("machine_id", req.MachineID).Str("holder", against).Str("newcomer", req.Address).Msg("machine is contested")
	}
	if err := r.follow(ctx, s, older); err != nil {
		s.Leave()
		return nil, err
	}
	return s, nil
}

// place makes s a holder of its machine, or refuses it, and tells those it
// replaces to go. It returns all who must have left before s is attached, and
// the holder's address where s came by a contest.
func (r *Registry) place(s *Seat) (older []*Seat, against string, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return nil, "", r.refuse(ErrDraining, 2*time.Second, 5*time.Second)
	}
	id := s.req.MachineID
	m := r.machines[id]
	if m == nil {
		m = &machine{}
	}
	r.retire(m, (*Seat).over)
	if len(m.live) == 0 && r.max > 0 && r.counts.Machines >= r.max {
		return nil, "", r.refuse(ErrFull, 5*time.Second, 15*time.Second)
	}
	if len(m.live) > 0 && !s.joins(m.live[0]) {
		if against, err = r.takeOver(s, m, now); err != nil {
			return nil, "", err
		}
	}
	s.at, r.machines[id] = m, m
	s.rules = r.common(s.rules)
	m.live = append(m.live, s)
	if len(m.live) == 1 {
		r.counts.Machines++
	}
	r.count(s, 1)
	r.counts.Admitted++
	return slices.Clone(m.leaving), against, nil
}

// common is rules, or the same that others have already: thousands of seats need
// no copy each.
func (r *Registry) common(rules *ackstore.Rules) *ackstore.Rules {
	if r.rules == nil || *r.rules != *rules {
		r.rules = rules
	}
	return r.rules
}

// takeOver sends the holders of m away in favour of s, unless it is one contest
// too many. It returns whom the contest was against, if it is one.
func (r *Registry) takeOver(s *Seat, m *machine, now time.Time) (against string, err error) {
	id := s.req.MachineID
	if slices.ContainsFunc(m.live, func(h *Seat) bool { return !s.comesBack(h) }) {
		if wait := r.contests.wait(id, now); wait > 0 {
			return "", r.refuse(ErrContested, wait, wait)
		}
		hosts := []string{hostOf(s.req.Address)}
		for _, h := range m.live {
			hosts = slices.Insert(hosts, 0, hostOf(h.req.Address))
		}
		r.contests.record(id, now, hosts...)
		r.counts.Contests++
		against = m.live[0].req.Address
	}
	r.counts.Takeovers++
	for _, h := range m.live {
		if h.req.Via == ackstore.ViaStream {
			r.replaced.add(id, h.req.StreamID)
		}
		h.ask(ByeReplaced, s.req.Address)
	}
	r.retire(m, func(*Seat) bool { return true })
	return against, nil
}

// joins tells whether s polls beside h, which polls too.
func (s *Seat) joins(h *Seat) bool {
	return s.req.Via == ackstore.ViaPoll && h.req.Via == ackstore.ViaPoll && s.req.InstanceID == h.req.InstanceID
}

// comesBack tells whether s is the agent that h belongs to.
func (s *Seat) comesBack(h *Seat) bool {
	return s.req.InstanceID == h.req.InstanceID && (s.req.InstanceID != "" || hostOf(s.req.Address) == hostOf(h.req.Address))
}

func (r *Registry) refuse(reason error, from, to time.Duration) error {
	r.counts.Refused++
	return &RefusedError{Reason: reason, RetryAfter: between(r.random, from, to)}
}

// outlast waits until those before s have left; one that hangs is cut off. One
// that hangs even then hangs in the store, and is fenced by what follows.
func (r *Registry) outlast(ctx context.Context, s *Seat, older []*Seat) {
	if len(older) == 0 || awaitAll(older, r.wait, s.Closing(), ctx.Done()) || s.unwanted() {
		return
	}
	r.cut(older)
	if !awaitAll(older, cutWait, s.Closing(), ctx.Done()) && !s.unwanted() {
		r.log.Warn().Str("machine_id", s.req.MachineID).Msg("replaced stream has not ended; it will be fenced")
	}
}

// unwanted tells whether s has been asked to go, or its client has.
func (s *Seat) unwanted() bool {
	reason, _ := s.Asked()
	return reason != "" || s.over()
}

func (r *Registry) cut(seats []*Seat) {
	for _, s := range seats {
		if s.hasEnded() {
			continue
		}
		r.mu.Lock()
		r.counts.Cuts++
		r.mu.Unlock()
		s.cut()
	}
}

// follow attaches s once those before it have left, unless a still newer one has
// come meanwhile. Newcomers take turns: else the older could be attached last,
// and fence the newer.
func (r *Registry) follow(ctx context.Context, s *Seat, older []*Seat) error {
	if r.takeTurn(ctx, s) {
		defer r.endTurn(s)
		r.outlast(ctx, s, older)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if reason, _ := s.Asked(); reason != "" {
		return r.tooLate(reason)
	}
	return r.attach(ctx, s)
}

// takeTurn waits until nobody else of s's machine is being attached; false: s has
// become unwanted meanwhile.
func (r *Registry) takeTurn(ctx context.Context, s *Seat) bool {
	for {
		r.mu.Lock()
		first := s.at.attaching
		if first == nil {
			s.at.attaching = s
		}
		r.mu.Unlock()
		if first == nil {
			return true
		}
		select {
		case <-first.signals.wait(&first.signals.attached):
		case <-s.Closing():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (r *Registry) endTurn(s *Seat) {
	r.mu.Lock()
	s.at.attaching = nil
	r.mu.Unlock()
	s.signals.give(&s.signals.attached)
}

func (r *Registry) attach(ctx context.Context, s *Seat) error {
	// Not the request's context: if it ended now we would not learn the lease.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	got, err := r.store.Attach(call, *s.rules, []ackstore.AttachReq{s.req})
	if err != nil {
		return err
	}
	if len(got) != 1 {
		return fmt.Errorf("stream: store answered %d attaches to one", len(got))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.attached, s.seated = got[0], true
	return nil
}

func (r *Registry) tooLate(reason Reason) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch reason {
	case ByeShutdown:
		return r.refuse(ErrDraining, 2*time.Second, 5*time.Second)
	case ByeRevoked:
		return r.refuse(ErrRevoked, 0, 0)
	default:
		return r.refuse(ErrReplaced, 30*time.Second, 30*time.Second)
	}
}

// between draws a duration from from up to, but not, to.
func between(random func() uint64, from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	return from + time.Duration(random()%uint64(to-from))
}
