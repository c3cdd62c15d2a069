package server

import (
	"cmp"
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
)

// fleetLife is how long one look at all machines serves every viewer: the store is
// asked at most four times a second, however many dashboards watch.
const fleetLife = 250 * time.Millisecond

// fleetView is the last look at all machines.
type fleetView struct {
	mu   sync.Mutex
	at   time.Time
	rows []fleetRow
}

// fleetRow is a machine as the fleet's table shows it.
type fleetRow struct {
	MachineID        string       `json:"machine_id"`
	State            string       `json:"state"`
	Since            api.Time     `json:"since,omitzero"`
	LastSeenAt       api.Time     `json:"last_seen_at,omitzero"`
	LastAckAt        api.Time     `json:"last_ack_at,omitzero"`
	AckMS            *float64     `json:"ack_ms,omitempty"` // from the bytes of the last acked delivery to its ack
	Queued           int          `json:"queued"`
	InFlight         int          `json:"in_flight"`
	MaxInFlight      int          `json:"max_in_flight"`
	Orphans          int          `json:"orphans"`
	OldestQueuedAgeS *api.Seconds `json:"oldest_queued_age_s,omitempty"`
	Paused           []string     `json:"paused,omitempty"` // causes
	Breakers         []string     `json:"breakers,omitempty"`
	Contested        bool         `json:"contested,omitempty"`
	Troubles         []string     `json:"troubles,omitempty"` // why it needs attention, worst first
	Hour             *fleetHour   `json:"hour,omitempty"`

	rank int
}

// fleetHour is a sparkline: steps of two minutes, from old to new.
type fleetHour struct {
	Deliveries [statsSteps]uint16 `json:"deliveries"`
	Lost       [statsSteps]uint16 `json:"lost"` // sent again, or given up
}

// fleetAnswer is GET /v1/fleet.
type fleetAnswer struct {
	Items      []fleetRow     `json:"items"`
	Total      int            `json:"total"` // that match
	Machines   int            `json:"machines"`
	States     map[string]int `json:"states"`
	Troubled   int            `json:"troubled"`
	Orphans    int            `json:"orphans"`
	Unacked    int            `json:"unacked"` // deliveries in flight that no ack has named
	Oldest     *oldestUnacked `json:"oldest_unacked,omitempty"`
	ServerTime api.Time       `json:"server_time"`
}

var fleetSorts = []string{"trouble", "id", "state", "queued", "in_flight", "orphans", "last_ack"}

// showFleet is GET /v1/fleet: a window of all machines, in an order that only who
// knows all of them can give.
func (c *call) showFleet() error {
	q := c.query
	sort := cmp.Or(q.values.Get("sort"), "trouble")
	if !slices.Contains(fleetSorts, sort) {
		q.faults.add("sort", "must be one of %s", strings.Join(fleetSorts, ", "))
	}
	has := q.values.Get("has")
	if _, known := fleetHas[has]; has != "" && !known {
		q.faults.add("has", "must be orphans, queued, in_flight, trouble, pause or breaker")
	}
	state := q.values.Get("state")
	offset, limit := q.whole("offset", 0, math.MaxInt32, 0), q.limit()
	if err := q.faults.err(); err != nil {
		return err
	}
	rows, err := c.fleet(c.r.Context())
	if err != nil {
		return err
	}
	a := fleetAnswer{Items: []fleetRow{}, States: map[string]int{}, ServerTime: api.At(c.store.Now())}
	reach, text := c.who.reach(mayRead), strings.ToLower(q.values.Get("q"))
	var matching []fleetRow
	for i := range rows {
		row := &rows[i]
		if reach != nil && !reach(row.MachineID) {
			continue
		}
		a.count(row)
		if (state == "" || state == row.State) && (has == "" || fleetHas[has](row)) && strings.Contains(strings.ToLower(row.MachineID), text) {
			matching = append(matching, *row)
		}
	}
	a.Unacked, a.Oldest = c.hub.stats.oldest(reach)
	sortFleet(matching, sort)
	a.Total = len(matching)
	a.Items = append(a.Items, matching[min(offset, len(matching)):min(offset+limit, len(matching))]...)
	c.hub.stats.draw(c.store.Now(), a.Items)
	return c.answer(http.StatusOK, a)
}

func (a *fleetAnswer) count(row *fleetRow) {
	a.Machines++
	a.States[row.State]++
	a.Orphans += row.Orphans
	if row.rank > 0 {
		a.Troubled++
	}
}

var fleetHas = map[string]func(*fleetRow) bool{
	"orphans":   func(r *fleetRow) bool { return r.Orphans > 0 },
	"queued":    func(r *fleetRow) bool { return r.Queued > 0 },
	"in_flight": func(r *fleetRow) bool { return r.InFlight > 0 },
	"trouble":   func(r *fleetRow) bool { return r.rank > 0 },
	"pause":     func(r *fleetRow) bool { return len(r.Paused) > 0 },
	"breaker":   func(r *fleetRow) bool { return len(r.Breakers) > 0 },
}

// sortFleet puts the most first; what is equal is in the order of ids, so that a
// table does not jump.
func sortFleet(rows []fleetRow, by string) {
	most := func(a, b *fleetRow) int { return 0 }
	switch by {
	case "trouble":
		most = func(a, b *fleetRow) int {
			return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.InFlight, a.InFlight))
		}
	case "state":
		most = func(a, b *fleetRow) int { return cmp.Compare(a.State, b.State) }
	case "queued":
		most = func(a, b *fleetRow) int { return cmp.Compare(b.Queued, a.Queued) }
	case "in_flight":
		most = func(a, b *fleetRow) int { return cmp.Compare(b.InFlight, a.InFlight) }
	case "orphans":
		most = func(a, b *fleetRow) int { return cmp.Compare(b.Orphans, a.Orphans) }
	case "last_ack":
		most = func(a, b *fleetRow) int { return b.LastAckAt.Compare(a.LastAckAt.Time) }
	}
	slices.SortFunc(rows, func(a, b fleetRow) int { return cmp.Or(most(&a, &b), cmp.Compare(a.MachineID, b.MachineID)) })
}

// fleet is all machines as of a moment ago. Nobody changes the rows it returns.
func (s *Server) fleet(ctx context.Context) ([]fleetRow, error) {
	v := &s.fleetView
	v.mu.Lock()
	defer v.mu.Unlock()
	now := s.store.Now()
	if age := now.Sub(v.at); age >= 0 && age < fleetLife {
		return v.rows, nil
	}
	machines, err := s.store.Machines(ctx, s.rules(), "", math.MaxInt32)
	if err != nil {
		return nil, err
	}
	rows := make([]fleetRow, len(machines))
	for i := range machines {
		rows[i] = s.fleetRowOf(&machines[i], now)
	}
	s.hub.stats.mark(rows)
	for i := range rows {
		rows[i].judge(now)
	}
	v.rows, v.at = rows, now
	return rows, nil
}

func (s *Server) fleetRowOf(m *ackstore.Machine, now time.Time) fleetRow {
	row := fleetRow{
		MachineID: m.ID, State: string(m.Presence), Since: api.At(m.Since), LastSeenAt: api.At(m.LastSeenAt),
		Queued: m.Queued, InFlight: m.InFlight, MaxInFlight: m.Credit,
	}
	if !m.OldestQueuedAt.IsZero() {
		row.OldestQueuedAgeS = api.S(max(0, now.Sub(m.OldestQueuedAt)).Truncate(time.Second))
	}
	for _, h := range m.Holds {
		row.Paused = append(row.Paused, h.Cause)
	}
	for _, b := range m.Breakers {
		row.Breakers = append(row.Breakers, b.Target)
	}
	if s.registry != nil {
		_, row.Contested = s.registry.Contested(m.ID)
	}
	return row
}

// silentAfter is how long a machine may have work in flight and say nothing before
// it is shown: it looks alive, and may be doing nothing.
const silentAfter = 5 * time.Minute

// judge says what is wrong with a machine, worst first. A machine that is merely
// off, with nothing to do, is not in trouble.
func (r *fleetRow) judge(now time.Time) {
	wrong := func(rank int, what string) {
		r.rank = max(r.rank, rank)
		r.Troubles = append(r.Troubles, what)
	}
	heard := r.LastSeenAt.Time
	if r.LastAckAt.After(heard) {
		heard = r.LastAckAt.Time
	}
	idle := r.Queued+r.InFlight+r.Orphans == 0
	if r.Contested {
		wrong(8, "contested")
	}
	if (r.State == "offline" || r.State == "grace") && !idle {
		wrong(7, "gone_with_work")
	}
	if slices.Contains(r.Paused, ackstore.HeldNeedHelp) {
		wrong(6, "needs_help")
	}
	if r.Orphans > 0 {
		wrong(5, "orphans")
	}
	if len(r.Breakers) > 0 {
		wrong(4, "breaker")
	}
	if r.State == "suspect" {
		wrong(3, "suspect")
	}
	if r.State == "online" && r.InFlight > 0 && !heard.IsZero() && now.Sub(heard) > silentAfter {
		wrong(3, "silent")
	}
	if r.State == "online" && r.MaxInFlight == 0 && r.Queued > 0 {
		wrong(2, "no_credit")
	}
	if len(r.Paused) > 0 && r.Queued > 0 && !slices.Contains(r.Paused, ackstore.HeldNeedHelp) {
		wrong(1, "paused_with_work")
	}
}

// mark adds what only stats knows of machines.
func (s *stats) mark(rows []fleetRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rows {
		rows[i].Orphans = s.lostOn[rows[i].MachineID]
		if m := s.machines[rows[i].MachineID]; m != nil && !m.lastAck.IsZero() {
			rows[i].LastAckAt = api.At(m.lastAck)
			if m.rtt > 0 {
				rows[i].AckMS = new(math.Round(float64(m.rtt)/float64(time.Millisecond)*10) / 10)
			}
		}
	}
}

// draw adds the sparklines of a window of rows.
func (s *stats) draw(now time.Time, rows []fleetRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range rows {
		m := s.machines[rows[i].MachineID]
		if m == nil {
			continue
		}
		hour := &fleetHour{}
		for j, t := range m.hour(now) {
			hour.Deliveries[j], hour.Lost[j] = t.deliveries, t.resends+t.giveUps
		}
		rows[i].Hour = hour
	}
}
