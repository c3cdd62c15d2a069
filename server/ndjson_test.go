package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server"
	"pushd/server/api"
)

const ndjson = "Content-Type: application/x-ndjson"

func lines(t *testing.T, body []byte) []api.PushedLine {
	t.Helper()
	var all []api.PushedLine
	for line := range strings.Lines(string(body)) {
		var l api.PushedLine
		require.NoError(t, json.Unmarshal([]byte(line), &l), line)
		all = append(all, l)
	}
	return all
}

func TestEachLineIsAnsweredForItself(t *testing.T) {
	t.Parallel()
	r := start(t, options{tokens: scopes, config: func(c *server.Config) { c.Limits.MaxPayloadBytes = 100 }})
	body := `{"action_id":"n1","machine_id":"win-1","type":"job"}
{"action_id":"n1","machine_id":"win-1","type":"job"}
{"action_id":"n1","machine_id":"win-1","type":"other"}

{"action_id":"n5","machine_id":"lin-1","type":"job"}
{"machine_id":"win-1","type":"job","payload":"` + strings.Repeat("x", 500_000) + `"}
` + "\t\r\n" + `[{"machine_id":"win-1","type":"job"}]
{"machine_id":"win-1","type":"job","payload":"` + strings.Repeat("x", 99) + `"}
{"machine_id":"win-1","type":"job"} {}
{"action_id":"n11","machine_id":"win-1","type":"job"}`
	a := r.want(200, "POST", "/v1/actions", body, nil, ndjson, r.as("push-win"))
	require.Equal(t, "application/x-ndjson", a.header.Get("Content-Type"))
	got := lines(t, a.body)
	want := []struct {
		line, status int
		id           string
	}{{id: "n1"}, {id: "n1"}, {3, 409, ""}, {5, 403, ""}, {6, 413, ""}, {8, 400, ""}, {9, 413, ""}, {10, 400, ""}, {id: "n11"}}
	require.Len(t, got, len(want), "%s", a.body)
	for i, w := range want {
		require.Equal(t, w.line, got[i].Line, "%+v", got[i])
		require.Equal(t, w.id, got[i].ActionID)
		if w.status > 0 {
			require.Equal(t, w.status, got[i].Error.Status)
		}
	}
	require.False(t, got[0].Deduplicated)
	require.True(t, got[1].Deduplicated)
	require.Empty(t, r.want(200, "POST", "/v1/actions", "\n\n", nil, ndjson, r.as("push-win")).body)
}

func TestASenderMayWaitForEachAnswer(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	body, out := io.Pipe()
	req := r.request("POST", "/v1/actions", nil, ndjson)
	req.Body = body
	answers := make(chan *http.Response, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			answers <- resp
		}
	}()
	var in *bufio.Reader
	for i := range 3 {
		id := fmt.Sprintf("a%d", i)
		_, err := fmt.Fprintf(out, "{\"action_id\":%q,\"machine_id\":\"m1\",\"type\":\"job\"}\n", id)
		require.NoError(t, err)
		if in == nil {
			resp := <-answers
			defer resp.Body.Close()
			in = bufio.NewReader(resp.Body)
		}
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, id)
	}
	require.NoError(t, out.Close())
	_, err := in.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
}

func TestTheLineAfterTheLastIsAnErrorAndTheRestNotRead(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	body := strings.Repeat("\n", 9_999) + `{"action_id":"last","machine_id":"m1","type":"job"}` + "\n" +
		`{"action_id":"over","machine_id":"m1","type":"job"}` + "\n" + `{"action_id":"rest","machine_id":"m1","type":"job"}` + "\n"
	got := lines(t, r.want(200, "POST", "/v1/actions", body, nil, ndjson).body)
	require.Len(t, got, 2)
	require.Equal(t, "last", got[0].ActionID)
	require.Equal(t, 10_001, got[1].Line)
	r.want(404, "GET", "/v1/actions/over", nil, nil)
	r.want(404, "GET", "/v1/actions/rest", nil, nil)
}

func TestABodyThatBreaksOffKeepsWhatWasWhole(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	c := r.dial()
	c.send("POST /v1/actions HTTP/1.1\r\nHost: " + r.addr + "\r\nContent-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n" +
		`{"action_id":"whole","machine_id":"m1","type":"job"}` + "\n" + `{"action_id":"half","mach`)
	require.NoError(t, c.conn.CloseWrite())
	raw, err := io.ReadAll(c.response().Body)
	require.NoError(t, err)
	got := lines(t, raw)
	require.Len(t, got, 2)
	require.Equal(t, "whole", got[0].ActionID)
	require.Equal(t, 400, got[1].Error.Status)
	r.want(200, "GET", "/v1/actions/whole", nil, nil)
	r.want(404, "GET", "/v1/actions/half", nil, nil)
}
