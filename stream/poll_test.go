package stream_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/stream"
)

type polled struct {
	id    string
	ok    bool
	err   error
	after time.Duration
}

// poll runs one poll as a handler does, but for its answer.
func (s *stage) poll(ctx context.Context, req ackstore.AttachReq, wait time.Duration) <-chan polled {
	s.Helper()
	seat, err := s.registry.Admit(ctx, ackstore.Rules{}, req, "token-"+req.InstanceID)
	require.NoError(s, err)
	out := make(chan polled, 1)
	go func() {
		start := time.Now()
		d, ok, err := stream.Poll(ctx, seat, s.store, s.store.notifier, wait)
		end := polled{d.ActionID, ok, err, time.Since(start)}
		seat.Leave() // what a test asks of the store next is there
		out <- end
	}()
	return out
}

func TestPollTakesWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1", "a2")
		for _, id := range []string{"a1", "a2"} {
			require.Equal(t, polled{id: id, ok: true}, <-s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), 0))
		}
		require.Equal(t, polled{}, <-s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), 0))
	})
}

func TestPollWaitsAsLongAsItMayAndNotLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		require.Equal(t, polled{after: 20 * time.Second}, <-s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), 20*time.Second))
		require.Equal(t, 1, s.store.claimed())
		require.Empty(t, s.store.lastDetach(t).Unwritten)
	})
}

func TestACommitEndsThePoll(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 20 * time.Second} { // the last at the very end
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			out := s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), 20*time.Second)
			synctest.Wait()
			time.Sleep(after - 1)
			s.store.put("m1", "a1")
			require.Equal(t, polled{id: "a1", ok: true, after: max(after-1, 0)}, <-out)
		})
	}
}

func TestPollLosesNoWakeBetweenClaimAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.onClaim = func(empty bool) {
			if empty {
				s.store.put("m1", "a1")
			}
		}
		require.Equal(t, polled{id: "a1", ok: true}, <-s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), time.Minute))
	})
}

func TestPollClaimsWhatCameAtTheVeryEnd(t *testing.T) {
	for range 10 { // the wake and the end of the wait are there together
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.store.slow = 9 * time.Second
			s.store.onClaim = func(empty bool) {
				if empty {
					s.store.put("m1", "a1")
				}
			}
			require.Equal(t, polled{id: "a1", ok: true, after: 18 * time.Second}, <-s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), 5*time.Second))
		})
	}
}

func TestAPollThatIsReplacedEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		out := s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), time.Minute)
		time.Sleep(time.Second)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		require.Equal(t, polled{after: time.Second}, <-out)
		out = s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), time.Minute)
		l.next("hello")
		l.bye(stream.ByeReplaced)
		s.store.put("m1", "a1")
		require.Equal(t, polled{id: "a1", ok: true}, <-out)
	})
}

func TestAPollThatIsFencedEndsWithNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		out := s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), time.Minute)
		synctest.Wait()
		_, err := s.store.Attach(t.Context(), ackstore.Rules{}, []ackstore.AttachReq{pollReq("i1", "10.0.0.2:1")}) // from elsewhere
		require.NoError(t, err)
		s.store.notifier.Wake("m1")
		require.Equal(t, polled{}, <-out)
	})
}

func TestAPollTellsOfAStoreThatCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.fail(ackstore.ErrUnavailable, nil)
		require.ErrorIs(t, (<-s.poll(t.Context(), pollReq("i1", "10.0.0.1:1"), time.Minute)).err, ackstore.ErrUnavailable)
	})
}

func TestWhatAPollCannotAnswerGoesBack(t *testing.T) {
	for name, end := range map[string]func(s *stage, hangUp func()){
		"its client has gone": func(_ *stage, hangUp func()) { hangUp() },
		"its token has ended": func(s *stage, _ func()) { s.registry.CloseTokens(func(string) bool { return true }) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.store.put("m1", "a1")
				ctx, hangUp := context.WithCancel(t.Context())
				defer hangUp()
				s.store.onClaim = func(bool) { end(s, hangUp) } // while the claim is under way
				require.Equal(t, polled{}, <-s.poll(ctx, pollReq("i1", "10.0.0.1:1"), time.Minute))
				synctest.Wait()
				require.Equal(t, refs("a1"), s.store.lastDetach(t).Unwritten)
			})
		})
	}
}

func TestAnswerIsTheEnvelopeOfAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		w, client := newWire()
		seat := s.mustSit(pollReq("i1", "10.0.0.1:1"))
		answered := make(chan error, 1)
		go func() {
			answered <- stream.Answer(w, seat, sample(), 5*time.Second)
			w.Close()
		}()
		body, err := io.ReadAll(client)
		require.NoError(t, err)
		require.NoError(t, <-answered)
		require.Equal(t, string(stream.AppendEnvelope(nil, sample(), true)), string(body))
		require.True(t, json.Valid(body))
		require.Equal(t, "no-store", w.header.Get("Cache-Control"))
		require.Equal(t, "application/json", w.header.Get("Content-Type"))
		_, limit := w.state()
		require.Zero(t, limit)
	})
}

func TestAnAnswerThatNobodyTakesGoesBack(t *testing.T) {
	for name, taken := range map[string]int{"no byte of it": 0, "some of it": 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				w, client := newWire()
				seat := s.mustSit(pollReq("i1", "10.0.0.1:1"))
				answered := make(chan error, 1)
				go func() { answered <- stream.Answer(w, seat, sample(), 5*time.Second) }()
				_, err := io.ReadFull(client, make([]byte, taken))
				require.NoError(t, err)
				require.Error(t, <-answered)
				seat.Leave()
				require.Equal(t, taken == 0, len(s.store.lastDetach(t).Unwritten) == 1)
			})
		})
	}
}
