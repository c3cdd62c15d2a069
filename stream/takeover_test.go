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
		require.Error(t, stream.NewSource(s.config, s.store, s.store.notifier).Run(t.Context(), old, w))
		require.Zero(t, time.Since(start))
		fresh.close()
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
		require.Error(t, stream.NewSource(s.config, s.store, s.store.notifier).Run(ctx, seat, w))
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
