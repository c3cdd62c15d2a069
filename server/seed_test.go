package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/server/api"
	"pushd/stream"
)

// cutAgent is an agent whose connection breaks while the server writes. It keeps
// the duties of protocol 6: what it has read whole it remembers, before it works.
type cutAgent struct {
	r        *rig
	instance string
	last     string   // id of the last event read whole
	done     []string // what it has executed, in order
}

// life is one connection that breaks after so many bytes of action events.
func (a *cutAgent) life(bytesOfWork int) {
	a.r.t.Helper()
	ctx, cut := context.WithTimeout(context.Background(), patience)
	defer cut()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+a.r.addr+"/events?machine_id=m1&max_in_flight=9&instance_id="+a.instance, nil)
	require.NoError(a.r.t, err)
	req.Header.Set("Accept", "text/event-stream")
	if a.last != "" {
		req.Header.Set("Last-Event-ID", a.last)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(a.r.t, err)
	defer resp.Body.Close()
	read := readUntilCut(a.r.t, resp.Body, bytesOfWork)
	cut()
	a.work(read)
}

// readUntilCut reads a stream up to a number of bytes behind its hello, or to the
// end of an event there.
func readUntilCut(t *testing.T, body io.Reader, behindHello int) []byte {
	t.Helper()
	var read []byte
	one := make([]byte, 1)
	hello := -1
	for hello < 0 || len(read) < hello+behindHello {
		if _, err := body.Read(one); err != nil {
			return read
		}
		read = append(read, one[0])
		if whole := bytes.HasSuffix(read, []byte("\n\n")); whole && hello >= 0 {
			return read
		} else if whole {
			hello = len(read)
		}
	}
	return read
}

// work executes what was read whole, and acks it.
func (a *cutAgent) work(read []byte) {
	a.r.t.Helper()
	d := stream.NewDecoder(bytes.NewReader(read))
	for {
		e, err := d.Next()
		if err != nil {
			return
		}
		if e.Name != "action" {
			continue
		}
		var env struct {
			ActionID string `json:"action_id"`
			Delivery int    `json:"delivery"`
		}
		require.NoError(a.r.t, json.Unmarshal(e.Data, &env))
		a.last = e.ID
		a.done = append(a.done, env.ActionID)
		a.r.want(http.StatusOK, "POST", "/acks", map[string]any{"action_id": env.ActionID, "status": "done", "delivery": env.Delivery}, nil)
	}
}

// The seed of all this: nine actions were lost in 33 seconds by a client that
// dropped its socket while the answer was written.
func TestNineActionsLostByAClientThatDropsItsSocketAllArriveInOrder(t *testing.T) {
	// How often it may be cut is not the question here: chance decides that.
	patient := rules()
	patient.MaxDisconnectResends = 1000
	r := start(t, options{rules: func() ackstore.Rules { return patient }})
	var want []string
	for i := range 9 {
		id := fmt.Sprintf("step-%d", i)
		want = append(want, id)
		a := push(id, "m1")
		a["session_id"], a["payload"] = "replay", map[string]any{"text": string(bytes.Repeat([]byte{'x'}, 200+i))}
		r.want(http.StatusCreated, "POST", "/v1/actions", a, nil)
	}
	agent := &cutAgent{r: r, instance: "i1"}
	agent.last = "0"
	for range 8 { // each time somewhere within the first event
		agent.life(1 + rand.IntN(300))
	}
	require.Empty(t, agent.done, "nothing was ever read whole")
	for lives := 0; len(agent.done) < 9; lives++ {
		require.Less(t, lives, 500, "only %v arrived", agent.done)
		agent.life(200 + rand.IntN(600)) // to the end of the event, or not quite
	}
	require.Equal(t, want, agent.done)
	for _, id := range want {
		var rec api.Record
		r.want(http.StatusOK, "GET", "/v1/actions/"+id, nil, &rec)
		require.Equal(t, "done", rec.State)
		require.Zero(t, rec.Attempts, "a loss in transport is no failed attempt")
	}
}

// A toxic action: its agent dies each time it receives it, and comes back as
// another process that has forgotten all.
func TestAToxicActionIsGivenUpAndTakesNoOtherWithIt(t *testing.T) {
	const cap = 3
	r := start(t, options{rules: func() ackstore.Rules {
		fast := rules()
		fast.MaxDisconnectResends, fast.DisconnectGrace = cap, 20*time.Millisecond
		return fast
	}})
	for _, id := range []string{"toxic", "behind-1", "behind-2"} {
		a := push(id, "m1")
		a["session_id"], a["on_dead"] = "s", "skip"
		r.want(http.StatusCreated, "POST", "/v1/actions", a, nil)
	}
	deaths := 0
	for process := 1; deaths <= cap; process++ {
		ctx, die := context.WithCancel(context.Background())
		resp, err := r.client("").Subscribe(ctx, api.Subscription{MachineID: "m1", InstanceID: "p" + strconv.Itoa(process)})
		require.NoError(t, err)
		e := &events{t: t, got: make(chan event, 10), cancel: die}
		go e.read(resp.Body)
		require.Contains(t, e.await("action"), `"toxic"`)
		deaths++
		die()
		e.end()
	}
	healthy := r.subscribe("m1", "")
	for _, id := range []string{"behind-1", "behind-2"} {
		require.Contains(t, healthy.await("action"), `"`+id+`"`)
		r.want(http.StatusOK, "POST", "/acks", map[string]any{"action_id": id, "status": "done"}, nil)
	}
	var rec api.Record
	r.want(http.StatusOK, "GET", "/v1/actions/toxic", nil, &rec)
	require.Equal(t, []any{"gave_up", cap + 1, cap, 0}, []any{rec.State, rec.Deliveries, rec.Resends.Disconnect, rec.Attempts})
}
