package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// outside is what a store that takes webhooks offers besides the port.
type outside interface {
	ackstore.Store
	ackstore.Inbox
	ackstore.Ends
	ackstore.Outbox
}

// RunInbox holds a driver against the promises of [ackstore.Inbox],
// [ackstore.Ends] and [ackstore.Outbox].
func RunInbox(t *testing.T, open Factory) {
	for _, c := range inboxChecks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(&post{newRig(t, t, open)})
		})
	}
}

// post is a rig whose store takes what comes from outside.
type post struct{ *rig }

func (p *post) box() outside { return p.store.(outside) }

func (p *post) receive(in ...ackstore.Receipt) []ackstore.Received {
	p.Helper()
	for i := range in {
		in[i].Window, in[i].KeepBody = 72*time.Hour, 1<<10
	}
	got, err := p.box().Receive(ctx, p.rules, 72*time.Hour, in)
	require.NoError(p, err)
	return got
}

// receipt is a delivery of route r under a key, which makes actions for machine m.
func receipt(key string, ids ...string) ackstore.Receipt {
	r := ackstore.Receipt{Delivery: ackstore.Delivery{Route: "r", Key: key, Event: "push", Fate: ackstore.FateQueued, Body: []byte(`{"k":1}`)}}
	for _, id := range ids {
		r.Actions = append(r.Actions, ackstore.NewAction{
			ActionID: id, MachineID: "m", Type: "job", Payload: []byte("1"), MaxResends: 2, MaxAttempts: 1, TransientMaxAttempts: 1,
		})
	}
	return r
}

func (p *post) state(id string) ackstore.State {
	p.Helper()
	rec, err := p.store.Get(ctx, p.rules, id)
	require.NoError(p, err)
	return rec.State
}

// reopen is a new start after a crash.
func (p *post) reopen() {
	p.Helper()
	require.NoError(p, Crash(p.store))
	p.store = p.open(p.host, p.dir, p.clock.now, p.heard)
}

func (p *post) settle(id string, verb ackstore.Verb) {
	p.Helper()
	at, err := p.store.Attach(ctx, p.rules, []ackstore.AttachReq{{MachineID: "m", MaxInFlight: 100, InstanceID: "i"}})
	require.NoError(p, err)
	claimed, err := p.store.Claim(ctx, p.rules, []ackstore.ClaimReq{{Lease: at[0].Lease}})
	require.NoError(p, err)
	require.NoError(p, claimed[0].Err)
	ack := ackstore.Ack{ActionID: id, Verb: verb}
	for _, d := range claimed[0].Dispatches {
		if d.ActionID == id {
			ack.Delivery = d.Delivery
		}
	}
	if verb == ackstore.SaysFailed {
		ack.Error = &ackstore.Failure{Kind: "permanent"}
	}
	_, err = p.store.Settle(ctx, p.rules, []ackstore.Ack{ack})
	require.NoError(p, err)
	require.True(p, p.state(id).Settled())
}

var inboxChecks = []struct {
	name string
	run  func(*post)
}{
	{"a delivery is on disk with its actions", func(p *post) {
		got := p.receive(receipt("d1", "a1", "a2"))
		require.NoError(p, got[0].Err)
		p.reopen()
		d, err := p.box().Known(ctx, "r", "d1", 72*time.Hour)
		require.NoError(p, err)
		require.Equal(p, []string{"a1", "a2"}, d.ActionIDs)
		require.Equal(p, ackstore.Queued, p.state("a2"))
		d, err = p.box().Delivery(ctx, got[0].Delivery.Serial)
		require.NoError(p, err)
		require.JSONEq(p, `{"k":1}`, string(d.Body))
		require.Equal(p, p.clock.now(), d.At.UTC())
	}},
	{"a delivery whose actions find no room is not recorded", func(p *post) {
		p.rules.MaxQueued = 1
		got := p.receive(receipt("d1", "a1", "a2"), receipt("d2", "a3"))
		require.ErrorIs(p, got[0].Err, ackstore.ErrLimit)
		require.NoError(p, got[1].Err)
		_, err := p.box().Known(ctx, "r", "d1", time.Hour)
		require.ErrorIs(p, err, ackstore.ErrUnknown)
		_, err = p.store.Get(ctx, p.rules, "a1")
		require.ErrorIs(p, err, ackstore.ErrUnknown)
	}},
	{"the same key again gives the same ids, in one call too", func(p *post) {
		got := p.receive(receipt("d1", "a1"), receipt("d1", "b1"))
		require.False(p, got[0].Duplicate)
		require.True(p, got[1].Duplicate)
		p.reopen()
		again := p.receive(receipt("d1", "c1"))[0]
		require.True(p, again.Duplicate)
		require.Equal(p, []string{"a1"}, again.Delivery.ActionIDs)
		require.Equal(p, 2, again.Delivery.Repeats)
		_, err := p.store.Get(ctx, p.rules, "c1")
		require.ErrorIs(p, err, ackstore.ErrUnknown)
	}},
	{"a key is another route's own, and none is none's", func(p *post) {
		other := receipt("d1", "b1")
		other.Delivery.Route = "s"
		got := p.receive(receipt("d1", "a1"), other, receipt("", "c1"), receipt("", "c2"))
		for _, g := range got {
			require.False(p, g.Duplicate)
		}
	}},
	{"a key is forgotten after its window", func(p *post) {
		p.receive(receipt("d1", "a1"))
		p.clock.add(73 * time.Hour)
		require.False(p, p.receive(receipt("d1", "b1"))[0].Duplicate)
		items, _, err := p.box().Deliveries(ctx, "r", "", 10)
		require.NoError(p, err)
		require.Len(p, items, 1, "the old record was thrown away")
	}},
	{"what made no action does not keep a later delivery out", func(p *post) {
		in := receipt("d1")
		in.Delivery.Fate = ackstore.FateFiltered
		p.receive(in)
		require.False(p, p.receive(receipt("d1", "a1"))[0].Duplicate)
	}},
	{"requeue pushes all anew, requeue_failed what ended badly", func(p *post) {
		p.receive(receipt("d1", "a1", "a2"))
		failed := receipt("d1", "b1", "b2")
		failed.Repeat = ackstore.RepeatFailed
		require.True(p, p.receive(failed)[0].Duplicate, "nothing has ended")
		p.settle("a1", ackstore.SaysDone)
		p.settle("a2", ackstore.SaysFailed)
		got := p.receive(failed)[0]
		require.False(p, got.Duplicate)
		require.Equal(p, []string{"a1", "b2"}, got.Delivery.ActionIDs)
		require.False(p, p.state("b2").Settled())
		all := receipt("d1", "c1", "c2")
		all.Repeat = ackstore.RepeatAll
		require.Equal(p, []string{"c1", "c2"}, p.receive(all)[0].Delivery.ActionIDs)
		require.Equal(p, []string{"c1", "c2"}, p.receive(receipt("d1", "x", "y"))[0].Delivery.ActionIDs)
	}},
	{"deliveries are listed newest first, page by page", func(p *post) {
		for i := range 5 {
			p.receive(receipt(fmt.Sprint("d", i), fmt.Sprint("a", i)))
		}
		for _, route := range []string{"r", ""} {
			var keys []string
			cursor := ""
			for {
				items, next, err := p.box().Deliveries(ctx, route, cursor, 2)
				require.NoError(p, err)
				for _, d := range items {
					keys = append(keys, d.Key)
				}
				if cursor = next; cursor == "" {
					break
				}
			}
			require.Equal(p, []string{"d4", "d3", "d2", "d1", "d0"}, keys)
		}
		_, _, err := p.box().Deliveries(ctx, "r", "nonsense!", 2)
		require.ErrorIs(p, err, ackstore.ErrCursor)
	}},
	{"a body that is too large is not kept, and that is said", func(p *post) {
		in := receipt("d1", "a1")
		in.Delivery.Body = make([]byte, 2<<10)
		d, err := p.box().Delivery(ctx, p.receive(in)[0].Delivery.Serial)
		require.NoError(p, err)
		require.True(p, d.Cut)
		require.Equal(p, 2<<10, d.BodyBytes)
		require.Empty(p, d.Body)
	}},
	{"the note of an end is in the end's own transaction", func(p *post) {
		follow := []ackstore.Following{
			{Rule: "any"},
			{Rule: "done", States: []ackstore.State{ackstore.Done}},
			{Rule: "failed", States: []ackstore.State{ackstore.Failed}},
			{Rule: "type", Types: []string{"other"}},
		}
		require.NoError(p, p.box().Follow(ctx, follow))
		p.receive(receipt("d1", "a1"))
		p.settle("a1", ackstore.SaysDone)
		p.reopen()
		ends, err := p.box().Ended(ctx, 10)
		require.NoError(p, err)
		require.Len(p, ends, 2)
		require.Equal(p, "any", ends[0].Rule)
		require.Equal(p, "done", ends[1].Rule)
		require.Equal(p, ackstore.Done, ends[1].State)
		require.Equal(p, "a1", ends[1].ActionID)
	}},
	{"a note is answered once, together with what follows", func(p *post) {
		require.NoError(p, p.box().Follow(ctx, []ackstore.Following{{Rule: "next"}}))
		p.receive(receipt("d1", "a1"))
		p.settle("a1", ackstore.SaysDone)
		ends, err := p.box().Ended(ctx, 10)
		require.NoError(p, err)
		in := receipt("", "b1")
		in.End = ends[0].Serial
		tooMany := receipt("", "b2")
		tooMany.End = ends[0].Serial
		p.rules.MaxQueued = 0
		require.ErrorIs(p, p.receive(tooMany)[0].Err, ackstore.ErrLimit)
		p.rules.MaxQueued = 10
		require.False(p, p.receive(in)[0].Answered, "the refusal left the note")
		again := receipt("", "b3")
		again.End = ends[0].Serial
		require.True(p, p.receive(again)[0].Answered)
		_, err = p.store.Get(ctx, p.rules, "b3")
		require.ErrorIs(p, err, ackstore.ErrUnknown)
		ends, err = p.box().Ended(ctx, 10)
		require.NoError(p, err)
		require.Empty(p, ends)
	}},
	{"letters wait until they are told or given up", func(p *post) {
		box := p.box()
		require.NoError(p, box.Post(ctx, []ackstore.Letter{{To: "x", ID: "1", Body: []byte("{}")}, {To: "y", ID: "2"}, {To: "x", ID: "3"}}))
		letters, err := box.Letters(ctx, "x", 10)
		require.NoError(p, err)
		require.Len(p, letters, 2)
		require.Equal(p, "1", letters[0].ID)
		to, err := box.Addressees(ctx)
		require.NoError(p, err)
		require.Equal(p, []string{"x", "y"}, to)
		require.NoError(p, box.Answer(ctx, []ackstore.Tried{
			{Serial: letters[0].Serial, After: time.Minute, Error: "nobody there"}, {Serial: letters[1].Serial, Gone: true}, {Serial: 1 << 60, Gone: true},
		}))
		p.reopen()
		letters, err = p.box().Letters(ctx, "x", 10)
		require.NoError(p, err)
		require.Len(p, letters, 1)
		require.Equal(p, 1, letters[0].Tries)
		require.Equal(p, "nobody there", letters[0].LastError)
		require.Equal(p, p.clock.now().Add(time.Minute), letters[0].DueAt.UTC())
	}},
}
