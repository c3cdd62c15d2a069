package agentexec_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushd/agentexec"
	"pushd/agentexec/journal"
	"pushd/agentexec/task"
	"pushd/server/api"
)

// bubble runs a test in a bubble of its own.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t)) })
}

func TestAnActionIsReceivedDoneAndAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.deps.Handlers["work"] = &worker{do: slowly}
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(7, "a1", 1); w.stay(req) }
		r.start()
		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"a1/1 received", "a1/1 done"}, r.said())
	})
}

func TestOwedAcksGoBeforeTheSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		j, err := journal.Open(r.path)
		require.NoError(t, err)
		_, err = j.Receive(task.Action{ActionID: "a1", Delivery: 1, Type: "work"}, "3")
		require.NoError(t, err)
		require.NoError(t, j.Begin("a1", "r", time.Now()))
		require.NoError(t, j.Close())
		var down atomic.Bool
		down.Store(true)
		r.refuse = func(*http.Request) int {
			if down.Load() {
				return 503
			}
			return 0
		}
		r.start()
		time.Sleep(30 * time.Second)
		require.Empty(t, r.seen())
		down.Store(false)
		time.Sleep(2 * time.Minute)
		require.Equal(t, []string{"a1/1 failed transient agent_restarted"}, r.said())
		require.Len(t, r.seen(), 1)
		require.Equal(t, "3", r.seen()[0].last)
	})
}

func TestASilentStreamIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(5, "a1", 1); <-req.Context().Done() }
		r.start()
		time.Sleep(60 * time.Second)
		all := r.seen()
		require.Len(t, all, 2)
		require.InDelta(t, 37.5+2, (all[1].at - all[0].at).Seconds(), 1, "2.5 heartbeats, then what retry: says")
		require.Equal(t, "5", all[1].last)
		require.Equal(t, all[0].id, all[1].id)
	})
}

func TestAHeldStreamIsReplacedByPollsAndTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.deps.Handlers["work"] = &worker{do: slowly}
		r.events = held
		polls := []string{}
		r.next = func(w *answer, req *http.Request) {
			if polls = append(polls, req.URL.Query().Get("wait_s")); len(polls) == 2 {
				_ = json.NewEncoder(w).Encode(task.Action{ActionID: "a1", Delivery: 1, Type: "work", EventID: 9})
				return
			}
			nothing(w, req)
		}
		r.start()
		time.Sleep(9 * time.Second)
		require.Len(t, r.seen(), 1)
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a1/1 received", "a1/1 done"}, r.said())
		r.change(func() {
			require.Equal(t, []string{"5", "20", "20"}, polls[:3], "the first one shows soon whether polls get through")
		})
		for _, v := range r.seen() {
			require.Equal(t, v.path == "/next", v.closing, "what is held until its connection ends must end it")
		}
		r.change(func() { r.events = func(w *answer, req *http.Request) { w.hello(); w.stay(req) } })
		time.Sleep(6 * time.Minute)
		all := r.seen()
		require.Equal(t, "/events", all[len(all)-1].path, "and back again")
		require.Equal(t, "9", all[len(all)-1].last)
		was := len(all)
		time.Sleep(time.Hour)
		require.Len(t, r.seen(), was)
	})
}

func TestGoodbyes(t *testing.T) {
	for name, c := range map[string]struct {
		events func(w *answer, req *http.Request)
		refuse int
		want   []float64
	}{
		"shutdown waits as told":       {func(w *answer, _ *http.Request) { w.hello(); w.bye("shutdown", 2300) }, 0, []float64{2.3, 2.3, 2.3}},
		"recycle likewise":             {func(w *answer, _ *http.Request) { w.hello(); w.bye("recycle", 2300) }, 0, []float64{2.3, 2.3, 2.3}},
		"revoked asks what holds now":  {func(w *answer, _ *http.Request) { w.hello(); w.bye("revoked", 0) }, 0, []float64{0.5, 1, 2, 4}},
		"replaced waits longer":        {func(w *answer, _ *http.Request) { w.hello(); w.bye("replaced", 0) }, 0, []float64{30, 60, 120, 240}},
		"a lost contest likewise":      {nil, 409, []float64{30, 60, 120, 240}},
		"no token":                     {nil, 401, []float64{66, 66, 66}},
		"no right":                     {nil, 403, []float64{66, 66, 66}},
		"an end right after the hello": {func(w *answer, _ *http.Request) { w.hello() }, 0, []float64{2, 1, 2, 4, 8, 16, 30, 30}},
		"a server that fails":          {nil, 500, []float64{0.5, 1, 2, 4, 8, 16, 30, 30}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				if c.events != nil {
					r.events = c.events
				}
				r.refuse = only(c.refuse)
				r.start()
				time.Sleep(10 * time.Minute)
				gaps := r.gaps()
				require.Greater(t, len(gaps), len(c.want)-1)
				require.InDeltaSlice(t, c.want, gaps[:len(c.want)], 0.01)
			})
		})
	}
}

// Each time that a stream is held the polls go on for twice as long, until one has
// been healthy.
func TestAStreamThatIsHeldAgainIsTriedLessOften(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.events, r.next = held, nothing
		r.start()
		time.Sleep(4 * time.Hour)
		tries := gaps(r.streams())
		require.InDeltaSlice(t, []float64{310, 610, 1210, 2410, 3610, 3610}, tries[:6], 25)
		r.change(func() { r.events = func(w *answer, req *http.Request) { w.hello(); linger(req, time.Minute) } })
		time.Sleep(time.Hour)
		r.change(func() { r.events = held })
		time.Sleep(time.Minute)
		n := len(r.streams())
		time.Sleep(20 * time.Minute)
		require.InDelta(t, 310, gaps(r.streams())[n-1], 25)
	})
}

// A poll that is answered with nothing before its time is no reason to ask again
// at once.
func TestPollsThatEndEarlyAreNoBusyLoop(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.events = held
		r.start()
		time.Sleep(10 * time.Minute)
		require.Less(t, len(r.seen()), 60)
	})
}

func TestAMachineThatOthersHave(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.refuse = only(409)
		r.start()
		time.Sleep(10 * time.Hour)
		require.InDeltaSlice(t, []float64{30, 60, 120, 240, 480, 960, 1920, 3600, 3600}, r.gaps()[:9], 0.01)
		r.change(func() {
			r.refuse = only(0)
			r.events = func(w *answer, req *http.Request) {
				w.hello()
				for range 61 * 4 { // longer than an hour
					linger(req, 15*time.Second)
					w.frame("event: hb\ndata: {}\n\n")
				}
				w.bye("replaced", 0)
			}
		})
		time.Sleep(3 * time.Hour)
		all := r.gaps()
		require.InDelta(t, 3660+30, all[len(all)-1], 1, "it was ours for an hour: it counts anew")
	})
}

func TestARefusalThatNamesItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		want   []float64
	}{
		"503":                    {503, []float64{110, 110, 110}},
		"409, shorter than ours": {409, []float64{100, 100, 120, 240}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.refuse, r.again = only(c.status), "100"
				r.start()
				time.Sleep(time.Hour)
				require.InDeltaSlice(t, c.want, r.gaps()[:len(c.want)], 0.01)
			})
		})
	}
}

func TestAHealthyStreamStartsTheBackoffAnew(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.events = func(w *answer, req *http.Request) { w.hello(); linger(req, 31*time.Second) }
		r.start()
		time.Sleep(3 * time.Minute)
		require.InDeltaSlice(t, []float64{33, 33, 33, 33, 33}, r.gaps(), 0.01)
	})
}

// A sleep of 20 s is shorter than the silence that a stream is allowed, and yet its
// connection may be dead.
func TestALeapOfTheClockReconnectsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig)
		within time.Duration // 0: not at all in a minute
	}{
		"streaming":          {func(*rig) {}, 2500 * time.Millisecond},
		"polling":            {func(r *rig) { r.events, r.next = held, nothing }, 22500 * time.Millisecond},
		"waiting":            {func(r *rig) { r.refuse = only(500) }, 2500 * time.Millisecond},
		"without the right":  {func(r *rig) { r.refuse = only(403) }, 0},
		"without the token":  {func(r *rig) { r.refuse = only(401) }, 0},
		"with another agent": {func(r *rig) { r.refuse = only(409) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var slept atomic.Int64
				r.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
				c.before(r)
				r.start()
				time.Sleep(10*time.Minute + 5*time.Second) // where it waits, it waits long by now, and not just then
				was := len(r.streams())
				slept.Store(int64(20 * time.Second))
				time.Sleep(max(c.within, 2500*time.Millisecond))
				if c.within == 0 {
					require.Len(t, r.streams(), was)
				} else {
					require.Len(t, r.streams(), was+1)
				}
			})
		})
	}
}

// onDropped does something while the agent says that it drops an event.
type onDropped func()

func (f onDropped) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("an event was dropped")) {
		f()
	}
	return len(p), nil
}

// What has been read of a stream that is being left is of an older connection:
// nothing of it begins.
func TestNothingBeginsThatAnOlderConnectionBrought(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var slept atomic.Int64
		r.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		r.cfg.Logger = zerolog.New(onDropped(func() {
			slept.Store(int64(20 * time.Second))
			time.Sleep(5 * time.Second) // the leap is noticed, and the stream left
		}))
		w := &worker{}
		r.deps.Handlers["work"] = w
		sent := false
		r.events = func(w *answer, req *http.Request) {
			w.hello()
			if !sent {
				sent = true
				w.frame("id: 1\nevent: action\ndata: {}\n\n" + actionFrame(2, "a1", 1))
			}
			w.stay(req)
		}
		r.start()
		time.Sleep(time.Minute)
		require.Len(t, r.seen(), 2)
		require.Empty(t, w.ran())
		require.Empty(t, r.seen()[1].last, "it counts as not received, and is sent again")
	})
}

// only refuses streams, with a status.
func only(status int) func(*http.Request) int {
	return func(req *http.Request) int {
		if req.URL.Path == "/events" {
			return status
		}
		return 0
	}
}

func TestABeatLearnsWhatBecameOfTheStream(t *testing.T) {
	for reason, want := range map[string]float64{"gone": 32, "replaced": 60} {
		t.Run(reason, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.beat = func(w *answer, _ *http.Request) {
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(http.StatusConflict)
					_ = json.NewEncoder(w).Encode(api.Problem{Status: 409, Reason: reason})
				}
				r.start()
				time.Sleep(70 * time.Second)
				require.InDelta(t, want, r.gaps()[0], 0.01)
			})
		})
	}
}

func TestAFrameThatIsCutAnywhereIsNoAction(t *testing.T) {
	frame := actionFrame(9, "a1", 1)
	for cut := range len(frame) {
		bubble(t, func(t *testing.T, r *rig) {
			w := &worker{}
			r.deps.Handlers["work"] = w
			r.events = func(out *answer, _ *http.Request) { out.hello(); out.frame(frame[:cut]) }
			r.start()
			time.Sleep(3 * time.Second)
			require.Empty(t, w.ran(), "cut after %q", frame[:cut])
			all := r.seen()
			require.Empty(t, all[len(all)-1].last)
		})
	}
}

func TestACancelStopsTheWork(t *testing.T) {
	cancel := "event: cancel\ndata: {\"action_id\":\"a1\",\"delivery\":1,\"reason\":\"operator\"}\n\n"
	t.Run("running", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			r.deps.Handlers["work"] = &worker{do: untilStopped}
			r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.frame(cancel); w.stay(req) }
			r.start()
			require.Contains(t, r.said(), "a1/1 cancelled")
		})
	})
	t.Run("never here", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			r.events = func(w *answer, req *http.Request) { w.hello(); w.frame(cancel); w.stay(req) }
			r.start()
			require.Equal(t, []string{"a1/1 cancelled"}, r.said())
		})
	})
	t.Run("told in a hello", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			r.deps.Handlers["work"] = &worker{do: untilStopped}
			again := false
			r.events = func(w *answer, req *http.Request) {
				if again {
					w.hello(`"in_flight":[{"action_id":"a1","delivery":1,"cancel":true},{"action_id":"x","delivery":2,"cancel":true}]`)
					w.stay(req)
					return
				}
				again = true
				w.hello()
				w.action(1, "a1", 1)
				linger(req, time.Second)
			}
			r.start()
			time.Sleep(10 * time.Second)
			require.Subset(t, r.said(), []string{"a1/1 cancelled", "x/2 cancelled"})
		})
	})
	t.Run("told in an ack's answer", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			r.deps.Handlers["work"] = &worker{do: untilStopped}
			r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.stay(req) }
			judge := r.judge
			r.judge = func(a api.Ack) api.Acked {
				answer := judge(a)
				answer.Cancel = a.Status == "received"
				return answer
			}
			r.start()
			require.Equal(t, []string{"a1/1 received", "a1/1 cancelled"}, r.said())
		})
	})
	t.Run("waiting for a preflight", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			w := &worker{ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
			r.deps.Handlers["work"] = w
			r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.frame(cancel); w.stay(req) }
			r.start()
			require.Contains(t, r.said(), "a1/1 cancelled")
			require.Empty(t, w.ran())
		})
	})
	t.Run("waiting for a place", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			w := &worker{do: untilStopped}
			r.deps.Handlers["work"] = w
			r.events = func(w *answer, req *http.Request) {
				w.hello()
				w.action(1, "a0", 1)
				w.action(2, "a1", 1)
				w.frame(cancel)
				w.stay(req)
			}
			r.start()
			require.Contains(t, r.said(), "a1/1 cancelled")
			require.Equal(t, []string{"a0"}, w.ran())
		})
	})
}

func TestNothingIsDoneTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &worker{}
		r.deps.Handlers["work"] = w
		delivery := 0
		r.events = func(out *answer, req *http.Request) {
			delivery++
			out.hello()
			out.action(delivery, "a1", delivery, `,"resent_count":1`)
			if delivery < 4 {
				return
			}
			out.stay(req)
		}
		r.start()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a1"}, w.ran())
		require.Equal(t, "a1/4 done", r.said()[len(r.said())-1])
		r.end()
		delivery = 8
		r.start() // a new agent remembers
		time.Sleep(time.Second)
		require.Equal(t, []string{"a1"}, w.ran())
		require.Equal(t, "a1/9 done", r.said()[len(r.said())-1])
	})
}

func TestAnUnknownTypeFailsForGood(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.deps.Handlers = map[string]agentexec.Handler{"other": &worker{}, "b": &worker{}}
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.stay(req) }
		r.start()
		require.Contains(t, r.said(), "a1/1 failed permanent unknown_type")
		r.change(func() { require.Contains(t, r.acks[len(r.acks)-1].Error.Message, "b, other") })
	})
}

func TestAPreflightThatFailsKeepsWorkAway(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var broken atomic.Bool
		broken.Store(true)
		w := &worker{ready: func(context.Context) error {
			if broken.Load() {
				return errors.New("claude not found")
			}
			return nil
		}}
		r.deps.Handlers["work"] = w
		r.events = func(out *answer, req *http.Request) { out.hello(); out.action(1, "a1", 1); out.stay(req) }
		r.start()
		require.Contains(t, r.said(), "a1/1 released")
		require.Equal(t, []any{float64(0)}, r.credits())
		broken.Store(false)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		require.Equal(t, []any{float64(0), nil}, r.credits())
		require.Empty(t, w.ran())
	})
}

// A preflight that hangs does not hold up the end of the agent: what waits for its
// answer has not begun and is given back.
func TestAPreflightThatHangsHoldsNothingUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &worker{ready: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		r.deps.Handlers["work"] = w
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.stay(req) }
		r.start()
		time.Sleep(time.Second)
		require.Equal(t, []string{"a1/1 received"}, r.said())
		begun := time.Now()
		r.end()
		require.Contains(t, r.said(), "a1/1 released")
		require.InDelta(t, 30, time.Since(begun).Seconds(), 1)
		require.Empty(t, w.ran())
	})
}

func TestTheEndGivesRunningWorkItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		needs time.Duration
		want  string
	}{
		"enough":  {20 * time.Second, "a0/1 done"},
		"too few": {time.Hour, "a0/1 failed transient agent_stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				w := &worker{do: func(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict {
					select {
					case <-time.After(c.needs):
						return done()
					case <-ctx.Done():
						return untilStopped(ctx, job, pulse)
					}
				}}
				r.deps.Handlers["work"] = w
				r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a0", 1); w.action(2, "a1", 1); w.stay(req) }
				r.start()
				time.Sleep(time.Second)
				r.end()
				said := r.said()
				require.Contains(t, said, c.want)
				require.Contains(t, said, "a1/1 released")
				require.Equal(t, []string{"a0"}, w.ran())
				require.Equal(t, []any{float64(0), nil}, r.credits(), "given back")
			})
		})
	}
}

func TestWorkingAcksFollowThePulse(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.deps.Handlers["work"] = &worker{do: func(ctx context.Context, _ task.Job, pulse *task.Pulse) task.Verdict {
			for range 60 {
				pulse.Bump(time.Now())
				time.Sleep(time.Second)
			}
			time.Sleep(10 * time.Minute)
			pulse.Vouch(true)
			time.Sleep(time.Minute)
			return done()
		}}
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.stay(req) }
		r.start()
		moves := func() int {
			synctest.Wait()
			tokens := map[uint64]bool{}
			r.change(func() {
				for _, a := range r.acks {
					if a.Status == "working" {
						tokens[*a.ActivityToken] = true
					}
				}
			})
			return len(tokens)
		}
		time.Sleep(60 * time.Second)
		require.InDelta(t, 6, moves(), 1)
		time.Sleep(10 * time.Minute)
		require.InDelta(t, 6, moves(), 1, "what hangs is no activity")
		require.InDelta(t, 6+20, len(r.said()), 4, "but still here")
		time.Sleep(2 * time.Minute)
		require.InDelta(t, 12, moves(), 2, "an open tool is vouched for")
		require.Equal(t, "a1/1 done", r.said()[len(r.said())-1])
	})
}

func TestAHundredDropsLeaveNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.events = func(w *answer, req *http.Request) { w.hello(); linger(req, 31*time.Second) }
		r.start()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		was := runtime.NumGoroutine()
		time.Sleep(100 * time.Minute)
		synctest.Wait()
		require.Greater(t, len(r.seen()), 100)
		require.InDelta(t, was, runtime.NumGoroutine(), 3)
	})
}

// The hello lists what this agent has forgotten: it says so.
func TestWhatTheServerCountsAndWeDoNotKnowIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.events = func(w *answer, req *http.Request) {
			w.hello(`"in_flight":[{"action_id":"x","delivery":3}]`)
			w.stay(req)
		}
		r.start()
		require.Equal(t, []string{"x/3 failed transient agent_restarted"}, r.said())
	})
}
