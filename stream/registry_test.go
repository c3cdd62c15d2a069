package stream_test

import (
	"context"
	"errors"
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
			{0, "i1", a, 0}, {0, "i2", b, 0}, {10 * time.Second, "i1", a, 0}, {10 * time.Second, "i2", b, 0},
			{10 * time.Second, "i1", a, 30 * time.Second}, {time.Second, "i1", a, 29 * time.Second}, {28 * time.Second, "i1", a, time.Second},
			{time.Second, "i1", a, 0}, {0, "i2", b, 10 * time.Second},
		},
		"the seventh contest within an hour is refused": {
			{0, "i1", a, 0}, {0, "i2", b, 0}, {time.Minute, "i1", a, 0}, {time.Minute, "i2", b, 0}, {time.Minute, "i1", a, 0}, {time.Minute, "i2", b, 0}, {time.Minute, "i1", a, 0},
			{time.Minute, "i2", b, 54 * time.Minute}, {53 * time.Minute, "i2", b, time.Minute}, {time.Minute, "i2", b, 0}, {time.Second, "i1", a, 59 * time.Second},
		},
		"the holder comes back without limit, though the machine is contested": {
			{0, "i1", a, 0}, {0, "i2", b, 0}, {0, "i1", a, 0}, {0, "i2", b, 0}, {0, "i1", a, time.Minute},
			{0, "i2", b, 0}, {0, "i2", c, 0}, {0, "i2", b, 0}, {0, "i1", a, time.Minute},
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

func TestANewcomerIsAttachedWhenTheOlderStreamHasGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		old := s.open(streamReq("i1", "10.0.0.1:1"))
		old.next("hello")
		synctest.Wait()
		start := time.Now()
		fresh := s.open(streamReq("i1", "10.0.0.2:2"))
		require.Zero(t, time.Since(start))
		require.Equal(t, "10.0.0.2:2", old.bye(stream.ByeReplaced).Address)
		fresh.next("hello")
		require.Equal(t, []string{"attach " + old.seat.StreamID(), "detach 1", "attach " + fresh.seat.StreamID()}, s.store.story())
		require.NotEqual(t, old.seat.StreamID(), fresh.seat.StreamID())
		s.store.put("m1", "a1")
		fresh.actions("a1")
		fresh.close()
	})
}

func TestAStreamThatHangsIsCutOffForANewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1", "a2")
		old := s.openUnread(streamReq("i1", "10.0.0.1:1"))
		skipHello(t, old)
		synctest.Wait() // it hangs in a1
		start := time.Now()
		fresh := s.open(streamReq("i1", "10.0.0.2:2"))
		require.Equal(t, 150*time.Millisecond, time.Since(start))
		require.Error(t, <-old.done)
		require.Equal(t, refs("a1", "a2"), s.store.lastDetach(t).Unwritten)
		require.Equal(t, []string{"attach " + old.seat.StreamID(), "detach 1", "attach " + fresh.seat.StreamID()}, s.store.story())
		require.EqualValues(t, 1, s.registry.Counts().Cuts)
		fresh.close()
	})
}

// The cut falls between two writes: the next one must not take it back.
func TestAStreamThatIsCutOffWhileItClaimsDoesNotHangInItsBye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.slow = 500 * time.Millisecond
		old := s.openUnread(streamReq("i1", "10.0.0.1:1"))
		skipHello(t, old)
		synctest.Wait() // it claims
		start := time.Now()
		fresh := s.open(streamReq("i1", "10.0.0.2:2"))
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		require.Error(t, <-old.done)
		fresh.close()
	})
}

func TestAStreamThatIsCutOffBeforeItRunsDoesNotHangInItsHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		old, err := s.registry.Admit(t.Context(), ackstore.Rules{}, streamReq("i1", "10.0.0.1:1"), "")
		require.NoError(t, err)
		fresh := s.open(streamReq("i1", "10.0.0.2:2"))
		w, _ := newWire()
		start := time.Now()
		require.Error(t, stream.New(s.config, s.store, s.store.notifier, old, w).Run(t.Context()))
		require.Zero(t, time.Since(start))
		fresh.close()
	})
}

func TestTheFirstReasonToGoStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		seat, err := s.registry.Admit(t.Context(), ackstore.Rules{}, streamReq("i1", "10.0.0.1:1"), "") // deaf
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.registry.CloseTokens(func(string) bool { return true })
		require.Error(t, s.registry.CloseAll(ctx, stream.ByeShutdown))
		reason, _ := seat.Asked()
		require.Equal(t, stream.ByeRevoked, reason)
		seat.Leave()
	})
}

func TestANewcomerDoesNotWaitForAStoreThatCannotDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		old := s.open(streamReq("i1", "10.0.0.1:1"))
		old.next("hello")
		s.store.fail(nil, ackstore.ErrUnavailable)
		start := time.Now()
		fresh := s.open(streamReq("i1", "10.0.0.2:2"))
		require.Equal(t, 1150*time.Millisecond, time.Since(start))
		fresh.next("hello")
		require.Empty(t, old.done)
		s.store.fail(nil, nil)
		require.NoError(t, <-old.done, "it is detached when the store is well again")
		require.EqualValues(t, 1, s.store.lastDetach(t).Lease.Epoch)
		fresh.close()
		require.Zero(t, s.registry.Counts().Machines)
	})
}

func TestOfTwoNewcomersTheLastOneStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1")
		old := s.openUnread(streamReq("i1", "10.0.0.1:1"))
		skipHello(t, old)
		synctest.Wait()
		second := make(chan error, 1)
		go func() {
			_, err := s.sit(streamReq("i1", "10.0.0.2:2"))
			second <- err
		}()
		time.Sleep(10 * time.Millisecond)
		third := s.open(streamReq("i1", "10.0.0.3:3"))
		require.Equal(t, 30*time.Second, requireRefused(t, stream.ErrReplaced, <-second))
		require.Error(t, <-old.done)
		third.next("hello")
		require.Equal(t, []string{"attach " + old.seat.StreamID(), "detach 1", "attach " + third.seat.StreamID()}, s.store.story())
		third.close()
	})
}

func TestANewcomerDoesNotOvertakeOneThatIsBeingAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.slowJoin = 3 * time.Second
		first := make(chan *live, 1)
		go func() { first <- s.open(streamReq("i1", "10.0.0.1:1")) }()
		time.Sleep(time.Second)
		second := s.open(streamReq("i1", "10.0.0.2:2"))
		older := <-first
		older.next("hello")
		older.bye(stream.ByeReplaced)
		second.next("hello")
		s.store.put("m1", "a1")
		second.actions("a1")
		require.EqualValues(t, 2, second.seat.Attached().Lease.Epoch, "the last to come fences the others")
		second.close()
	})
}

func TestANewcomerThatIsReplacedDoesNotWaitForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.slowJoin = 3 * time.Second
		errs := make([]chan error, 3)
		for i := range errs {
			errs[i] = make(chan error, 1)
			go func() {
				_, err := s.sit(streamReq("i1", "10.0.0.1:1"))
				errs[i] <- err
			}()
			time.Sleep(100 * time.Millisecond)
		}
		requireRefused(t, stream.ErrReplaced, <-errs[1])
		require.Empty(t, errs[0], "it is being attached")
		require.NoError(t, <-errs[0])
		require.NoError(t, <-errs[2])
	})
}

func TestAClientThatGoesWhileItIsAttachedIsDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.slowJoin = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		seat, err := s.registry.Admit(ctx, ackstore.Rules{}, streamReq("i1", "10.0.0.1:1"), "")
		require.NoError(t, err, "its lease must be known")
		w, _ := newWire()
		require.Error(t, stream.New(s.config, s.store, s.store.notifier, seat, w).Run(ctx))
		require.Len(t, s.store.detached, len(s.store.attached))
	})
}

func TestAClientThatGoesWhileItWaitsIsNotAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		_, err := s.registry.Admit(t.Context(), ackstore.Rules{}, streamReq("i1", "10.0.0.1:1"), "") // deaf
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = s.registry.Admit(ctx, ackstore.Rules{}, streamReq("i1", "10.0.0.2:2"), "")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Len(t, s.store.attached, 1)
		require.Zero(t, s.registry.Counts().Streams, "the one that it replaced is on its way out")
	})
}

func TestAStoreThatCannotAttachFreesTheSeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.registry = stream.NewRegistry(stream.RegistryConfig{}, brokenStore{})
		_, err := s.registry.Admit(t.Context(), ackstore.Rules{}, streamReq("i1", "10.0.0.1:1"), "")
		require.ErrorIs(t, err, ackstore.ErrUnavailable)
		require.Zero(t, s.registry.Counts().Machines)
	})
}

type brokenStore struct{}

func (brokenStore) Attach(context.Context, ackstore.Rules, []ackstore.AttachReq) ([]ackstore.Attached, error) {
	return nil, ackstore.ErrUnavailable
}

func (brokenStore) Detach(context.Context, ackstore.Rules, []ackstore.DetachReq) error {
	return errors.New("nothing was attached")
}

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

func TestCloseTokensEndsThoseOfTheTokenOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		other := streamReq("i2", "10.0.0.1:1")
		other.MachineID = "m2"
		one, two := s.mustSit(streamReq("i1", "10.0.0.1:1")), s.mustSit(other)
		s.registry.CloseTokens(func(id string) bool { return id == "token-i1" })
		reason, _ := one.Asked()
		require.Equal(t, stream.ByeRevoked, reason)
		reason, _ = two.Asked()
		require.Empty(t, reason)
	})
}

func TestCloseAllEndsEverybodyAndAdmitsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		var streams []*live
		for i := range 20 {
			req := streamReq("i1", "10.0.0.1:1")
			req.MachineID = fmt.Sprint("m", i)
			l := s.open(req)
			l.next("hello")
			streams = append(streams, l)
		}
		require.NoError(t, s.registry.CloseAll(t.Context(), stream.ByeShutdown))
		require.Zero(t, s.registry.Counts().Machines)
		seen := map[int]bool{}
		for _, l := range streams {
			seen[*l.bye(stream.ByeShutdown).RetryMS] = true
		}
		require.Greater(t, len(seen), 2, "a fleet does not return in one instant")
		for _, d := range s.store.detached {
			require.True(t, d.Quiet)
		}
		_, err := s.sit(streamReq("i1", "10.0.0.1:1"))
		require.Positive(t, requireRefused(t, stream.ErrDraining, err))
	})
}

func TestCloseAllDoesNotWaitForAClientThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.config.WriteTimeout = time.Hour
		s.store.put("m1", "a1")
		l := s.openUnread(streamReq("i1", "10.0.0.1:1"))
		skipHello(t, l)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, s.registry.CloseAll(ctx, stream.ByeShutdown), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Error(t, <-l.done)
		require.Equal(t, refs("a1"), s.store.lastDetach(t).Unwritten)
	})
}

func TestCloseAllDoesNotWaitForAStoreThatCannotDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		s.store.fail(nil, ackstore.ErrUnavailable)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		require.Error(t, s.registry.CloseAll(ctx, stream.ByeShutdown))
		<-l.done
		l.client.Close()
	})
}

// Agents come and go in any order; whatever they do, every attach is followed by
// its detach, later ones fence earlier ones, and nobody is left.
func TestAnyNumberOfAgentsLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.slowJoin = time.Millisecond
		done := make(chan struct{})
		const agents, rounds = 16, 30
		for i := range agents {
			go func() {
				defer func() { done <- struct{}{} }()
				for n := range rounds {
					req := streamReq(fmt.Sprint("i", i%5), "10.0.0.1:1")
					if (i+n)%3 == 0 {
						req.Via = ackstore.ViaPoll
					}
					req.MachineID = fmt.Sprint("m", n%2)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*7+n*13)%400)*time.Millisecond)
					seat, err := s.registry.Admit(ctx, ackstore.Rules{}, req, "")
					if err == nil {
						select {
						case <-ctx.Done():
						case <-seat.Closing():
						}
						seat.Leave()
					}
					cancel()
					time.Sleep(time.Duration((i*11+n*3)%50) * time.Millisecond)
				}
			}()
		}
		for range agents {
			<-done
		}
		c := s.registry.Counts()
		require.Zero(t, c.Machines)
		require.Zero(t, c.Streams)
		require.Zero(t, c.Polls)
		require.NotZero(t, c.Takeovers)
		require.NotZero(t, c.Refused)
		require.Len(t, s.store.detached, len(s.store.attached))
	})
}
