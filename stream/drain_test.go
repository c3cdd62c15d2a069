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
