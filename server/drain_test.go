package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/server"
)

// hung is a connection with a request that never ends.
func (r *rig) hung() {
	r.dial().send("POST /v1/actions HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
}

func TestADrainEndsWithinFiveSecondsWhoeverHangs(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	live := r.subscribe("m1", "")
	live.await("hello")
	feed := r.watch("")
	r.hung()
	stuck := r.dial()
	stuck.send("GET /events?machine_id=m2&max_in_flight=100 HTTP/1.1\r\nHost: " + r.addr + "\r\nAccept: text/event-stream\r\n\r\n")
	polled := make(chan int, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(r.request("GET", "/next?machine_id=m3&wait_s=60", nil))
		if err != nil {
			polled <- -1
			return
		}
		resp.Body.Close()
		polled <- resp.StatusCode
	}()
	waiting := make(chan int, 1)
	r.want(201, "POST", "/v1/actions", push("a1", "m9"), nil)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(r.request("GET", "/v1/actions/a1?wait_s=60", nil))
		if err != nil {
			waiting <- -1
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		require.Contains(t, string(body), `"draining"`)
		waiting <- resp.StatusCode
	}()
	r.awaitMachine("m3")
	r.stop()
	began := time.Now()
	require.Contains(t, live.await("bye"), `"shutdown"`)
	live.end()
	feed.end()
	require.Equal(t, 204, <-polled)
	<-waiting // 200, or cut before it was read
	err := <-r.ended
	r.ended <- err
	require.NoError(t, err)
	require.Less(t, time.Since(began), 5*time.Second)
}

// awaitMachine waits until a machine is there.
func (r *rig) awaitMachine(id string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		return r.call("GET", "/v1/machines/"+id, nil).status == 200
	}, patience, 10*time.Millisecond)
}

func TestWhileItDrainsNothingNewIsTakenAndAcksAre(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	r.inFlight("a1", "m1")
	// The answer to its first line, and the 100, say that both have begun.
	lines := r.dial()
	lines.send("POST /v1/actions HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
	lines.line(`{"action_id":"before","machine_id":"m1","type":"job"}`)
	answers := bufio.NewReader(lines.response().Body)
	first, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, `"before"`)
	body := `{"action_id":"a1","status":"done"}`
	ack := r.dial()
	ack.send("POST /acks HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
	require.Equal(t, 100, ack.response().StatusCode)

	r.stop()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	}, patience, 10*time.Millisecond, "the listener is still open")
	ack.send(body)
	require.Equal(t, 200, ack.response().StatusCode)
	lines.line(`{"action_id":"after","machine_id":"m1","type":"job"}`)
	second, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, second, `"/problems/draining"`)
	err = <-r.ended
	r.ended <- err
	require.NoError(t, err)
	_, err = r.store.Get(t.Context(), rules(), "after")
	require.ErrorIs(t, err, ackstore.ErrUnknown)
	done, err := r.store.Get(t.Context(), rules(), "a1")
	require.NoError(t, err)
	require.Equal(t, ackstore.Done, done.State)
}

// line sends a line of NDJSON as a chunk.
func (c *raw) line(text string) {
	c.r.t.Helper()
	c.send(fmt.Sprintf("%x\r\n%s\n\r\n", len(text)+1, text))
}

func TestASlowBodyIsCutOff(t *testing.T) {
	t.Parallel()
	r := start(t, options{config: func(c *server.Config) { c.BodyTimeout = 300 * time.Millisecond }})
	c := r.dial()
	c.send("POST /v1/actions HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	resp := c.response()
	require.Equal(t, 408, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	c = r.dial()
	c.send("POST /v1/actions HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
	body, err := io.ReadAll(c.response().Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"status":408`)
	// A handler that waits is no slow body.
	r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil)
	r.want(200, "GET", "/v1/actions/a1?wait_s=0.9", nil, nil)
	r.want(204, "POST", "/next?machine_id=m2&wait_s=0.9", none, nil)
}
