package storetest

import (
	"crypto/sha256"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
)

// presence wants a machine's presence.
func (r *rig) presence(want ackstore.Presence) {
	r.Helper()
	require.Equal(r, want, r.machine("m1").Presence)
}

// machineChecks is what a store tells of machines and tokens.
var machineChecks = []check{
	{"a machine that was only pushed to is offline and has never subscribed", func(r *rig) {
		r.push(action("a1"))
		m := r.machine("m1")
		require.Equal(r, []any{"m1", ackstore.Offline, false, 0, 1, 1}, []any{m.ID, m.Presence, m.EverSubscribed, m.InFlight, m.Queued, m.Unsettled})
		_, err := r.store.Machine(ctx, r.rules, "m2")
		require.ErrorIs(r, err, ackstore.ErrUnknown)
	}},
	{"online, in grace, offline", func(r *rig) {
		start := r.clock.now()
		l := r.attach(as("i7"))
		m := r.machine("m1")
		require.Equal(r, []any{ackstore.Online, "i7", "10.0.0.1", "s", true}, []any{m.Presence, m.InstanceID, m.Address, m.StreamID, m.EverSubscribed})
		require.True(r, m.Since.Equal(start))
		r.pass(time.Hour)
		r.presence(ackstore.Online)
		l.end()
		r.presence(ackstore.Grace)
		r.pass(r.rules.DisconnectGrace + r.rules.ReconnectGrace)
		r.presence(ackstore.Offline)
		r.attach()
		r.presence(ackstore.Online)
	}},
	{"an ack is a sign of life", func(r *rig) {
		inFlight(r, "a1", "m1")
		r.pass(time.Second)
		r.answers(ackstore.Accepted, received("a1"))
		require.True(r, r.machine("m1").LastSeenAt.Equal(r.clock.now()))
	}},
	{"machines are paged in the order of their names", func(r *rig) {
		for _, id := range []string{"c", "a", "e", "b", "d"} {
			r.push(action("of-"+id, of(id)))
		}
		var got []string
		for after := ""; ; {
			page, err := r.store.Machines(ctx, r.rules, after, 2)
			require.NoError(r, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(r, len(page), 2)
			for _, m := range page {
				got = append(got, m.ID)
			}
			after = page[len(page)-1].ID
		}
		require.Equal(r, []string{"a", "b", "c", "d", "e"}, got)
		require.Equal(r, 5, r.overview().Machines)
	}},
	{"a machine is dropped only offline with nothing unsettled", func(r *rig) {
		require.ErrorIs(r, r.store.DropMachine(ctx, r.rules, "m1"), ackstore.ErrUnknown)
		l := r.attach()
		require.ErrorIs(r, r.store.DropMachine(ctx, r.rules, "m1"), ackstore.ErrNotEligible)
		r.push(action("a1"))
		l.expect("a1")
		l.end()
		r.pass(time.Hour)
		require.ErrorIs(r, r.store.DropMachine(ctx, r.rules, "m1"), ackstore.ErrNotEligible)
		r.cancel("a1")
		require.NoError(r, r.store.DropMachine(ctx, r.rules, "m1"))
		_, err := r.store.Machine(ctx, r.rules, "m1")
		require.ErrorIs(r, err, ackstore.ErrUnknown)
		r.push(action("a2")) // it may come again
		d := r.attach().expect("a2")[0]
		require.NotZero(r, d.EventID)
	}},
	{"tokens are kept, listed and dropped, across a crash", func(r *rig) {
		one := ackstore.Token{ID: "t1", Name: "one", Scopes: []string{"admin", "push:m*"}, Hash: sha256.Sum256([]byte("one")), CreatedAt: r.clock.now()}
		two := ackstore.Token{ID: "t2", Name: "two", Hash: sha256.Sum256([]byte("two")), CreatedAt: r.clock.now(), ExpiresAt: r.clock.now().Add(time.Hour)}
		require.NoError(r, r.store.PutToken(ctx, one))
		require.NoError(r, r.store.PutToken(ctx, two))
		r.reopen()
		got, err := r.store.Tokens(ctx)
		require.NoError(r, err)
		require.Len(r, got, 2)
		for i, want := range []ackstore.Token{one, two} {
			require.Equal(r, []any{want.ID, want.Name, want.Hash, len(want.Scopes)}, []any{got[i].ID, got[i].Name, got[i].Hash, len(got[i].Scopes)})
			require.True(r, got[i].CreatedAt.Equal(want.CreatedAt))
			require.True(r, got[i].ExpiresAt.Equal(want.ExpiresAt))
		}
		require.NoError(r, r.store.DropToken(ctx, "t1"))
		require.ErrorIs(r, r.store.DropToken(ctx, "t1"), ackstore.ErrUnknown)
		r.reopen()
		got, err = r.store.Tokens(ctx)
		require.NoError(r, err)
		require.Len(r, got, 1)
	}},
}
