package work

import (
	"bytes"
	"context"
	"mime"
	"net/http"

	"pushd/agentexec/output"
	"pushd/agentexec/task"
	"pushd/policy"
)

// Endpoint asks an OpenAI-compatible endpoint for each action: the payload is the
// prompt.
type Endpoint struct {
	Client  *http.Client
	Name    string // of the adapter
	Adapter Adapter
	URL     string // …/v1/chat/completions
	Model   string
	Key     func() (string, error) // none: nil
	Windows Windows
	Connect string
	Runner  *Runner
}

// Run asks once.
func (h *Endpoint) Run(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict {
	prompt, err := ParsePrompt(job.Payload)
	if err != nil {
		return task.Failed(policy.Permanent, "payload", err.Error())
	}
	header, err := h.header()
	if err != nil {
		return task.Failed(policy.Config, "auth", err.Error())
	}
	model := h.Model
	if prompt.Model != "" {
		model = prompt.Model
	}
	begun := h.Runner.Now()
	read := newReading(h.Adapter, pulse)
	e := exchange{
		client: h.Client, url: h.URL, header: header, windows: h.Windows.WithDefaults(), now: h.Runner.Now,
		body: encode(map[string]any{
			"model": model, "stream": true, "messages": []map[string]string{{"role": "user", "content": prompt.Prompt}},
		}),
	}
	var raw bytes.Buffer
	capture := output.NewCapture(output.Options{Secrets: h.Runner.Secrets(), Line: read.line, Wanted: read.wanted})
	a := e.do(ctx, pulse, signs{open: never, succeeded: read.succeeded, probe: func(bool) bool { return false }},
		func(chunk []byte) {
			_, _ = capture.Stdout.Write(chunk)
			if room := maxAnswer - raw.Len(); room > 0 {
				raw.Write(chunk[:min(room, len(chunk))])
			}
		})
	capture.Close()
	if kind, _, _ := mime.ParseMediaType(a.headers["Content-Type"]); a.status != 0 && (a.status >= 300 || kind != "text/event-stream") && a.err == nil {
		read.answer(a.status, a.headers, raw.Bytes())
	}
	t, session, text, cut := read.summary()
	tail, _ := output.Text(capture.Tail())
	result := Result{
		Text: text, TextCut: cut, SessionID: session, Adapter: h.Name, OutputTail: tail, OutputSize: a.size,
		TookS: h.Runner.Now().Sub(begun).Seconds(), Run: job.RunID,
	}.fit()
	if t.Seen && t.OK {
		return task.Verdict{Outcome: policy.Outcome{Status: policy.Done}, Result: result}
	}
	return a.failed(t, job, h.Runner.Now(), result)
}

func (h *Endpoint) header() (map[string]string, error) {
	header := map[string]string{"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
	if h.Key == nil {
		return header, nil
	}
	key, err := h.Key()
	if err == nil && key != "" {
		header["Authorization"] = "Bearer " + key
	}
	return header, err
}

// Ready tries the connection where the profile says so.
func (h *Endpoint) Ready(ctx context.Context) error {
	return Preflight{Connect: h.Connect}.connect(ctx)
}
