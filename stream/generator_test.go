package stream_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/stream"
)

func TestHelloComesFirstWithACalmRetry(t *testing.T) {
	for grace, bounds := range map[time.Duration][2]time.Duration{
		10 * time.Second:       {2 * time.Second, 5 * time.Second},
		5 * time.Second:        {time.Second, 2500 * time.Millisecond},
		time.Minute:            {2 * time.Second, 5 * time.Second},
		200 * time.Millisecond: {40 * time.Millisecond, 100 * time.Millisecond},
		time.Millisecond:       {time.Millisecond, 2 * time.Millisecond},
	} {
		t.Run(grace.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.config.DisconnectGrace = grace
				seen := map[time.Duration]bool{}
				for range 20 {
					l := s.open(streamReq("i1", "10.0.0.1:1"))
					hello := l.next("hello")
					require.GreaterOrEqual(t, hello.Retry, bounds[0])
					require.Less(t, hello.Retry, bounds[1])
					require.Empty(t, hello.ID)
					seen[hello.Retry] = true
					l.close()
				}
				if grace > time.Millisecond {
					require.Greater(t, len(seen), 2, "it differs between connections")
				}
			})
		})
	}
}

func TestHelloTellsWhatIsInForceAndRepeatsCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.held = []ackstore.Held{{ActionID: "a1", Delivery: 2}, {ActionID: "a2", Delivery: 1, Cancel: true, CancelReason: "operator"}}
		s.store.put("m1", "a3")
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		require.JSONEq(t, `{"machine_id":"m1","stream_id":"`+l.seat.StreamID()+`","server_time":"2000-01-01T00:00:00.000Z","heartbeat_s":15,"max_in_flight":9,"orphan_timeout_s":60,
			"in_flight":[{"action_id":"a1","delivery":2,"cancel":false},{"action_id":"a2","delivery":1,"cancel":true}]}`, string(l.next("hello").Data))
		require.JSONEq(t, `{"action_id":"a2","delivery":1,"reason":"operator"}`, string(l.next("cancel").Data))
		require.Equal(t, "1", l.actions("a3").ID)
		l.close()
	})
}

func TestAStreamAtRestIsParkedAndWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		l.next("hello")
		synctest.Wait()
		require.Equal(t, 1, s.store.claimed(), "at rest it does not ask again")
		time.Sleep(3 * time.Second)
		require.Equal(t, 1, s.store.claimed())
		s.store.put("m1", "a1", "a2", "a3")
		flushes, _ := l.wire.state()
		require.Zero(t, time.Since(l.actions("a1", "a2", "a3").at))
		synctest.Wait()
		after, _ := l.wire.state()
		require.Equal(t, flushes+1, after, "one flush for all that was due")
		s.store.cancel("m1", ackstore.CancelNote{ActionID: "a1", Delivery: 1, Reason: "stalled"})
		l.next("cancel")
		l.close()
	})
}

func TestNoWakeIsLostBetweenClaimAndPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		next := 0
		s.store.onClaim = func(empty bool) { // the commit falls between the claim and the wait
			if empty && next < 100 {
				next++
				s.store.put("m1", fmt.Sprint("a", next))
			}
		}
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		l.next("hello")
		for i := range 100 {
			require.Equal(t, time.Duration(0), time.Since(l.actions(fmt.Sprint("a", i+1)).at))
		}
		l.close()
	})
}

func TestHeartbeatsComeWhateverElseDoes(t *testing.T) {
	for name, traffic := range map[string]func(s *stage){
		"at rest":           func(*stage) {},
		"with some traffic": func(s *stage) { go trickle(s, 100*time.Millisecond) },
		"with no rest at all": func(s *stage) {
			s.store.slow = 10 * time.Millisecond
			s.store.onClaim = func(bool) { s.store.put("m1", "more") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				start := time.Now()
				traffic(s)
				l := s.open(streamReq("i1", "10.0.0.1:1"))
				for beat := 1; beat <= 4; {
					e, ok := <-l.events
					require.True(t, ok)
					if e.Name != "hb" {
						continue
					}
					require.InDelta(t, float64(beat)*15, e.at.Sub(start).Seconds(), 0.02)
					require.JSONEq(t, `{"server_time":"`+e.at.UTC().Format("2006-01-02T15:04:05.000Z")+`"}`, string(e.Data))
					beat++
				}
				l.close()
				time.Sleep(time.Minute) // the traffic ends
			})
		})
	}
}

func trickle(s *stage, every time.Duration) {
	for i := range 700 {
		time.Sleep(every)
		s.store.put("m1", fmt.Sprint("a", i))
	}
}

// However many bytes a client takes before it goes, what goes back is exactly
// that of which it took none.
func TestAWriteErrorReturnsExactlyTheUnwritten(t *testing.T) {
	ids := []string{"a1", "a2", "a3"}
	var ends []int // of the frames
	total := 0
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", ids...)
		for _, d := range s.store.due["m1"] {
			total += len(stream.AppendAction(nil, d))
			ends = append(ends, total)
		}
	})
	for taken := range total {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.store.put("m1", ids...)
			l := s.openUnread(streamReq("i1", "10.0.0.1:1"))
			skipHello(t, l)
			_, err := io.ReadFull(l.client, make([]byte, taken))
			require.NoError(t, err)
			synctest.Wait()
			l.client.Close()
			require.ErrorIs(t, <-l.done, io.ErrClosedPipe)
			want := ids[:0:0]
			for i := range ids {
				if start := ends[i] - ends[0]; taken <= start {
					want = append(want, ids[i])
				}
			}
			d := s.store.lastDetach(t)
			require.Equal(t, refs(want...), d.Unwritten, "after %d bytes", taken)
			require.False(t, d.Quiet)
			require.EqualValues(t, len(want), s.config.Tally.Unwritten.Load())
		})
	}
}

// skipHello reads, byte by byte so as to take no more, up to its blank line.
func skipHello(t *testing.T, l *live) {
	t.Helper()
	var seen strings.Builder
	for b := make([]byte, 1); !strings.HasSuffix(seen.String(), "\n\n"); seen.Write(b) {
		_, err := io.ReadFull(l.client, b)
		require.NoError(t, err)
	}
}

func TestAReaderThatTakesNothingIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1", "a2")
		l := s.openUnread(streamReq("i1", "10.0.0.1:1"))
		skipHello(t, l)
		start := time.Now()
		require.ErrorIs(t, <-l.done, os.ErrDeadlineExceeded)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.Equal(t, refs("a1", "a2"), s.store.lastDetach(t).Unwritten)
		require.EqualValues(t, 1, s.config.Tally.WriteTimeouts.Load())
		require.Zero(t, s.registry.Counts().Streams)
	})
}

func TestAReaderThatIsSlowWithALargeFrameIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1")
		s.store.due["m1"][0].Payload = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
		l := s.openUnread(streamReq("i1", "10.0.0.1:1"))
		skipHello(t, l)
		start := time.Now()
		for range 64 { // 16 KiB every 4 s
			time.Sleep(4 * time.Second)
			_, err := io.CopyN(io.Discard, l.client, 16<<10)
			require.NoError(t, err)
		}
		require.Greater(t, time.Since(start), 4*time.Minute)
		go l.read()
		time.Sleep(15 * time.Second)
		require.Empty(t, l.done, "it lives")
		l.close()
		require.Empty(t, s.store.lastDetach(t).Unwritten)
	})
}

func TestAStreamKeepsItsClientWhileTheStoreCannotWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.fail(ackstore.ErrUnavailable, nil)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		l.next("hello")
		time.Sleep(60 * time.Second)
		require.InDelta(t, 240, s.store.claimed(), 10, "it asks again, and does not spin")
		s.store.put("m1", "a1")
		s.store.fail(nil, nil)
		l.actions("a1")
		require.Positive(t, s.config.Tally.StoreErrors.Load())
		l.close()
	})
}

func TestAnyOtherErrorOfTheStoreEndsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.fail(io.ErrNoProgress, nil)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		l.next("hello")
		require.ErrorIs(t, <-l.done, io.ErrNoProgress)
		require.Zero(t, s.config.Tally.WriteErrors.Load())
		_, limit := l.wire.state()
		require.Zero(t, limit, "the connection may serve the next request")
	})
}

func TestAFencedStreamSaysReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		l.next("hello")
		_, err := s.store.Attach(t.Context(), ackstore.Rules{}, []ackstore.AttachReq{streamReq("i1", "10.0.0.2:1")}) // from elsewhere
		require.NoError(t, err)
		s.store.notifier.Wake("m1")
		l.bye(stream.ByeReplaced)
	})
}

func TestAClientThatGoesEndsItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		l.next("hello")
		synctest.Wait()
		s.store.onClaim = func(bool) { l.hangUp() } // while the claim is under way
		s.store.put("m1", "a1")
		require.NoError(t, <-l.done)
		require.Equal(t, refs("a1"), s.store.lastDetach(t).Unwritten, "what was claimed for it goes back")
	})
}

func TestByeOfEachReason(t *testing.T) {
	for name, c := range map[string]struct {
		reason stream.Reason
		end    func(s *stage)
		below  int // of retry_ms; 0: none is told
		quiet  bool
	}{
		"shutdown": {stream.ByeShutdown, func(s *stage) { require.NoError(s, s.registry.CloseAll(s.Context(), stream.ByeShutdown)) }, 8000, true},
		"revoked":  {stream.ByeRevoked, func(s *stage) { s.registry.CloseTokens(func(id string) bool { return id == "token-i1" }) }, 0, false},
		"recycle":  {stream.ByeRecycle, func(*stage) { time.Sleep(73 * time.Minute) }, 5000, false},
		"replaced": {stream.ByeReplaced, func(s *stage) { s.open(streamReq("i1", "10.0.0.9:7")).close() }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.config.MaxAge = time.Hour
				l := s.open(streamReq("i1", "10.0.0.1:1"))
				l.next("hello")
				synctest.Wait()
				c.end(s)
				b := l.bye(c.reason)
				require.Equal(t, c.below > 0, b.RetryMS != nil)
				if c.below > 0 {
					require.GreaterOrEqual(t, *b.RetryMS, 2000)
					require.Less(t, *b.RetryMS, c.below)
				}
				require.Equal(t, c.reason == stream.ByeReplaced, b.Address == "10.0.0.9:7")
				require.Equal(t, c.quiet, s.store.detached[0].Quiet)
				_, limit := l.wire.state()
				require.Zero(t, limit, "the connection may serve the next request")
			})
		})
	}
}

func TestMaxAgeIsSpreadByAFifth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.config.MaxAge = 10 * time.Minute
		seen := map[time.Duration]bool{}
		for range 20 {
			start := time.Now()
			l := s.open(streamReq("i1", "10.0.0.1:1"))
			l.next("hello")
			l.bye(stream.ByeRecycle)
			age := time.Since(start)
			require.InDelta(t, 10*60, age.Seconds(), 2*60)
			seen[age] = true
		}
		require.Greater(t, len(seen), 2)
	})
}

func TestMaxAgeOfZeroIsNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.open(streamReq("i1", "10.0.0.1:1"))
		time.Sleep(100 * time.Hour)
		require.Empty(t, l.done)
		l.close()
	})
}

// Whoever wants the seat does not wait for a backlog: what is not written yet
// goes back. Small frames go out many at a time.
func TestAGoodbyeGoesBeforeTheRestOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1", "a2", "a3")
		for i := range s.store.due["m1"] {
			s.store.due["m1"][i].Payload = []byte(`"` + strings.Repeat("x", 16<<10) + `"`)
		}
		l := s.openUnread(streamReq("i1", "10.0.0.1:1"))
		skipHello(t, l)
		synctest.Wait() // it waits for us to take a1
		s.registry.CloseTokens(func(string) bool { return true })
		go l.read()
		l.actions("a1")
		l.bye(stream.ByeRevoked)
		require.Equal(t, refs("a2", "a3"), s.store.lastDetach(t).Unwritten)
	})
}

func TestAWriterWithoutDeadlinesIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		seat, err := s.registry.Admit(t.Context(), ackstore.Rules{}, streamReq("i1", "10.0.0.1:1"), "")
		require.NoError(t, err)
		w := httptest.NewRecorder()
		require.ErrorContains(t, stream.NewSource(s.config, s.store, s.store.notifier).Run(t.Context(), seat, w), "deadline")
		require.Empty(t, w.Body.String())
		require.Len(t, s.store.detached, 1)
	})
}

func TestEveryFrameIsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1")
		l := s.open(streamReq("", "10.0.0.1:1"))
		time.Sleep(time.Minute)
		l.close()
		for e := range l.events {
			require.True(t, json.Valid(e.Data), "%s", e.Data)
			require.Equal(t, e.Name == "action", e.ID != "" && e.Name == "action")
		}
	})
}

func TestHeadersKeepAStreamOnItsWay(t *testing.T) {
	w := httptest.NewRecorder()
	stream.SetHeaders(w.Header())
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, "no-store, no-transform", w.Header().Get("Cache-Control"))
	require.Equal(t, "no", w.Header().Get("X-Accel-Buffering"))
}
