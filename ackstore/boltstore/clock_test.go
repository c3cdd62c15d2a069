package boltstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
)

// setClock is a wall clock that somebody sets, and the time that passes meanwhile.
type setClock struct {
	wall   time.Time
	passed time.Duration
}

func (c *setClock) pass(d time.Duration) { c.wall, c.passed = c.wall.Add(d), c.passed+d }

func TestAStepOfTheWallClockMakesNoStormAndNoStall(t *testing.T) {
	for name, step := range map[string]time.Duration{"an hour ahead": time.Hour, "an hour back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			c := &setClock{wall: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
			s, err := boltstore.Open(boltstore.Config{
				Dir: t.TempDir(), Now: func() time.Time { return c.wall }, Elapsed: func() time.Duration { return c.passed },
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			state := func(id string) string {
				_, err := s.Sweep(t.Context(), rules, 100)
				require.NoError(t, err)
				rec, err := s.Get(t.Context(), rules, id)
				require.NoError(t, err)
				return rec.State.String()
			}
			soon, named, brief := job("delayed", "m1", ""), job("named", "m1", ""), job("brief", "m1", "")
			soon.Delay = 10 * time.Minute
			named.AvailableAt = c.wall.Add(10 * time.Minute)
			brief.TTL = 10 * time.Minute
			_, err = s.Push(t.Context(), rules, [][]ackstore.NewAction{{soon, named, brief}})
			require.NoError(t, err)

			c.wall = c.wall.Add(step)
			c.pass(9 * time.Minute)
			require.Equal(t, "scheduled", state("delayed"))
			require.Equal(t, "queued", state("brief"))
			c.pass(time.Minute)
			require.Equal(t, "queued", state("delayed"))
			require.Equal(t, "expired", state("brief"))
			// The instant that the client named is the wall clock's.
			want := "queued"
			if step < 0 {
				want = "scheduled"
			}
			require.Equal(t, want, state("named"))
		})
	}
}
