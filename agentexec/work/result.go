package work

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"pushd/agentexec/output"
	"pushd/agentexec/task"
	"pushd/policy"
)

// Result is what a run reports of itself. A program that prints one JSON value
// and ends well reports that instead.
type Result struct {
	Text       string  `json:"text,omitempty"`
	TextCut    bool    `json:"text_cut,omitempty"`
	SessionID  string  `json:"session_id,omitempty"` // the CLI's own, to resume with
	Adapter    string  `json:"adapter,omitempty"`
	Exit       *int    `json:"exit,omitempty"`
	OutputTail string  `json:"output_tail,omitempty"`
	OutputSize int64   `json:"output_bytes"`
	Encoding   string  `json:"output_encoding,omitempty"` // where it was no UTF-8 and had to be guessed
	Swept      int     `json:"swept,omitempty"`           // processes it left behind
	Left       int     `json:"left,omitempty"`            // that would not die
	LogError   string  `json:"log_error,omitempty"`
	TookS      float64 `json:"took_s"`
	Run        string  `json:"run"`
}

// maxResult is the bound of an ack's result, less what surrounds it.
const maxResult = 1<<20 - 8<<10

// messageTail is how much of a program's last words goes into an error.
const messageTail = 2 << 10

// verdict makes a verdict of what is left of a run.
func (e ended) verdict(job task.Job, adapter string, own json.RawMessage) task.Verdict {
	stderr, errBytes := e.capture.Stderr.Tail()
	stdout, outBytes := e.capture.Stdout.Tail()
	errText, errOdd := output.Text(stderr)
	outText, outOdd := output.Text(stdout)
	v := task.Verdict{Outcome: policy.Classify(policy.Run{
		Terminal: e.terminal, NotStarted: e.exit.NotStarted, Exit: e.exit.Code, Stopped: e.stopped,
		Stderr: errText, Stdout: outText, Ended: e.at, Transients: job.TransientAttempts,
	})}
	tail, _ := output.Text(e.capture.Tail())
	result := Result{
		Text: e.text, TextCut: e.textCut, SessionID: e.session, Adapter: adapter,
		OutputTail: tail, OutputSize: errBytes + outBytes, Swept: e.exit.Swept, Left: e.exit.Left,
		TookS: e.took.Seconds(), Run: job.RunID,
	}
	if e.exit.NotStarted == "" {
		result.Exit = &e.exit.Code
	}
	if errOdd || outOdd {
		result.Encoding = "windows-1252?"
	}
	if err := e.capture.Stdout.LogError(); err != nil {
		result.LogError = err.Error()
	}
	if v.Status == policy.Failed {
		v.Message = e.message(errText, outText)
	}
	if v.Status == policy.Done && own != nil {
		v.Result = own
		return v
	}
	v.Result = result.fit()
	return v
}

// fit encodes a result within its bound: escapes can double what they stand for.
func (r Result) fit() json.RawMessage {
	for {
		raw := encode(r)
		switch {
		case len(raw) <= maxResult:
			return raw
		case len(r.Text) >= len(r.OutputTail):
			r.Text, r.TextCut = strings.ToValidUTF8(r.Text[:len(r.Text)/2], ""), true
		default:
			r.OutputTail = strings.ToValidUTF8(r.OutputTail[len(r.OutputTail)/2:], "")
		}
	}
}

// message says why a run failed: what we did, what it said itself, its last words.
func (e ended) message(stderr, stdout string) string {
	switch {
	case e.exit.NotStarted != "":
		return e.exit.Message
	case e.terminal.Seen && !e.terminal.OK && e.terminal.Message != "":
		return e.terminal.Message
	case e.window != "":
		return e.window
	}
	words := strings.TrimSpace(stderr)
	if words == "" {
		words = strings.TrimSpace(stdout)
	}
	return strings.ToValidUTF8(words[max(0, len(words)-messageTail):], "")
}

// ownJSON is the program's own result: the one JSON value that it printed.
func (e ended) ownJSON() json.RawMessage {
	head, whole := e.capture.Stdout.Head()
	head = bytes.TrimSpace(head)
	if !whole || len(head) == 0 || !json.Valid(head) || !utf8.Valid(head) { // Valid lets ill-formed text pass
		return nil
	}
	return json.RawMessage(head)
}

// ownText is what a program printed, as text.
func (e ended) ownText() (text string, cut bool) {
	head, whole := e.capture.Stdout.Head()
	text, _ = output.Text(head[:min(len(head), maxText)])
	return text, !whole || len(head) > maxText
}

func encode(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil // none of ours can fail
	}
	return bytes.TrimSpace(buf.Bytes())
}
