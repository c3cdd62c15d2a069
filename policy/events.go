package policy

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Format is how a program reports its own end.
type Format uint8

// The formats, each with the event that decides. Shapes as measured from
// claude 2.1.197, codex 0.171.0 and opencode 1.18.33.
const (
	Plain    Format = iota // no events: the exit code decides, then the text
	Claude                 // stream-json: the last "result"
	Codex                  // exec --json: "turn.completed" or "turn.failed"
	Opencode               // run --format json: "error", else "step_finish" with reason stop
	HTTP                   // an OpenAI-compatible answer: its status, then its frames
)

// maxMessage bounds what is kept of a terminal event's text, in bytes; it is
// the bound of error.message (protocol section 9).
const maxMessage = 8 << 10

// Terminal is what a program's own events say of its end. Give Line every line
// of its standard output, in order; a caller with a reader of its own may fill
// the fields instead.
type Terminal struct {
	Format    Format
	Seen      bool              // a terminal event has come
	OK        bool              // it says success
	Status    int               // HTTP status of the failure; 0 is unknown
	Codes     []string          // names the failure goes by, the most telling first
	Message   string            // its text
	Headers   map[string]string // of the answer that refused
	Body      string            // of that answer, where it is JSON: it may say when to come back
	Retryable bool              // the program thinks another try may do
	Hint      Hint
}

// Hint is what events that do not decide have told. It is consulted only where
// a terminal event says failure, and dropped when the program gets on.
type Hint struct {
	Status   int           // of the last request that the program tried again
	Code     string        // name of that failure
	Delay    time.Duration // its own wait before that
	Limited  bool          // a usage limit refuses
	ResetsAt string        // when it ends, seconds since 1970; empty is unknown
}

// Line reads one line of output, in UTF-8 (a shell of Windows may have written
// UTF-16; that is the caller's to decode); what is no event is skipped.
func (t *Terminal) Line(line []byte) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
	if t.Format == HTTP {
		frame, ok := bytes.CutPrefix(line, []byte("data:"))
		if ok {
			t.frame(bytes.TrimSpace(frame))
		}
		return
	}
	if t.Format == Plain || !bytes.HasPrefix(line, []byte("{")) {
		return
	}
	switch t.Format {
	case Claude:
		t.claude(line)
	case Codex:
		t.codex(line)
	case Opencode:
		t.opencode(line)
	}
}

// end takes a terminal event.
func (t *Terminal) end(ok bool, message string, codes ...string) {
	t.Seen, t.OK = true, ok
	t.Message = cut(message)
	t.Codes = nil
	for _, code := range codes {
		if code != "" {
			t.Codes = append(t.Codes, code)
		}
	}
}

// cut keeps a message within its bound, and whole characters of it.
func cut(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "")
}

func (t *Terminal) claude(line []byte) {
	var e struct {
		Type           text   `json:"type"`
		Subtype        text   `json:"subtype"`
		IsError        flag   `json:"is_error"`
		Status         number `json:"api_error_status"`
		Result         text   `json:"result"`
		Error          text   `json:"error"`
		ErrorStatus    number `json:"error_status"`
		RetryDelayMS   number `json:"retry_delay_ms"`
		TerminalReason text   `json:"terminal_reason"`
		Limit          struct {
			Status   text   `json:"status"`
			ResetsAt number `json:"resetsAt"`
		} `json:"rate_limit_info"`
	}
	if !decode(line, &e) {
		return
	}
	switch {
	case e.Type == "system" && e.Subtype == "api_retry":
		t.Hint.Status, t.Hint.Code = int(e.ErrorStatus), string(e.Error)
		t.Hint.Delay = spanOf(strconv.FormatFloat(max(float64(e.RetryDelayMS), 0), 'f', -1, 64), time.Millisecond)
	case e.Type == "rate_limit_event":
		t.Hint.Limited, t.Hint.ResetsAt = e.Limit.Status == "rejected", ""
		if t.Hint.Limited && e.Limit.ResetsAt > 0 {
			t.Hint.ResetsAt = strconv.FormatInt(int64(e.Limit.ResetsAt), 10)
		}
	case e.Type == "assistant" && e.Error != "":
		t.Hint.Code = string(e.Error)
	case e.Type == "assistant" || e.Type == "user":
		t.Hint = Hint{} // it got on
	case e.Type == "result":
		// Failures of the service say subtype success with is_error.
		fine := e.Subtype == "" || e.Subtype == "success"
		t.Status = int(e.Status)
		t.end(fine && !bool(e.IsError), string(e.Result), codeOf(e.Subtype), t.Hint.Code, codeOf(e.TerminalReason))
	}
}

// codeOf is the code in a subtype or a reason of a result: error_max_turns is
// max_turns, and what tells of no failure is none.
func codeOf(name text) string {
	if name == "success" || name == "completed" {
		return ""
	}
	return strings.TrimPrefix(string(name), "error_")
}

func (t *Terminal) codex(line []byte) {
	var e struct {
		Type  text `json:"type"`
		Error struct {
			Message text `json:"message"`
			Code    text `json:"code"`
		} `json:"error"`
	}
	if !decode(line, &e) {
		return
	}
	switch e.Type {
	case "turn.started":
		t.Seen = false // an earlier turn's end says nothing of this one
	case "turn.completed":
		t.end(true, "")
	case "turn.failed":
		t.end(false, string(e.Error.Message), string(e.Error.Code))
		t.body([]byte(e.Error.Message)) // a 400 comes as the service's own JSON
	}
}

func (t *Terminal) opencode(line []byte) {
	var e struct {
		Type text `json:"type"`
		Part struct {
			Reason text `json:"reason"`
		} `json:"part"`
		Error struct {
			Name text `json:"name"`
			Data struct {
				Message   text            `json:"message"`
				Status    number          `json:"statusCode"`
				Retryable flag            `json:"isRetryable"`
				Headers   map[string]text `json:"responseHeaders"`
				Body      text            `json:"responseBody"`
			} `json:"data"`
		} `json:"error"`
	}
	if !decode(line, &e) {
		return
	}
	failed := t.Seen && !t.OK // an error is the last word
	switch {
	case e.Type == "error":
		data := e.Error.Data
		t.end(false, string(data.Message), string(e.Error.Name))
		t.Status, t.Retryable = int(data.Status), bool(data.Retryable)
		t.Headers = make(map[string]string, len(data.Headers))
		for name, value := range data.Headers {
			t.Headers[name] = string(value)
		}
		t.body([]byte(data.Body))
	case e.Type == "step_finish" && e.Part.Reason == "stop" && !failed:
		t.end(true, "")
	}
}

// Answer takes an HTTP answer: its status and headers, and its body where that
// is not a stream of frames, which go through Line.
func (t *Terminal) Answer(status int, headers map[string]string, body []byte) {
	t.Headers = headers
	if status >= 200 && status < 300 {
		t.frame(bytes.TrimSpace(body))
		return
	}
	t.end(false, string(body))
	t.Status = status
	t.body(body)
}

// frame takes one frame of an HTTP stream, or the whole of an answer.
func (t *Terminal) frame(frame []byte) {
	if string(frame) == "[DONE]" {
		if !t.Seen {
			t.end(true, "")
		}
		return
	}
	var e struct {
		Error   json.RawMessage `json:"error"`
		Choices []struct {
			Finish text `json:"finish_reason"`
		} `json:"choices"`
	}
	if !decode(frame, &e) {
		return
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		t.end(false, string(frame))
		t.body(frame)
		return
	}
	for _, choice := range e.Choices {
		if choice.Finish != "" && !(t.Seen && !t.OK) {
			t.end(true, "")
		}
	}
}

// body takes a service's own error: {"error":{"type","code","message"}}.
func (t *Terminal) body(body []byte) {
	var e struct {
		Error struct {
			Type    text `json:"type"`
			Code    text `json:"code"`
			Message text `json:"message"`
		} `json:"error"`
	}
	if !decode(bytes.TrimSpace(body), &e) {
		return
	}
	t.Body = cut(string(body))
	for _, code := range []text{e.Error.Code, e.Error.Type} {
		if status, err := strconv.Atoi(string(code)); err == nil && t.Status == 0 {
			t.Status = status
		} else if code != "" {
			t.Codes = append(t.Codes, string(code))
		}
	}
	if e.Error.Message != "" {
		t.Message = cut(string(e.Error.Message))
	}
}

// decode reads one JSON object. A program may change the type of a field any
// day, so text, number and flag take what they can use and leave the rest.
func decode(line []byte, into any) bool {
	if !bytes.HasPrefix(line, []byte("{")) {
		return false
	}
	err := json.Unmarshal(line, into)
	_, mistyped := err.(*json.UnmarshalTypeError)
	return err == nil || mistyped
}

// text is a string, or a number as it is written; anything else is empty.
type text string

// UnmarshalJSON never fails.
func (v *text) UnmarshalJSON(raw []byte) error {
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(raw, &s) == nil:
		*v = text(s)
	case json.Unmarshal(raw, &n) == nil:
		*v = text(n)
	}
	return nil
}

// number is a number, or one in a string; anything else is 0.
type number float64

// UnmarshalJSON never fails.
func (v *number) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err == nil && n > -1e15 && n < 1e15 {
		*v = number(n)
	}
	return nil
}

// flag is a boolean; anything else is false.
type flag bool

// UnmarshalJSON never fails.
func (v *flag) UnmarshalJSON(raw []byte) error {
	*v = string(raw) == "true"
	return nil
}
