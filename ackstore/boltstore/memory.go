package boltstore

import (
	"container/heap"
	"time"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

// memory is what the committer knows without reading: the machines, what is in
// flight, and who is next in each lane.
type memory struct {
	boot     time.Time
	booted   uint64 // stamp at boot: what was dispatched before waits for its agent
	ord      uint64 // the last given
	stamp    uint64 // the last given
	counts   counts
	known    int // machines that are not forgotten
	machines map[string]*machine
	live     map[uint64]*rec // open records and heads of queues
	deadline deadlines
	rules    ackstore.Rules // the deadlines were worked out by
	holds    map[holdID]*ackstore.Hold
	heldOn   map[scoped]map[holdID]bool
	breakers map[breakerID]*breakerRow
	tidied   time.Time // when breakers of which nothing is left to say were forgotten

	gate      time.Time // when a pause or a breaker ends by itself
	gateMoved bool      // and that is to be worked out anew

	firstTime time.Time // of bucketTimes
	announced time.Time // the last Due
}

type holdID struct {
	scope          ackstore.Scope
	id, machine, c string
}

// scoped is what pauses are on, on whatever machine.
type scoped struct {
	scope ackstore.Scope
	id    string
}

func (s *memory) addHold(h *ackstore.Hold) {
	id, on := idOf(h), scoped{h.Scope, h.ID}
	if s.heldOn[on] == nil {
		s.heldOn[on] = map[holdID]bool{}
	}
	s.holds[id], s.heldOn[on][id], s.gateMoved = h, true, true
}

func (s *memory) dropHold(h *ackstore.Hold) {
	id, on := idOf(h), scoped{h.Scope, h.ID}
	delete(s.holds, id)
	if delete(s.heldOn[on], id); len(s.heldOn[on]) == 0 {
		delete(s.heldOn, on)
	}
	s.gateMoved = true
}

// nextGate is when the first pause or breaker ends by itself. There may be many
// that do not, and every commit asks.
func (s *memory) nextGate() time.Time {
	if !s.gateMoved {
		return s.gate
	}
	s.gate, s.gateMoved = time.Time{}, false
	first := func(at time.Time) {
		if !at.IsZero() && (s.gate.IsZero() || at.Before(s.gate)) {
			s.gate = at
		}
	}
	for _, h := range s.holds {
		first(h.Until)
	}
	for _, b := range s.breakers {
		if b.waits() {
			first(b.Until)
		}
	}
	return s.gate
}

type breakerID struct{ machine, target string }

// machine is one machine's part of the memory.
type machine struct {
	id       string
	row      machineRow
	listed   bool   // not forgotten
	lease    *lease // nil: no stream, and no poll of late
	open     map[uint64]*rec
	lanes    map[string]*queue
	flows    map[flow]*queue
	inFlight int
	bytes    int64 // payload in flight

	// Who may go, in the order of protocol section 6.
	orphans orphans
	ready   queues // lanes
	loose   queues // flows; all of them count as one lane
	turns   uint64 // dispatches so far: orders lanes by when they were served
	looseAt uint64 // turn at which a loose action was served last
}

// lease is a machine's live stream, or the polls of one instance.
type lease struct {
	machine  string
	epoch    uint64
	via      ackstore.Via
	polls    int       // under way
	parked   bool      // its stream has nothing left to write
	beats    bool      // it has begun to beat
	signed   time.Time // last beat, ack or subscription
	lastPoll time.Time
	box      post // guarded by boxes
}

// rec is an action in memory.
type rec struct {
	a       ackstore.Action
	m       *machine
	q       *queue // it is the head of
	preBoot bool   // dispatched before the server started, and not judged since
	polling bool   // its poll is still being answered
	due     time.Time
	kind    ledger.Due
	dueAt   int // place in deadlines, -1 none
	orphAt  int // place in orphans, -1 none
}

func newRec(m *machine, a ackstore.Action) *rec { return &rec{a: a, m: m, dueAt: -1, orphAt: -1} }

// queue is a lane, or a flow of loose actions: one head at a time.
type queue struct {
	m       *machine
	session string // of a lane
	flow    flow   // of a flow
	isFlow  bool
	head    *rec
	served  uint64
	readyAt int // place in ready or loose, -1 none
}

func newMachine(id string) *machine {
	return &machine{id: id, open: map[uint64]*rec{}, lanes: map[string]*queue{}, flows: map[flow]*queue{}}
}

// credit in force: the lower of the agent's and an operator's.
func (m *machine) credit() int {
	c, _ := m.creditWhy()
	return c
}

// creditWhy is the credit with the reason that was given for it.
func (m *machine) creditWhy() (c int, why string) {
	c = 1
	if m.row.Ever {
		c = m.row.SubCredit
	}
	if m.row.AgentCredit != nil {
		c, why = *m.row.AgentCredit, m.row.AgentWhy
	}
	if op := m.row.OpCredit; op != nil && (*op < c || *op == c && why == "") {
		c, why = *op, m.row.OpWhy
	}
	return c, why
}

// deadlines orders what is in flight by its next deadline.
type deadlines []*rec

func (h deadlines) Len() int           { return len(h) }
func (h deadlines) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h deadlines) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].dueAt, h[j].dueAt = i, j }
func (h *deadlines) Push(x any)        { r := x.(*rec); r.dueAt = len(*h); *h = append(*h, r) }
func (h *deadlines) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.dueAt = -1
	return r
}

// schedule works out when something happens next to an action in flight.
func (s *memory) schedule(r *rec, rules ackstore.Rules) {
	due, kind := ledger.Deadline(&r.a, rules)
	if r.preBoot && kind != ledger.DueNever {
		if floor := s.boot.Add(rules.ReconnectGrace); due.Before(floor) {
			due = floor
		}
	}
	r.due, r.kind = due, kind
	switch {
	case kind == ledger.DueNever && r.dueAt >= 0:
		heap.Remove(&s.deadline, r.dueAt)
	case kind == ledger.DueNever:
	case r.dueAt >= 0:
		heap.Fix(&s.deadline, r.dueAt)
	default:
		heap.Push(&s.deadline, r)
	}
}

// orphans orders what waits to be resent by seq.
type orphans []*rec

func (h orphans) Len() int           { return len(h) }
func (h orphans) Less(i, j int) bool { return h[i].a.Seq < h[j].a.Seq }
func (h orphans) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].orphAt, h[j].orphAt = i, j }
func (h *orphans) Push(x any)        { r := x.(*rec); r.orphAt = len(*h); *h = append(*h, r) }
func (h *orphans) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.orphAt = -1
	return r
}

// queues orders lanes whose head may go: higher priority, then the one served
// longest ago, then lower seq.
type queues []*queue

func (h queues) Len() int           { return len(h) }
func (h queues) Less(i, j int) bool { return before(h[i].head, h[i].served, h[j].head, h[j].served) }
func (h queues) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].readyAt, h[j].readyAt = i, j }
func (h *queues) Push(x any)        { q := x.(*queue); q.readyAt = len(*h); *h = append(*h, q) }
func (h *queues) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	q.readyAt = -1
	return q
}

func before(a *rec, servedA uint64, b *rec, servedB uint64) bool {
	if a.a.Priority != b.a.Priority {
		return a.a.Priority > b.a.Priority
	}
	if servedA != servedB {
		return servedA < servedB
	}
	return a.a.Seq < b.a.Seq
}

// best is the action that goes next, if one may: resends first.
func (m *machine) best() *rec {
	if len(m.orphans) > 0 {
		return m.orphans[0]
	}
	switch {
	case len(m.ready) == 0 && len(m.loose) == 0:
		return nil
	case len(m.ready) == 0:
		return m.loose[0].head
	case len(m.loose) == 0:
		return m.ready[0].head
	}
	lane, loose := m.ready[0], m.loose[0]
	if before(loose.head, m.looseAt, lane.head, lane.served) {
		return loose.head
	}
	return lane.head
}

// serve notes whose turn it was. A lane that begins later counts as served just
// before the last one: it need not wait for all, and a flood of new lanes cannot
// keep an old one from its turn.
func (t *tx) serve(r *rec) {
	m := r.m
	last := &m.looseAt
	if q := m.lanes[r.a.SessionID]; q != nil && r.a.SessionID != "" {
		last = &q.served
	}
	turns, was := m.turns, *last
	t.undo = append(t.undo, func() { m.turns, *last = turns, was })
	m.turns++
	*last = 2 * m.turns
}

func (m *machine) newTurn() uint64 {
	if m.turns == 0 {
		return 0
	}
	return 2*m.turns - 1
}
