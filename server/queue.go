package server

import (
	"net/http"

	"pushd/ackstore"
	"pushd/server/api"
)

const recentActions = 10

// showQueue is GET /queue.
func (c *call) showQueue() error {
	ctx := c.r.Context()
	overview, err := c.store.Overview(ctx, c.rules())
	if err != nil {
		return err
	}
	reach := c.who.reach(mayRead)
	recent, _, err := c.store.List(ctx, ackstore.Filter{Reach: reach}, "", recentActions)
	if err != nil {
		return err
	}
	if reach != nil {
		if overview, err = c.overviewWithin(overview, reach); err != nil {
			return err
		}
	}
	q := api.Queue{
		Counts: countsOf(overview.Counts), Recent: make([]api.Record, len(recent)),
		Breakers: breakersOf(overview.Breakers), Paused: pausesOf(overview.Holds),
		Orphans: overview.Orphans, Machines: overview.Machines, ServerTime: api.At(c.store.Now()),
	}
	for i := range recent {
		q.Recent[i] = itemOf(&recent[i])
	}
	return c.answer(http.StatusOK, q)
}

// overviewWithin is what a caller with a pattern may see of the whole.
func (c *call) overviewWithin(o ackstore.Overview, reach func(string) bool) (ackstore.Overview, error) {
	counts, err := c.countWithin(ackstore.Filter{Reach: reach})
	if err != nil {
		return o, err
	}
	within := ackstore.Overview{Counts: counts, Holds: holdsWithin(o.Holds, reach)}
	for _, b := range o.Breakers {
		if b.MachineID == "" || reach(b.MachineID) {
			within.Breakers = append(within.Breakers, b)
		}
	}
	for after := ""; ; {
		machines, err := c.store.Machines(c.r.Context(), c.rules(), after, 1000)
		if err != nil {
			return o, err
		}
		for _, m := range machines {
			if reach(m.ID) {
				within.Machines++
			}
			after = m.ID
		}
		if len(machines) < 1000 {
			return within, nil
		}
	}
}

// showWatchdog is GET /v1/watchdog/metrics.
func (c *call) showWatchdog() error {
	overview, err := c.store.Overview(c.r.Context(), c.rules())
	if err != nil {
		return err
	}
	w := c.watchdog()
	w.CurrentInFlightCount, w.CurrentOrphanCount = overview.Counts[ackstore.InFlight], overview.Orphans
	return c.answer(http.StatusOK, struct {
		Watchdog api.Watchdog `json:"watchdog"`
	}{w})
}
