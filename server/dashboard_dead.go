package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// Bounds of one look at the dead letters. A look that is cut says so.
const (
	deadShare  = 4      // a look is not repeated before so many times what it took
	deadMost   = 50_000 // dead letters looked at
	deadTime   = 3 * time.Second
	deadFresh  = 30 * time.Second // so old may counts by the hour be
	deadPeople = 8                // machines named in a group
	deadIDs    = 500              // actions of a group that can be acted on one by one
)

// deadGroup is the dead letters that ended for one reason.
type deadGroup struct {
	State    string        `json:"state"`
	Reason   string        `json:"reason"` // error.kind, or how it was lost
	Count    int           `json:"count"`
	Redriven int           `json:"redriven"` // that somebody has redriven before
	FirstAt  api.Time      `json:"first_at"`
	LastAt   api.Time      `json:"last_at"`
	Sample   *api.Failure  `json:"sample,omitempty"` // the newest error
	Machines []deadMachine `json:"machines"`         // most first
	Others   int           `json:"other_machines,omitempty"`
	IDs      []string      `json:"action_ids"` // newest first; at most 500

	byMachine map[string]int
}

type deadMachine struct {
	MachineID string `json:"machine_id"`
	Count     int    `json:"count"`
}

// deadAnswer is GET /v1/dead.
type deadAnswer struct {
	Groups     []*deadGroup   `json:"groups"` // newest first
	Counts     map[string]int `json:"counts"`
	Partial    bool           `json:"partial"` // there are more than were looked at
	LastDay    int            `json:"last_day"`
	LastHour   int            `json:"last_hour"`
	ServerTime api.Time       `json:"server_time"`
}

// deadView is the last look of a caller without a pattern.
type deadView struct {
	mu     sync.Mutex
	at     time.Time
	took   time.Duration
	deaths uint64
	last   *deadAnswer
}

// serves tells whether the last look still does: nothing has changed since, or it
// was so dear that the next has to wait.
func (v *deadView) serves(now time.Time, deaths uint64) bool {
	age := now.Sub(v.at)
	if v.last == nil || age < 0 {
		return false
	}
	return age < deadShare*v.took || v.deaths == deaths && age < deadFresh
}

// showDead is GET /v1/dead: what was given up, by reason.
func (c *call) showDead() error {
	if reach := c.who.reach(mayRead); reach != nil {
		a, err := c.dead(c.r.Context(), reach)
		if err != nil {
			return err
		}
		return c.answer(http.StatusOK, a)
	}
	v := &c.Server.deadView
	v.mu.Lock()
	defer v.mu.Unlock()
	began, deaths := c.store.Now(), c.hub.stats.deaths.Load()
	if !v.serves(began, deaths) {
		a, err := c.dead(c.r.Context(), nil)
		if err != nil {
			return err
		}
		v.last, v.at, v.deaths = a, c.store.Now(), deaths
		v.took = v.at.Sub(began)
	}
	return c.answer(http.StatusOK, v.last)
}

// dead groups the dead letters.
func (c *call) dead(ctx context.Context, reach func(string) bool) (*deadAnswer, error) {
	began := c.store.Now()
	a := &deadAnswer{Groups: []*deadGroup{}, Counts: map[string]int{}, ServerTime: api.At(began)}
	f := ackstore.Filter{States: []ackstore.State{ackstore.Failed, ackstore.GaveUp, ackstore.Expired}, Reach: reach}
	groups := map[[2]string]*deadGroup{}
	looked := 0
	for cursor := ""; ; {
		items, next, err := c.store.List(ctx, f, cursor, 1000)
		if err != nil {
			return nil, err
		}
		for i := range items {
			a.take(groups, &items[i], began)
		}
		looked += len(items)
		if cursor = next; cursor == "" {
			break
		}
		if looked >= deadMost || c.store.Now().Sub(began) > deadTime {
			a.Partial = true
			break
		}
	}
	for _, g := range groups {
		g.nameMachines()
		a.Groups = append(a.Groups, g)
	}
	slices.SortFunc(a.Groups, func(x, y *deadGroup) int {
		return cmp.Or(y.LastAt.Compare(x.LastAt.Time), cmp.Compare(x.State+x.Reason, y.State+y.Reason))
	})
	return a, nil
}

func (a *deadAnswer) take(groups map[[2]string]*deadGroup, it *ackstore.Action, now time.Time) {
	state := stateText(it.State)
	a.Counts[state]++
	if age := now.Sub(it.SettledAt); age < 24*time.Hour {
		a.LastDay++
		if age < time.Hour {
			a.LastHour++
		}
	}
	key := [2]string{state, deadReason(it)}
	g := groups[key]
	if g == nil {
		g = &deadGroup{State: key[0], Reason: key[1], byMachine: map[string]int{}}
		groups[key] = g
	}
	g.Count++
	g.byMachine[it.MachineID]++
	if it.Redrives > 0 {
		g.Redriven++
	}
	if len(g.IDs) < deadIDs {
		g.IDs = append(g.IDs, it.ID)
	}
	if g.FirstAt.IsZero() || it.SettledAt.Before(g.FirstAt.Time) {
		g.FirstAt = api.At(it.SettledAt)
	}
	if it.SettledAt.After(g.LastAt.Time) {
		g.LastAt, g.Sample = api.At(it.SettledAt), failureOf(it.Error)
	}
}

// deadReason is what a dead letter died of, in one word.
func deadReason(a *ackstore.Action) string {
	switch {
	case a.State == ackstore.Failed && a.SettledBy == ackstore.ByOperator:
		return "operator"
	case a.State == ackstore.Failed && a.Error != nil:
		return a.Error.Kind
	case a.State == ackstore.GaveUp:
		for i := len(a.Timeline) - 1; i >= 0; i-- {
			if a.Timeline[i].Event == "gave_up" {
				return a.Timeline[i].Detail
			}
		}
	case a.State == ackstore.Expired && a.Deliveries == 0:
		return "never_sent"
	case a.State == ackstore.Expired:
		return "sent_before"
	}
	return "unknown"
}

func (g *deadGroup) nameMachines() {
	for id, n := range g.byMachine {
		g.Machines = append(g.Machines, deadMachine{id, n})
	}
	slices.SortFunc(g.Machines, func(x, y deadMachine) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.MachineID, y.MachineID))
	})
	if extra := len(g.Machines) - deadPeople; extra > 0 {
		g.Machines, g.Others = g.Machines[:deadPeople], extra
	}
}
