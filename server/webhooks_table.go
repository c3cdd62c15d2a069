package server

import (
	"context"
	"errors"
	"sync/atomic"

	"pushd/server/webhook"
)

// hooks are what a server takes webhooks by. A request keeps the table that it
// began under to its end.
type hooks struct {
	Inbox Inbox
	Bell  *Bell

	table    atomic.Pointer[hookTable]
	adopting chan adoption // to the goroutine of the chains
}

// adoption is another set of routes, and where it is answered what came of it.
type adoption struct {
	set  *webhook.Set
	done chan error // capacity one: who asked may have gone
}

// hookTable is a set of routes and what was seen on them. It is never changed.
type hookTable struct {
	*webhook.Set
	tallies map[string]*hookTally
}

func newHooks(w Webhooks) *hooks {
	h := &hooks{Inbox: w.Inbox, Bell: w.Bell, adopting: make(chan adoption)}
	if w.Set == nil {
		w.Set = &webhook.Set{}
	}
	h.table.Store(newHookTable(w.Set, &hookTable{}))
	return h
}

// now is the table in force.
func (h *hooks) now() *hookTable { return h.table.Load() }

// routing is the table that a request began under: it asks before it reads.
func (c *call) routing() *hookTable {
	if c.table == nil {
		c.table = c.hooks.now()
	}
	return c.table
}

// newHookTable goes on counting where before does the same route.
func newHookTable(set *webhook.Set, before *hookTable) *hookTable {
	t := &hookTable{set, map[string]*hookTally{}}
	for _, rt := range set.Routes {
		tally := before.tallies[rt.ID]
		switch {
		case tally == nil:
			tally = newHookTally(rt.Secrets())
		case rt.Rekeyed(before.Find(rt.ID)):
			tally = tally.rekeyed(rt.Known(before.Find(rt.ID)))
		}
		t.tallies[rt.ID] = tally
	}
	return t
}

// AdoptRoutes puts other routes and chain rules in force, all or none of them.
// Requests under way end by the old ones. It needs RunChains to run, and waits for
// the end of its round.
func (s *Server) AdoptRoutes(ctx context.Context, set *webhook.Set) error {
	a := adoption{set, make(chan error, 1)}
	select {
	case s.hooks.adopting <- a:
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-a.done
}

func (s *Server) adoptRoutes(ctx context.Context, set *webhook.Set) error {
	before := s.hooks.now()
	if err := s.hooks.Inbox.Follow(ctx, FollowingOf(set)); err != nil {
		return errors.Join(err, s.hooks.Inbox.Follow(ctx, FollowingOf(before.Set)))
	}
	s.hooks.table.Store(newHookTable(set, before))
	return nil
}
