package stream_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/stream"
)

// sit admits and leaves as soon as it is asked to, as a stream does.
func (s *stage) sit(req ackstore.AttachReq) (*stream.Seat, error) {
	ctx, cancel := context.WithCancel(s.Context())
	seat, err := s.registry.Admit(ctx, ackstore.Rules{}, req, "token-"+req.InstanceID)
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer cancel()
		select {
		case <-seat.Closing():
		case <-s.Context().Done():
		}
		seat.Leave()
	}()
	return seat, nil
}

func (s *stage) mustSit(req ackstore.AttachReq) *stream.Seat {
	s.Helper()
	seat, err := s.sit(req)
	require.NoError(s, err)
	return seat
}

func requireRefused(t *testing.T, reason, err error) time.Duration {
	t.Helper()
	require.ErrorIs(t, err, reason)
	var refused *stream.RefusedError
	require.ErrorAs(t, err, &refused)
	return refused.RetryAfter
}

func TestWhoMayTakeOver(t *testing.T) {
	type arrival struct {
		after    time.Duration // the one before
		instance string
		address  string
		refused  time.Duration // for how long; 0: admitted
	}
	const a, b, c = "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"
	for name, arrivals := range map[string][]arrival{
		"the same instance, from anywhere and without limit": {
			{0, "i1", a, 0}, {0, "i1", b, 0}, {0, "i1", c, 0}, {0, "i1", a, 0}, {0, "i1", b, 0}, {0, "i1", c, 0}, {0, "i1", a, 0}, {0, "i1", b, 0}, {0, "i1", c, 0},
		},
		"no instance on either side and the same host, without limit": {
			{0, "", a, 0}, {0, "", "10.0.0.1:2", 0}, {0, "", "10.0.0.1:3", 0}, {0, "", "10.0.0.1", 0}, {0, "", a, 0}, {0, "", a, 0}, {0, "", a, 0}, {0, "", a, 0},
		},
		"no instance, the same IPv6 host": {
			{0, "", "[::1]:1", 0}, {0, "", "[::1]:2", 0}, {0, "", "[::1]:3", 0}, {0, "", "[::1]:4", 0}, {0, "", "[::1]:5", 0},
		},
		"no instance from two hosts is a contest": {
			{0, "", a, 0}, {time.Second, "", b, 0}, {time.Second, "", a, 0}, {time.Second, "", b, 0}, {time.Second, "", a, 57 * time.Second},
		},
		"an instance against none is a contest, on the same host too": {
			{0, "", a, 0}, {0, "i1", a, 0}, {0, "", a, 0}, {0, "i1", a, 0}, {0, "", a, time.Minute},
		},
		"the fourth contest within a minute is refused, refused ones do not count": {
			{0, "i1", a, 0},
			{0, "i2", b, 0},
			{10 * time.Second, "i1", a, 0},
			{10 * time.Second, "i2", b, 0},
			{10 * time.Second, "i1", a, 30 * time.Second},
			{time.Second, "i1", a, 29 * time.Second},
			{28 * time.Second, "i1", a, time.Second},
			{time.Second, "i1", a, 0},
			{0, "i2", b, 10 * time.Second},
		},
		"the seventh contest within an hour is refused": {
			{0, "i1", a, 0},
			{0, "i2", b, 0},
			{time.Minute, "i1", a, 0},
			{time.Minute, "i2", b, 0},
			{time.Minute, "i1", a, 0},
			{time.Minute, "i2", b, 0},
			{time.Minute, "i1", a, 0},
			{time.Minute, "i2", b, 54 * time.Minute},
			{53 * time.Minute, "i2", b, time.Minute},
			{time.Minute, "i2", b, 0},
			{time.Second, "i1", a, 59 * time.Second},
		},
		"the holder comes back without limit, though the machine is contested": {
			{0, "i1", a, 0},
			{0, "i2", b, 0},
			{0, "i1", a, 0},
			{0, "i2", b, 0},
			{0, "i1", a, time.Minute},
			{0, "i2", b, 0},
			{0, "i2", c, 0},
			{0, "i2", b, 0},
			{0, "i1", a, time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				var holder *stream.Seat
				for i, arr := range arrivals {
					time.Sleep(arr.after)
					synctest.Wait()
					seat, err := s.sit(streamReq(arr.instance, arr.address))
					if arr.refused == 0 {
						require.NoError(t, err, "arrival %d", i)
						if holder != nil {
							reason, by := holder.Asked()
							require.Equal(t, stream.ByeReplaced, reason)
							require.Equal(t, arr.address, by)
						}
						holder = seat
						continue
					}
					require.Equal(t, arr.refused, requireRefused(t, stream.ErrContested, err), "arrival %d", i)
					reason, _ := holder.Asked()
					require.Empty(t, reason, "the holder stays")
				}
			})
		})
	}
}

func TestOnlyALiveHolderIsContested(t *testing.T) {
	for name, end := range map[string]func(seat *stream.Seat, hangUp func()){
		"it has left":         func(seat *stream.Seat, _ func()) { seat.Leave() },
		"its client has gone": func(_ *stream.Seat, hangUp func()) { hangUp() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				for i := range 10 {
					ctx, hangUp := context.WithCancel(t.Context())
					seat, err := s.registry.Admit(ctx, ackstore.Rules{}, streamReq(fmt.Sprint("i", i), "10.0.0.1:1"), "")
					require.NoError(t, err)
					end(seat, hangUp)
					_, contested := s.registry.Contested("m1")
					require.False(t, contested)
					_, standing := s.registry.Standing("m1", seat.StreamID())
					require.Equal(t, stream.Gone, standing)
					defer hangUp()
					defer seat.Leave()
				}
			})
		})
	}
}

func TestAContestIsShownUntilAnHourHasPassedWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.mustSit(streamReq("i1", "10.0.0.1:1"))
		_, contested := s.registry.Contested("m1")
		require.False(t, contested)
		start := time.Now()
		s.mustSit(streamReq("i2", "10.0.0.2:1"))
		time.Sleep(59 * time.Minute)
		s.mustSit(streamReq("i1", "10.0.0.1:2"))
		time.Sleep(59 * time.Minute)
		shown, contested := s.registry.Contested("m1")
		require.True(t, contested)
		require.Equal(t, stream.Contest{Addresses: []string{"10.0.0.1", "10.0.0.2"}, Since: start}, shown)
		_, contested = s.registry.Contested("m2")
		require.False(t, contested)
		time.Sleep(30 * time.Second)
		for _, instance := range []string{"i1", "i2"} { // what is over is swept now and then, m1 is not yet
			other := streamReq(instance, "10.0.0.1:1")
			other.MachineID = "m2"
			s.mustSit(other)
		}
		time.Sleep(30 * time.Second)
		_, contested = s.registry.Contested("m1")
		require.False(t, contested)
		s.mustSit(streamReq("i3", "10.0.0.3:1"))
		shown, _ = s.registry.Contested("m1")
		require.Equal(t, stream.Contest{Addresses: []string{"10.0.0.1", "10.0.0.3"}, Since: time.Now()}, shown)
		require.EqualValues(t, 4, s.registry.Counts().Contests)
	})
}

func TestWhoReplacesWhom(t *testing.T) {
	type holder struct {
		req   ackstore.AttachReq
		stays bool
	}
	const here, there = "10.0.0.1:1", "10.0.0.2:2"
	for name, c := range map[string]struct {
		holders  []holder
		newcomer ackstore.AttachReq
		contests uint64
	}{
		"a poll takes the place of a stream":                {[]holder{{streamReq("i1", here), false}}, pollReq("i1", here), 0},
		"a stream takes the place of polls, of all of them": {[]holder{{pollReq("i1", here), false}, {pollReq("i1", there), false}}, streamReq("i1", here), 0},
		"polls of one instance stay beside each other":      {[]holder{{pollReq("i1", here), true}, {pollReq("i1", there), true}}, pollReq("i1", here), 0},
		"polls of none stay beside each other":              {[]holder{{pollReq("", here), true}}, pollReq("", there), 0},
		"a poll of another instance contests":               {[]holder{{pollReq("i1", here), false}}, pollReq("i2", here), 1},
		"a poll of none contests one with an instance":      {[]holder{{pollReq("i1", here), false}}, pollReq("", here), 1},
		"a stream of none contests polls from elsewhere":    {[]holder{{pollReq("", here), false}, {pollReq("", there), false}}, streamReq("", here), 1},
		"a poll contests a stream of another instance":      {[]holder{{streamReq("i1", here), false}}, pollReq("i2", here), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				var seats []*stream.Seat
				for _, h := range c.holders {
					seats = append(seats, s.mustSit(h.req))
				}
				s.mustSit(c.newcomer)
				for i, h := range c.holders {
					reason, _ := seats[i].Asked()
					require.Equal(t, h.stays, reason == "")
				}
				require.Equal(t, c.contests, s.registry.Counts().Contests)
			})
		})
	}
}

func TestMaxStreamsRefusesANewMachineAndDropsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.registry = stream.NewRegistry(stream.RegistryConfig{MaxStreams: 2}, s.store)
		of := func(machine string, req ackstore.AttachReq) ackstore.AttachReq {
			req.MachineID = machine
			return req
		}
		one := s.mustSit(of("m1", streamReq("", "10.0.0.1:1")))
		two := s.mustSit(of("m2", pollReq("", "10.0.0.1:1")))
		seen := map[time.Duration]bool{}
		for range 20 {
			_, err := s.sit(of("m3", streamReq("", "10.0.0.1:1")))
			wait := requireRefused(t, stream.ErrFull, err)
			require.GreaterOrEqual(t, wait, time.Second)
			seen[wait] = true
		}
		require.Greater(t, len(seen), 2, "Retry-After is spread")
		s.mustSit(of("m2", pollReq("", "10.0.0.1:1"))) // beside the other
		again := s.mustSit(of("m1", streamReq("", "10.0.0.1:1")))
		reason, _ := one.Asked()
		require.Equal(t, stream.ByeReplaced, reason, "a takeover is no new machine")
		reason, _ = two.Asked()
		require.Empty(t, reason)
		require.Equal(t, 2, s.registry.Counts().Machines)
		again.Leave()
		s.mustSit(of("m3", streamReq("", "10.0.0.1:1")))
	})
}

// The cut falls between two writes: the next one must not take it back.
func TestStandingTellsReplacedFromGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		standing := func(machine string, seat *stream.Seat) stream.Standing {
			_, got := s.registry.Standing(machine, seat.StreamID())
			return got
		}
		old := s.mustSit(streamReq("i1", "10.0.0.1:1"))
		lease, got := s.registry.Standing("m1", old.StreamID())
		require.Equal(t, stream.Live, got)
		require.Equal(t, old.Attached().Lease, lease)
		require.Equal(t, stream.Gone, standing("m2", old), "a stream of another machine")
		fresh := s.mustSit(streamReq("i1", "10.0.0.1:1"))
		require.Equal(t, stream.Replaced, standing("m1", old))
		require.Equal(t, stream.Gone, standing("m2", old))
		require.Equal(t, stream.Live, standing("m1", fresh))
		fresh.Leave()
		require.Equal(t, stream.Gone, standing("m1", fresh))
		for range 5000 { // what is remembered is bounded
			s.mustSit(streamReq("i1", "10.0.0.1:1"))
			synctest.Wait()
		}
		require.Equal(t, stream.Gone, standing("m1", old))
	})
}

// Agents come and go in any order; whatever they do, every attach is followed by
// its detach, later ones fence earlier ones, and nobody is left.
