package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"pushd/agentexec/output"
	"pushd/agentexec/task"
	"pushd/policy"
)

// maxAnswer bounds what is kept of an endpoint's answer; the rest is read and
// dropped, for it may be a sign of life.
const maxAnswer = maxResult

// Call posts each action's payload to a local endpoint, as a desktop robot offers
// one. 2xx is done, and its body the result; what else it answers is judged by its
// status.
type Call struct {
	Client  *http.Client
	URL     string
	Header  map[string]string
	Windows Windows
	Connect string // HOST:PORT of the preflight; empty: none
	Runner  *Runner
}

// errCut is the cause of a request that a window ended.
var errCut = errors.New("work: cut")

// Run makes the call once.
func (c *Call) Run(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict {
	payload := job.Payload
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	header := map[string]string{
		"Content-Type": "application/json", "Idempotency-Key": job.ActionID,
		"Pushd-Action": job.ActionID, "Pushd-Delivery": strconv.Itoa(job.Delivery), "Pushd-Type": job.Type,
	}
	maps.Copy(header, c.Header)
	e := exchange{client: c.Client, url: c.URL, header: header, body: payload, windows: c.Windows.WithDefaults(), now: c.Runner.Now}
	var kept bytes.Buffer
	a := e.do(ctx, pulse, signs{open: never, succeeded: never, probe: func(bool) bool { return false }},
		func(chunk []byte) {
			if room := maxAnswer - kept.Len(); room > 0 {
				kept.Write(chunk[:min(room, len(chunk))])
			}
		})
	if a.err == nil && a.stopped == policy.NotStopped && a.status >= 200 && a.status < 300 {
		return task.Verdict{Outcome: policy.Outcome{Status: policy.Done}, Result: bodyResult(a, kept.Bytes())}
	}
	t := policy.Terminal{Format: policy.HTTP}
	if a.status != 0 && a.err == nil {
		t.Answer(a.status, a.headers, kept.Bytes())
	}
	return a.failed(t, job, c.Runner.Now(), encode(map[string]any{"status": a.status, "body": shown(kept.Bytes())}))
}

func never() bool { return false }

// Ready tries the connection where the profile says so.
func (c *Call) Ready(ctx context.Context) error {
	return Preflight{Connect: c.Connect}.connect(ctx)
}

// bodyResult is the body as JSON, if it is any, else as text.
func bodyResult(a answer, body []byte) json.RawMessage {
	trimmed := bytes.TrimSpace(body)
	if a.size > int64(len(body)) {
		return encode(map[string]any{"text": shown(body), "text_cut": true})
	}
	kind, _, _ := mime.ParseMediaType(a.headers["Content-Type"]) // what is none is no JSON either
	if json.Valid(trimmed) && utf8.Valid(trimmed) && (strings.HasSuffix(kind, "json") || kind == "" || kind == "text/plain") {
		return trimmed
	}
	if len(trimmed) == 0 {
		return nil
	}
	return encode(map[string]any{"text": shown(body)})
}

func shown(body []byte) string {
	text, _ := output.Text(body[:min(len(body), maxText)])
	return text
}

// exchange is one request under windows.
type exchange struct {
	client  *http.Client
	url     string
	header  map[string]string
	body    []byte
	windows Windows
	now     func() time.Time
}

// answer is what came of an exchange.
type answer struct {
	status  int
	headers map[string]string
	size    int64
	err     error // of the network; nil if the answer was read whole
	stopped policy.Stop
	window  string
}

// do makes the request and gives its body away in chunks, each a sign of life.
func (e exchange) do(ctx context.Context, pulse *task.Pulse, s signs, chunk func([]byte)) (a answer) {
	inner, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.stopped, a.window = attend(ctx, over, e.windows, pulse, s, e.now)
		if a.stopped != policy.NotStopped {
			cut(errCut)
		}
	}()
	status, headers, size, err := e.exchange(inner, pulse, chunk)
	close(over)
	<-watched
	a.status, a.headers, a.size, a.err = status, headers, size, err
	return a
}

func (e exchange) exchange(ctx context.Context, pulse *task.Pulse, chunk func([]byte)) (status int, headers map[string]string, size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(e.body))
	if err != nil {
		return 0, nil, 0, err
	}
	for name, value := range e.header {
		req.Header.Set(name, value)
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, nil, 0, err
	}
	defer resp.Body.Close()
	pulse.Bump(e.now())
	headers = make(map[string]string, len(resp.Header))
	for name := range resp.Header {
		headers[name] = resp.Header.Get(name)
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			pulse.Bump(e.now())
			size += int64(n)
			chunk(buf[:n])
		}
		if err == io.EOF {
			return resp.StatusCode, headers, size, nil
		}
		if err != nil {
			return resp.StatusCode, headers, size, err
		}
	}
}

// failed judges an exchange that did not go well.
func (a answer) failed(t policy.Terminal, job task.Job, now time.Time, result json.RawMessage) task.Verdict {
	v := task.Verdict{Result: result, Outcome: policy.Classify(policy.Run{
		Terminal: t, Stopped: a.stopped, Ended: now, Transients: job.TransientAttempts,
	})}
	switch {
	case a.window != "" && !t.Seen:
		v.Message = a.window
	case a.err != nil:
		v.Message = a.err.Error()
	case t.Message != "":
		v.Message = fmt.Sprintf("status %d: %s", a.status, t.Message)
	default:
		v.Message = fmt.Sprintf("status %d", a.status)
	}
	return v
}
