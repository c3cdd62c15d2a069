package agentexec_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// A cancel comes by the stream and with the answer to an ack, often at the same
// time. What waits for a place is given up once.
func TestACancelThatComesTwice(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &worker{do: untilStopped}
		r.deps.Handlers["work"] = w
		const waiting = 40
		r.events = func(w *answer, req *http.Request) {
			w.hello()
			w.action(1, "a0", 1)
			for i := range waiting {
				id := fmt.Sprintf("w%02d", i)
				w.action(2+i, id, 1)
				w.frame("event: cancel\ndata: {\"action_id\":\"" + id + "\",\"delivery\":1,\"reason\":\"operator\"}\n\n")
			}
			w.frame("event: cancel\ndata: {\"action_id\":\"a0\",\"delivery\":1,\"reason\":\"operator\"}\n\n")
			w.stay(req)
		}
		judge := r.judge
		r.judge = func(a api.Ack) api.Acked {
			answer := judge(a)
			answer.Cancel = a.ActionID != "a0"
			return answer
		}
		r.start()
		time.Sleep(time.Minute)
		said := r.said()
		for i := range waiting {
			require.Contains(t, said, fmt.Sprintf("w%02d/1 cancelled", i))
		}
		require.Contains(t, said, "a0/1 cancelled")
		require.Equal(t, []string{"a0"}, w.ran())
	})
}

// What still waits for a preflight when the agent stops has not begun, and does not.
func TestNothingBeginsOnceTheAgentStops(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		w := &worker{ready: func(context.Context) error {
			time.Sleep(5 * time.Second)
			return nil
		}}
		r.deps.Handlers["work"] = w
		r.events = func(w *answer, req *http.Request) { w.hello(); w.action(1, "a1", 1); w.stay(req) }
		r.start()
		time.Sleep(time.Second)
		r.end()
		require.Contains(t, r.said(), "a1/1 released")
		require.Empty(t, w.ran())
	})
}
