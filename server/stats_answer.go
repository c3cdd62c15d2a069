package server

import (
	"context"
	"math"
	"net/http"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// histogram counts durations by powers of two, from 2^-2 ms on: the error of a
// percentile is below a factor of two, and mostly far below.
type histogram [24]uint16

func (h *histogram) add(d time.Duration) {
	ms := float64(max(0, d)) / float64(time.Millisecond)
	i := 0
	if ms > 0.25 {
		i = min(int(math.Ceil(math.Log2(ms)+2)), len(h)-1)
	}
	if h[i] < math.MaxUint16 {
		h[i]++
	}
}

// sums is a histogram that many were added to.
type sums [len(histogram{})]uint32

func (s *sums) add(h *histogram) {
	for i, n := range h {
		s[i] += uint32(n)
	}
}

// percentile is the p-th part's duration in milliseconds, drawn out evenly within
// its bucket; nil if nothing was measured.
func (s *sums) percentile(p float64) *float64 {
	total := uint32(0)
	for _, n := range s {
		total += n
	}
	if total == 0 {
		return nil
	}
	left := p * float64(total)
	for i, n := range s {
		if n > 0 && left <= float64(n) {
			high := math.Exp2(float64(i) - 2)
			low := high / 2
			if i == 0 {
				low = 0
			}
			ms := math.Round((low+(high-low)*left/float64(n))*100) / 100
			return &ms
		}
		left -= float64(n)
	}
	return nil
}

// statsAnswer is GET /v1/stats: columns from old to new, one entry a step.
type statsAnswer struct {
	ServerTime api.Time `json:"server_time"`
	StartedAt  api.Time `json:"started_at"` // the ring is empty before
	StepS      int      `json:"step_s"`
	Since      api.Time `json:"since"` // begin of the first step

	Pushed     []uint32 `json:"pushed"`
	Deliveries []uint32 `json:"deliveries"`
	Resends    []uint32 `json:"resends"`
	GiveUps    []uint32 `json:"give_ups"`
	Done       []uint32 `json:"done"`
	Failed     []uint32 `json:"failed"`

	// Null under a token with a pattern: they are over all machines.
	PushToBytesMS *percentiles `json:"push_to_bytes_ms"`
	BytesToAckMS  *percentiles `json:"bytes_to_ack_ms"`
}

// percentiles are columns too; null where nothing was measured.
type percentiles struct {
	P50 []*float64 `json:"p50"`
	P99 []*float64 `json:"p99"`
	// over the whole hour
	AllP50 *float64 `json:"all_p50"`
	AllP99 *float64 `json:"all_p99"`
}

func (p *percentiles) add(s *sums) {
	p.P50 = append(p.P50, s.percentile(0.5))
	p.P99 = append(p.P99, s.percentile(0.99))
}

func (a *statsAnswer) add(t tally) {
	a.Pushed = append(a.Pushed, t.Pushed)
	a.Deliveries = append(a.Deliveries, t.Deliveries)
	a.Resends = append(a.Resends, t.Resends)
	a.GiveUps = append(a.GiveUps, t.GiveUps)
	a.Done = append(a.Done, t.Done)
	a.Failed = append(a.Failed, t.Failed)
}

// showStats is GET /v1/stats.
func (c *call) showStats() error {
	step := c.query.whole("step_s", 1, statsSeconds, 60)
	machine := c.query.id("machine_id")
	if step > 0 && statsSeconds%step != 0 {
		c.query.faults.add("step_s", "must divide %d", statsSeconds)
	}
	if err := c.query.faults.err(); err != nil {
		return err
	}
	now := c.store.Now()
	reach := c.who.reach(mayRead)
	if machine != "" {
		reach = func(id string) bool { return id == machine }
	}
	if reach != nil {
		return c.answer(http.StatusOK, c.hub.stats.within(now, reach))
	}
	return c.answer(http.StatusOK, c.hub.stats.all(now, int64(step)))
}

// all sums the ring into steps of so many seconds.
func (s *stats) all(now time.Time, step int64) statsAnswer {
	last := now.Unix() - mod(now.Unix(), step) + step - 1 // the running step is the last
	first := last - statsSeconds + 1
	a := statsAnswer{
		ServerTime: api.At(now), StartedAt: api.At(s.started), StepS: int(step), Since: api.At(time.Unix(first, 0)),
		PushToBytesMS: &percentiles{}, BytesToAckMS: &percentiles{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var wireAll, ackAll sums
	for from := first; from <= last; from += step {
		var counts tally
		var wire, ack sums
		for at := from; at < from+step; at++ {
			if b := &s.ring[mod(at, statsSeconds)]; b.at == at {
				counts.add(b.counts)
				wire.add(&b.toWire)
				ack.add(&b.toAck)
			}
		}
		a.add(counts)
		a.PushToBytesMS.add(&wire)
		a.BytesToAckMS.add(&ack)
		for i := range wire {
			wireAll[i] += wire[i]
			ackAll[i] += ack[i]
		}
	}
	a.PushToBytesMS.AllP50, a.PushToBytesMS.AllP99 = wireAll.percentile(0.5), wireAll.percentile(0.99)
	a.BytesToAckMS.AllP50, a.BytesToAckMS.AllP99 = ackAll.percentile(0.5), ackAll.percentile(0.99)
	return a
}

// within sums the sparklines of some machines: pushes and latencies are kept over
// all machines only.
func (s *stats) within(now time.Time, reach func(string) bool) statsAnswer {
	newest := now.Unix() / stepSeconds
	a := statsAnswer{
		ServerTime: api.At(now), StartedAt: api.At(s.started), StepS: stepSeconds,
		Since: api.At(time.Unix((newest-statsSteps+1)*stepSeconds, 0)),
	}
	var steps [statsSteps]tally
	s.mu.Lock()
	for id, m := range s.machines {
		if !reach(id) {
			continue
		}
		for i, t := range m.hour(now) {
			steps[i].add(tally{
				Deliveries: uint32(t.deliveries), Resends: uint32(t.resends), GiveUps: uint32(t.giveUps),
				Done: uint32(t.done), Failed: uint32(t.failed),
			})
		}
	}
	s.mu.Unlock()
	for _, t := range steps {
		a.add(t)
	}
	return a
}

// seedLost finds the orphans that a store held when the server started: no change
// tells of those. It ends once it has as many as the store counts.
func (s *Server) seedLost(ctx context.Context) {
	overview, err := s.store.Overview(ctx, s.rules())
	found := 0
	for cursor := ""; err == nil && found < overview.Orphans; {
		var items []ackstore.Action
		items, cursor, err = s.store.List(ctx, ackstore.Filter{States: []ackstore.State{ackstore.Queued}}, cursor, 1000)
		s.hub.stats.mu.Lock()
		for i := range items {
			if items[i].Orphan != 0 {
				found++
				s.hub.stats.trackLost(items[i].ID, items[i].MachineID, true)
			}
		}
		s.hub.stats.mu.Unlock()
		if cursor == "" {
			return
		}
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Logger.Debug().Err(err).Msg("orphans from before the start are not shown by machine")
	}
}
