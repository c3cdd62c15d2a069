package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// watch opens the feed under a token's name, or other headers, and waits until it is open.
func (r *rig) watch(token string, headers ...string) *events {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req := r.request("GET", "/v1/feed", nil, append(headers, "Accept: text/event-stream", "Last-Event-ID: x")...)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+r.tokens[token])
	}
	resp, err := http.DefaultTransport.RoundTrip(req.WithContext(ctx))
	require.NoError(r.t, err)
	require.Equal(r.t, 200, resp.StatusCode)
	require.Equal(r.t, "text/event-stream", resp.Header.Get("Content-Type"))
	require.Contains(r.t, resp.Header.Get("Cache-Control"), "no-transform")
	e := &events{t: r.t, got: make(chan event, 1000), cancel: cancel}
	go e.read(resp.Body)
	r.t.Cleanup(cancel)
	return e
}

func TestTheFeedTellsOfActionsAndMachines(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	feed := r.watch("")
	r.want(201, "POST", "/v1/actions", map[string]any{"action_id": "a1", "machine_id": "m1", "type": "job"}, nil)
	data := feed.await("change")
	for _, part := range []string{`"action_id":"a1"`, `"machine_id":"m1"`, `"state":"queued"`, `"event":`, `"at":"`} {
		require.Contains(t, data, part)
	}
	r.subscribe("m1", "").await("action")
	require.Contains(t, feed.await("machine"), `"m1"`)
}

func TestAFeedUnderAPatternShowsItsMachinesOnly(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes})
	all, some := r.watch("admin"), r.watch("read-win")
	for _, machine := range []string{"lin-1", "win-1", "lin-2", "win-2"} {
		r.want(201, "POST", "/v1/actions", push("on-"+machine, machine), nil, r.as("admin"))
	}
	for _, machine := range []string{"lin-1", "win-1", "lin-2", "win-2"} {
		require.Contains(t, all.await("change"), machine)
		if strings.HasPrefix(machine, "win") {
			require.Contains(t, some.await("change"), machine)
		}
	}
}

func TestAFeedThatIsNotReadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	frozen := r.dial()
	require.NoError(t, frozen.conn.SetReadBuffer(4<<10))
	frozen.send("GET /v1/feed HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n")
	healthy := r.watch("")
	viewers := func() float64 { return sum(r.scrape(), "pushd_feed_viewers") }
	require.Eventually(t, func() bool { return viewers() == 2 }, patience, 10*time.Millisecond)
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		for e := range healthy.got {
			if strings.Contains(e.data, `"last-`) {
				return
			}
		}
	}()
	var array []map[string]any
	for _, id := range ids(300) { // more than a frame holds
		array = append(array, map[string]any{"action_id": id, "machine_id": "m" + id[:2], "type": "job", "delay_s": 3600})
	}
	r.want(201, "POST", "/v1/actions", array, nil)
	for n, deadline := 0, time.Now().Add(2*patience); viewers() == 2; n++ { // frame on frame, until its buffers are full
		require.True(t, time.Now().Before(deadline), "who does not read is not cut off")
		r.want(200, "POST", "/v1/"+[]string{"cancel", "redrive"}[n%2], map[string]any{"type": "job"}, nil)
	}
	for n, deadline := 0, time.After(patience); ; n++ {
		r.want(201, "POST", "/v1/actions", push(fmt.Sprintf("last-%d", n), "m1"), nil)
		select {
		case <-seen:
			require.EqualValues(t, 1, viewers(), "the healthy one")
			return
		case <-deadline:
			require.Fail(t, "the healthy viewer sees nothing any more")
		case <-time.After(100 * time.Millisecond): // it may have been dropped: the feed is lossy
		}
	}
}

// chunks opens the feed by hand and returns what the server writes, piece by piece:
// each write of its own is a chunk.
func (r *rig) chunks() <-chan string {
	r.t.Helper()
	c := r.dial()
	c.send("GET /v1/feed HTTP/1.1\r\nHost: " + r.addr + "\r\n\r\n")
	line := func() string {
		text, _ := c.in.ReadString('\n') // its end ends the pieces
		return strings.TrimSpace(text)
	}
	for line() != "" { // the status and the headers
	}
	pieces := make(chan string, 10_000)
	go func() {
		defer close(pieces)
		for {
			size, err := strconv.ParseInt(line(), 16, 32)
			if err != nil {
				return
			}
			piece := make([]byte, size+2)
			if _, err := io.ReadFull(c.in, piece); err != nil {
				return
			}
			pieces <- string(piece[:size])
		}
	}()
	return pieces
}

func TestTheFeedWritesFourFramesASecondAtMost(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	began := time.Now()
	pieces := r.chunks()
	const n = 200
	go func() {
		for i := range n {
			_, _ = r.client("").Push(context.Background(), api.Push{ActionID: fmt.Sprintf("a%03d", i), MachineID: "m1", Type: "job"}) // what is missing is found below
		}
	}()
	frames, changes := 0, 0
	for deadline := time.After(patience); changes < n; {
		select {
		case piece := <-pieces:
			if strings.Contains(piece, "event: ") {
				frames++
			}
			changes += strings.Count(piece, `"event":"pushed"`)
			require.NotContains(t, piece, ": end")
		case <-deadline:
			require.Fail(t, "changes are missing", "%d of %d came", changes, n)
		}
	}
	require.LessOrEqual(t, frames, int(time.Since(began)/(250*time.Millisecond))+2)
	t.Logf("%d changes in %d frames, %s", changes, frames, time.Since(began).Round(time.Millisecond))
}

func TestMoreThanAFrameHoldsIsReadAgain(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	feed := r.watch("")
	var array []map[string]any
	for i := range 900 {
		array = append(array, push(fmt.Sprintf("a%03d", i), "m1"))
	}
	r.want(201, "POST", "/v1/actions", array, nil)
	told := 0
	for deadline := time.After(patience); ; {
		select {
		case e := <-feed.got:
			if e.name == "change" {
				told++
				continue
			}
			require.Equal(t, "resync", e.name)
			var missed struct{ Missed int }
			require.NoError(t, json.Unmarshal([]byte(e.data), &missed))
			require.Equal(t, 250, told)
			require.Equal(t, 650, missed.Missed)
			return
		case <-deadline:
			require.Fail(t, "nobody says that something was dropped", "%d changes were told", told)
		}
	}
}
