package agentexec_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/task"
	"pushd/server/api"
)

// Acks that the server does not take are posted until it does, as often as it asks.
func TestAcksArePostedUntilAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		again  string
		away   time.Duration // then it takes them
		tries  int           // until then
		want   string        // said within as long again
	}{
		"a server that fails": {500, "", 10 * time.Second, 5, "a1/1 received"},
		"one that says when":  {503, "40", 40 * time.Second, 1, "a1/1 working"},
		"no right":            {403, "", time.Minute, 1, "a1/1 working"},
		"no token":            {401, "", time.Minute, 1, "a1/1 working"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.deps.Handlers["work"] = &worker{do: untilStopped}
				r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.stay(req) }
				tries := 0
				r.again = c.again
				r.refuse = func(req *http.Request) int {
					if req.URL.Path == "/acks" {
						tries++
						return c.status
					}
					return 0
				}
				r.start()
				time.Sleep(c.away)
				require.Empty(t, r.said())
				r.change(func() {
					require.Equal(t, c.tries, tries)
					r.refuse = only(0)
				})
				time.Sleep(c.away)
				require.NotEmpty(t, r.said())
				require.Equal(t, c.want, r.said()[0])
			})
		})
	}
}

// A verdict that is not ours to give is kept aside, without a word more to the
// server, until the agent begins anew; one of an action nobody knows is dropped.
func TestVerdictsThatAreNotTaken(t *testing.T) {
	for outcome, want := range map[string][]string{
		"forbidden": {"a1/1 done", "a2/1 done", "a1/1 done"},
		"unknown":   {"a1/1 done", "a2/1 done"},
	} {
		t.Run(outcome, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				events := func(w *answer, req *http.Request) {
					w.hello()
					w.action(1, "a1", 1)
					linger(req, 5*time.Second)
					w.action(2, "a2", 1)
					w.stay(req)
				}
				r.events = events
				judge := r.judge
				r.judge = func(a api.Ack) api.Acked {
					answer := judge(a)
					if a.ActionID == "a1" && a.Status == "done" {
						answer.Outcome = outcome
					}
					return answer
				}
				r.start()
				time.Sleep(10 * time.Minute)
				r.end()
				r.events = func(w *answer, req *http.Request) { w.hello(); w.stay(req) }
				r.start()
				time.Sleep(10 * time.Minute)
				var verdicts []string
				for _, word := range r.said() {
					if strings.HasSuffix(word, "done") {
						verdicts = append(verdicts, word)
					}
				}
				require.Equal(t, want, verdicts)
			})
		})
	}
}

// One ack that the server cannot take, for its size or for ever, holds up no other.
func TestAnAckThatIsRefusedHoldsUpNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		bad  func(a api.Ack) bool
		want string
	}{
		"too large":  {func(a api.Ack) bool { return len(a.Result) > 1000 }, `{"dropped":"the server did not take this result"}`},
		"unreadable": {func(a api.Ack) bool { return a.ActionID == "a1" && a.Status == "done" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.cfg.MaxConcurrency = 2
				large, err := json.Marshal(strings.Repeat("x", 2000))
				require.NoError(t, err)
				r.deps.Handlers["work"] = &worker{do: func(_ context.Context, job task.Job, _ *task.Pulse) task.Verdict {
					time.Sleep(time.Second) // both together
					v := done()
					if job.ActionID == "a1" {
						v.Result = large
					}
					return v
				}}
				r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.action(2, "a2", 1); w.stay(req) }
				r.taken = func(acks []api.Ack) int {
					if slices.ContainsFunc(acks, c.bad) {
						return http.StatusRequestEntityTooLarge
					}
					return 0
				}
				r.start()
				time.Sleep(10 * time.Minute)
				last := map[string]string{}
				r.change(func() {
					for _, a := range r.acks {
						if a.Status == "done" && (r.taken([]api.Ack{a}) == 0) {
							last[a.ActionID] = string(a.Result)
						}
					}
				})
				require.JSONEq(t, `{"ok":true}`, last["a2"])
				require.Equal(t, c.want, last["a1"])
			})
		})
	}
}

func TestAResultThatIsTooLargeIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.cfg.MaxResult = 10
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.stay(req) }
		r.start()
		require.Contains(t, r.said(), "a1/1 done")
		r.change(func() {
			require.JSONEq(t, `{"dropped":"the result has 11 bytes, 10 are allowed"}`, string(r.acks[len(r.acks)-1].Result))
		})
	})
}

// Acks that hang hold up neither the line nor the end of the agent, which has a
// time of its own for them.
func TestAcksThatHangHoldUpNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); linger(req, time.Second) }
		r.refuse = func(req *http.Request) int {
			if req.URL.Path == "/acks" {
				_, _ = io.Copy(io.Discard, req.Body) // else nobody sees the client go
				<-req.Context().Done()
				return 503
			}
			return 0
		}
		r.start()
		time.Sleep(5 * time.Second) // the line is there to post before it subscribes again
		begun := time.Now()
		r.end()
		require.InDelta(t, 5, time.Since(begun).Seconds(), 1)
	})
}

// What goes with an ack that is too large is said all the same.
func TestASignOfLifeBesideAnAckThatIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.cfg.MaxConcurrency = 2
		r.deps.Handlers["work"] = &worker{do: func(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict {
			if job.ActionID == "a2" {
				return untilStopped(ctx, job, pulse)
			}
			v := slowly(ctx, job, pulse)
			v.Result = json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)
			return v
		}}
		r.events = func(w *answer, req *http.Request) {
			w.hello()
			w.action(1, "a1", 1)
			linger(req, time.Second)
			w.action(2, "a2", 1)
			w.stay(req)
		}
		r.taken = func(acks []api.Ack) int {
			if acks[0].Status == "received" && acks[0].ActionID == "a1" {
				time.Sleep(2 * time.Second) // what comes meanwhile goes together
			}
			if slices.ContainsFunc(acks, func(a api.Ack) bool { return len(a.Result) > 1000 }) {
				return http.StatusRequestEntityTooLarge
			}
			return 0
		}
		r.start()
		time.Sleep(4 * time.Second)
		require.Subset(t, r.said(), []string{"a1/1 received", "a1/1 done", "a2/1 received"})
	})
}
