package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/require"

	"pushd/server/api"
)

// awkward is a payload that trips readers: line ends, digits, what looks like a field.
const awkward = `{"text":"a\nb\r\n\ndata: x\u2028é","big":12345678901234567890,"f":1.0}`

func pushAwkward(t *testing.T, d *daemon) {
	t.Helper()
	_, err := d.client().Push(t.Context(), api.Push{ActionID: "a1", MachineID: "m1", Type: "job", Payload: json.RawMessage(awkward)})
	require.NoError(t, err)
}

func requireDone(t *testing.T, d *daemon, id string) {
	t.Helper()
	r, err := d.client().Action(t.Context(), id, patience)
	require.NoError(t, err)
	require.Equal(t, "done", r.State)
	require.Equal(t, 1, r.Deliveries)
}

// A shell script with curl is an agent.
func TestCurlIsAnAgent(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not to be had here")
	}
	d := serve(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, curl, "-sN", d.base+"/events?machine_id=m1")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		cancel()
		_ = cmd.Wait() // cut by us
	}()
	lines := bufio.NewScanner(out)
	await(t, lines, "event: hello")
	pushAwkward(t, d)
	await(t, lines, "id: ")
	await(t, lines, "event: action")
	data := await(t, lines, "data: ")
	require.Contains(t, data, `"payload":`+awkward)
	ack, err := exec.CommandContext(ctx, curl, "-sf", d.base+"/acks", "-H", "Content-Type: application/json",
		"-d", `{"action_id":"a1","status":"done","delivery":1}`).Output()
	require.NoError(t, err)
	require.Contains(t, string(ack), `"settled"`)
	requireDone(t, d, "a1")
}

// await reads lines until one begins so.
func await(t *testing.T, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			return lines.Text()
		}
	}
	t.Fatalf("the stream ended before %q: %v", prefix, lines.Err())
	return ""
}

// An independent client library reads what we write.
func TestR3labsClientIsAnAgent(t *testing.T) {
	t.Parallel()
	d := serve(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := sse.NewClient(d.base+"/events?machine_id=m1", sse.ClientMaxBufferSize(4<<20))
	c.ReconnectStrategy = once{}
	events := make(chan *sse.Event, 16)
	ended := make(chan error, 1)
	go func() {
		ended <- c.SubscribeRawWithContext(ctx, func(e *sse.Event) {
			copied := *e
			events <- &copied
		})
	}()
	next := func(name string) *sse.Event {
		for {
			select {
			case e := <-events:
				if string(e.Event) == name {
					return e
				}
			case err := <-ended:
				t.Fatalf("the stream ended before %s: %v", name, err)
			case <-ctx.Done():
				t.Fatalf("no %s", name)
			}
		}
	}
	next("hello")
	pushAwkward(t, d)
	e := next("action")
	require.NotEmpty(t, e.ID)
	var envelope struct {
		Delivery int             `json:"delivery"`
		Payload  json.RawMessage `json:"payload"`
	}
	require.NoError(t, json.Unmarshal(e.Data, &envelope))
	require.Equal(t, awkward, string(envelope.Payload))
	_, err := d.client().Ack(ctx, api.Ack{ActionID: "a1", Status: "done", Delivery: envelope.Delivery})
	require.NoError(t, err)
	requireDone(t, d, "a1")
}

// once is a reconnect strategy that does not: one stream, read once.
type once struct{}

func (once) NextBackOff() time.Duration { return -1 }
func (once) Reset()                     {}

// startAgent subscribes in a page of the server's own and resolves when it is
// online; its answer to the first action is kept in window.answer.
const startAgent = `new Promise(online => {
	const source = new EventSource('/events?machine_id=m1&instance_id=page');
	source.addEventListener('hello', () => online(true));
	window.answer = new Promise((resolve, reject) => {
		source.addEventListener('action', async e => {
			const action = JSON.parse(e.data);
			const answer = await fetch('/acks', {
				method: 'POST', headers: {'Content-Type': 'application/json'},
				body: JSON.stringify({action_id: action.action_id, status: 'done', delivery: action.delivery}),
			});
			source.close();
			resolve([String(answer.status), e.lastEventId, action.payload.text]);
		});
		source.onerror = () => { if (source.readyState === EventSource.CLOSED) reject(new Error('closed')); };
	});
})`

// A browser's own EventSource is an agent.
func TestABrowserIsAnAgent(t *testing.T) {
	t.Parallel()
	browser := findBrowser(t)
	d := serve(t, t.TempDir())
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	ctx, stop := chromedp.NewExecAllocator(ctx, opts...)
	defer stop()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	// The dashboard is the one page here whose policy lets a script connect.
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate(d.base+"/")))
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](startAgent, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	pushAwkward(t, d)
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[]string]("window.answer", chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, "200", got[0])
	require.NotEmpty(t, got[1], "lastEventId")
	require.Equal(t, "a\nb\r\n\ndata: x\u2028é", got[2])
	requireDone(t, d, "a1")
}

func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no browser is to be had here; `make test` installs one where it may")
	return ""
}
