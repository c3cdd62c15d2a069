package work

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"

	"pushd/agentexec/output"
	"pushd/agentexec/task"
	"pushd/policy"
)

// maxText bounds the final text that goes into a result.
const maxText = 512 << 10

// reading is what the lines of a run have told so far.
type reading struct {
	adapter Adapter
	pulse   *task.Pulse

	mu       sync.Mutex
	terminal policy.Terminal
	session  string
	text     strings.Builder
	textCut  bool
	tools    map[string]struct{}
}

func newReading(a Adapter, pulse *task.Pulse) *reading {
	r := &reading{adapter: a, pulse: pulse, tools: make(map[string]struct{})}
	r.terminal.Format = formats[a.Format]
	return r
}

// line takes one line of standard output, or one of an HTTP stream.
func (r *reading) line(line []byte, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terminal.Format == policy.Plain {
		return
	}
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
	if cut {
		// The rest of it was not kept; that it came says that the program got on.
		line = stub(line)
	}
	r.terminal.Line(line)
	if r.terminal.Format == policy.HTTP {
		frame, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			return
		}
		line = bytes.TrimSpace(frame)
	}
	r.event(line)
}

// answer takes an HTTP answer that is no stream.
func (r *reading) answer(status int, headers map[string]string, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.terminal.Answer(status, headers, body)
	if status >= 200 && status < 300 {
		r.event(bytes.TrimSpace(body))
	}
}

func (r *reading) event(line []byte) {
	var event map[string]any
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &event) != nil {
		return
	}
	for _, rule := range r.adapter.Session {
		for _, id := range rule.from(event) {
			r.session = id[:min(len(id), 256)]
		}
	}
	for _, rule := range r.adapter.Text {
		for _, text := range rule.from(event) {
			r.take(text)
		}
	}
	for _, rule := range r.adapter.Note {
		for _, text := range rule.from(event) {
			r.pulse.Note(lastLine(text))
		}
	}
	for _, rule := range r.adapter.Open {
		for _, id := range rule.from(event) {
			if len(r.tools) < maxTools {
				r.tools[id] = struct{}{}
			}
		}
	}
	for _, rule := range r.adapter.Close {
		for _, id := range rule.from(event) {
			delete(r.tools, id)
		}
	}
}

// maxTools bounds what is remembered of a program that only ever opens.
const maxTools = 10_000

func (r *reading) take(text string) {
	if !r.adapter.Join {
		r.text.Reset()
		r.textCut = false
	}
	if room := maxText - r.text.Len(); len(text) > room {
		text, r.textCut = strings.ToValidUTF8(text[:room], ""), true
	}
	r.text.WriteString(text)
}

// toolOpen tells whether a tool is open now.
func (r *reading) toolOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.tools) > 0
}

// succeeded tells whether the program has reported success.
func (r *reading) succeeded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terminal.Seen && r.terminal.OK
}

// summary is all of it.
func (r *reading) summary() (t policy.Terminal, session, text string, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terminal, r.session, r.text.String(), r.textCut
}

// wanted tells from the beginning of a long line whether all of it is: a result
// is, what a tool printed is not.
func (r *reading) wanted(head []byte) bool {
	if r.terminal.Format == policy.Plain {
		return false
	}
	switch typeOf(head) {
	case "", "result", "turn.completed", "turn.failed", "error", "step_finish", "text":
		return true
	}
	return false
}

// typeOf finds the type of an event in its beginning.
func typeOf(head []byte) string {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimSpace(head)))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return ""
	}
	for depth, key := 0, true; ; {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
			} else {
				depth--
			}
			key = depth == 0
			continue
		case string:
			if depth == 0 && key && t == "type" {
				value, err := dec.Token()
				text, _ := value.(string)
				if err != nil {
					return ""
				}
				return text
			}
		}
		if depth == 0 {
			key = !key
		}
	}
}

// stub is an event with nothing but the type of a line that was cut.
func stub(head []byte) []byte {
	kind := typeOf(head)
	if kind == "" || kind == "result" || strings.HasPrefix(kind, "turn.") {
		return nil // half an end is none
	}
	out, err := json.Marshal(map[string]string{"type": kind})
	if err != nil {
		return nil
	}
	return out
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	shown, _ := output.Text([]byte(text[:min(len(text), 4<<10)]))
	return shown
}
