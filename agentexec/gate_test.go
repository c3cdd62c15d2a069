package agentexec_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A preflight is asked again after 45 s, and after 10 s where it fails; never more
// often, however much work comes.
func TestHowLongAPreflightCounts(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int // in two minutes
	}{
		"passing": {nil, 3},
		"failing": {errors.New("not logged in"), 12},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				asked := 0
				r.deps.Handlers["work"] = &worker{ready: func(context.Context) error {
					r.change(func() { asked++ })
					return c.err
				}}
				r.events = func(w *answer, req *http.Request) {
					w.hello()
					for i := range 119 {
						w.action(i+1, "a"+string(rune('A'+i)), 1)
						linger(req, time.Second)
					}
					w.stay(req)
				}
				r.start()
				time.Sleep(2*time.Minute - time.Second)
				r.change(func() { require.InDelta(t, c.want, asked, 1) })
			})
		})
	}
}

// A credit that could not be told is told again, with its reason.
func TestACreditIsToldUntilItIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.deps.Handlers["work"] = &worker{ready: func(context.Context) error { return errors.New("not logged in") }}
		r.refuse = func(req *http.Request) int {
			if req.Method == http.MethodPatch {
				return 503
			}
			return 0
		}
		r.start()
		time.Sleep(time.Minute)
		require.Empty(t, r.credits())
		r.change(func() { r.refuse = only(0) })
		time.Sleep(6 * time.Second)
		require.Equal(t, []any{float64(0)}, r.credits())
		r.change(func() { require.Contains(t, r.reasons, "preflight failed: work: not logged in") })
	})
}

// Without a token that holds, or the right, it is tried once a minute, and at once
// when the server knows us again.
func TestACreditThatMayNotBeTold(t *testing.T) {
	for _, status := range []int{401, 403} {
		bubble(t, func(t *testing.T, r *rig) {
			r.deps.Handlers["work"] = &worker{ready: func(context.Context) error { return errors.New("not logged in") }}
			tries := 0
			r.refuse = func(req *http.Request) int {
				if req.Method == http.MethodPatch {
					tries++
				}
				return status
			}
			r.start()
			time.Sleep(10 * time.Minute)
			r.change(func() {
				require.InDelta(t, 9, tries, 1)
				r.refuse = only(0)
			})
			for len(r.seen()) < 11 {
				time.Sleep(time.Second) // of the bubble, until the stream is tried again
			}
			time.Sleep(time.Second)
			require.Equal(t, []any{float64(0)}, r.credits())
		})
	}
}

// The hello of a server that meets this instance for the first time has forgotten
// what was told before it.
func TestAReasonIsToldAgainAfterAHello(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.deps.Handlers["work"] = &worker{ready: func(context.Context) error { return errors.New("not logged in") }}
		r.events = func(w *answer, req *http.Request) {
			linger(req, 5*time.Second)
			w.hello()
			w.stay(req)
		}
		r.start()
		told := "preflight failed: work: not logged in"
		time.Sleep(4 * time.Second)
		require.Equal(t, []any{float64(0)}, r.credits())
		r.change(func() { require.Equal(t, []string{told}, r.reasons) })
		time.Sleep(time.Minute)
		r.change(func() { require.Equal(t, []string{told, told}, r.reasons) })
	})
}

// An agent that was killed while its credit was 0 left that behind.
func TestACreditThatAnEarlierAgentLoweredIsLifted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		failing := &worker{ready: func(context.Context) error { return errors.New("not logged in") }}
		r.deps.Handlers["work"] = failing
		r.start()
		time.Sleep(time.Second)
		r.change(func() {
			r.refuse = func(req *http.Request) int {
				if req.Method == http.MethodPatch {
					return 503 // gone before it could give it back
				}
				return 0
			}
		})
		r.end()
		r.change(func() { r.refuse = only(0) })
		failing.ready = nil
		r.start()
		time.Sleep(time.Second)
		require.Equal(t, []any{float64(0), nil}, r.credits())
	})
}

// A credit of 0 whose answer was lost may be in force all the same: when the
// handler is well again it is lifted.
func TestACreditWhoseAnswerWasLostIsLifted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var ill atomic.Bool
		r.deps.Handlers["work"] = &worker{ready: func(context.Context) error {
			if ill.Load() {
				return errors.New("not logged in")
			}
			return nil
		}}
		r.events = func(w *answer, req *http.Request) {
			w.hello()
			for range 4 { // what is known of the handler is old by then
				linger(req, 15*time.Second)
				w.frame("event: hb\ndata: {}\n\n")
			}
			ill.Store(true)
			w.action(1, "a1", 1)
			w.stay(req)
		}
		r.refuse = func(req *http.Request) int {
			if req.Method == http.MethodPatch {
				return 502 // of a proxy; the server has taken it
			}
			return 0
		}
		r.start()
		time.Sleep(time.Minute + time.Second)
		require.Contains(t, r.said(), "a1/1 released")
		ill.Store(false)
		time.Sleep(11 * time.Second) // it is asked again
		r.change(func() { r.refuse = only(0) })
		time.Sleep(time.Minute)
		require.Equal(t, []any{nil}, r.credits())
	})
}
