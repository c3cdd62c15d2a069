package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"pushd/ackstore"
	"pushd/server/api"
	"pushd/server/webhook"
)

// maxChain is how many links a chain may have: what follows an end that follows
// an end. Who needs more has made a loop.
const maxChain = 16

// chainBatch is how many notes are answered in one commit.
const chainBatch = 100

// chainNet is how often notes are looked for though no bell rang.
const chainNet = 10 * time.Second

// chainRetry is the wait for a store that cannot write, or a queue that has no room.
const chainRetry = time.Second

// Bell rings when an action has ended. It carries nothing: the notes are on disk.
type Bell struct{ rung chan struct{} }

// NewBell returns a Bell that was not rung.
func NewBell() *Bell { return &Bell{make(chan struct{}, 1)} }

// Changed takes what the store says has happened. It never blocks.
func (b *Bell) Changed(changes []ackstore.Change) {
	for i := range changes {
		if changes[i].State.Settled() {
			select {
			case b.rung <- struct{}{}:
			default:
			}
			return
		}
	}
}

// FollowingOf says of which ends the chain rules of a set want notes.
func FollowingOf(set *webhook.Set) []ackstore.Following {
	var all []ackstore.Following
	for _, rt := range set.Chains() {
		f := ackstore.Following{Rule: rt.ID}
		states, types := rt.Sieve()
		f.Types = types
		for _, name := range states {
			var s ackstore.State
			if s.UnmarshalText([]byte(name)) == nil { // the rule was checked
				f.States = append(f.States, s)
			}
		}
		all = append(all, f)
	}
	return all
}

// RunChains goes on from the ends that the store has noted, until ctx ends. The
// note of an end is on disk with the end, and goes in the transaction of what
// follows it: nothing that follows is lost or done twice, whoever is killed when.
// It also takes other routes, between two rounds: the note of a rule that it does
// not know yet would be dropped.
func (s *Server) RunChains(ctx context.Context) error {
	if s.hooks.Inbox == nil {
		<-ctx.Done()
		return nil
	}
	bell := s.hooks.Bell
	if bell == nil {
		bell = NewBell()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	rung := bell.rung
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rung:
		case <-timer.C:
		case a := <-s.hooks.adopting:
			a.done <- s.adoptRoutes(ctx, a.set)
		}
		rung = bell.rung
		timer.Reset(s.followAll(ctx))
		if len(s.hooks.now().Chains()) == 0 { // what was left by rules that are no more is gone
			rung = nil
			timer.Stop()
		}
	}
}

// followAll answers the notes that are there, and says when to look again.
func (s *Server) followAll(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		ends, err := s.hooks.Inbox.Ended(ctx, chainBatch)
		if err != nil || len(ends) == 0 {
			return chainNet
		}
		left, err := s.follow(ctx, ends)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn().Err(err).Msg("a chain waits for the store")
		}
		if err != nil || left > 0 {
			return chainRetry
		}
	}
	return chainNet
}

// follow answers notes, in one commit but for those that nothing follows from. It
// tells how many must be tried again.
func (s *Server) follow(ctx context.Context, ends []ackstore.End) (left int, err error) {
	found := make([]*ackstore.Receipt, len(ends))
	failed := make([]error, len(ends))
	var reading sync.WaitGroup
	for i := range ends { // all at once: they wait for one turn of the store
		reading.Go(func() { found[i], failed[i] = s.receiptOfEnd(ctx, &ends[i]) })
	}
	reading.Wait()
	if err := errors.Join(failed...); err != nil {
		return len(ends), err
	}
	var drops []uint64
	var receipts []ackstore.Receipt
	for i, in := range found {
		if in == nil {
			drops = append(drops, ends[i].Serial)
			continue
		}
		receipts = append(receipts, *in)
	}
	if len(drops) > 0 {
		if err := s.hooks.Inbox.DropEnds(ctx, drops); err != nil {
			return len(ends), err
		}
	}
	if len(receipts) == 0 {
		return 0, nil
	}
	got, err := s.hooks.Inbox.Receive(ctx, s.rules(), s.hooks.now().Keep, receipts)
	if err != nil {
		return len(receipts), err
	}
	for i := range got {
		if err := s.followed(ctx, &receipts[i], &got[i]); err != nil {
			left++
		}
	}
	return left, nil
}

// followed looks at what became of one link. The error is one that passes.
func (s *Server) followed(ctx context.Context, in *ackstore.Receipt, got *ackstore.Received) error {
	table := s.hooks.now()
	tally := table.tallies[in.Delivery.Route]
	switch {
	case got.Answered:
		return nil
	case got.Err == nil:
		tally.count(got.Delivery.Fate, false)
		return nil
	case errors.Is(got.Err, ackstore.ErrClosed):
		in.Actions, in.Delivery.Fate, in.Delivery.Detail = nil, ackstore.FateClosed, judge(got.Err).detail
		_, err := s.receive(ctx, table, *in)
		return err
	}
	return got.Err
}

// receiptOfEnd works out what follows from an end; nil where nothing does.
func (s *Server) receiptOfEnd(ctx context.Context, e *ackstore.End) (*ackstore.Receipt, error) {
	table := s.hooks.now()
	rt := table.Find(e.Rule)
	if rt == nil || !rt.Chain() {
		return nil, nil // the rule is no more
	}
	record, err := s.store.Get(ctx, s.rules(), e.ActionID)
	if errors.Is(err, ackstore.ErrUnknown) {
		return nil, nil // past its retention
	}
	if err != nil {
		return nil, err
	}
	record.State = e.State // it may have been redriven since
	opened, err := s.openEnd(rt, &record)
	if err != nil || !rt.Matches(opened.Message) {
		return nil, nil //nolint:nilerr // a record of ours that cannot be read leads nowhere
	}
	t := taking{table: table, route: rt, opened: opened, end: e.Serial, labels: linkOf(&record)}
	depth, _ := strconv.Atoi(record.Labels[labelDepth]) // none is 0
	if depth >= maxChain {
		t.fate = ackstore.FateLooped
		s.cfg.Logger.Warn().Str("rule", rt.ID).Str("action", e.ActionID).Int("depth", depth).
			Msg("a chain of this length is a loop; it ends here")
	}
	in, err := s.receiptFor(t)
	if t.fate != "" {
		in.Delivery.Detail = "the chain has " + strconv.Itoa(depth) + " links, which is the most there may be"
	}
	return &in, err
}

// openEnd is the record of an end as a rule sees it.
func (s *Server) openEnd(rt *webhook.Route, record *ackstore.Record) (*webhook.Opened, error) {
	shown := s.recordOf(record)
	shown.Timeline, shown.WaitingFor = nil, nil
	raw, err := api.Marshal(shown)
	if err != nil {
		return nil, err
	}
	o, err := rt.ChainMessage(raw)
	if err != nil {
		return nil, err
	}
	o.ID, o.Key = record.ID, ""
	return o, nil
}

// linkOf are the labels by which a chain knows its own length and where its first
// action came from: what a stranger began stays a stranger's.
func linkOf(parent *ackstore.Record) map[string]string {
	depth, _ := strconv.Atoi(parent.Labels[labelDepth]) // none is 0
	labels := map[string]string{
		labelDepth: strconv.Itoa(depth + 1), labelParent: parent.ID, labelOrigin: "chain",
	}
	if from := parent.Labels[labelOrigin]; strings.HasPrefix(from, "untrusted:") {
		labels[labelOrigin] = from
	}
	return labels
}
