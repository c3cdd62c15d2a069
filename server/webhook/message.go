package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Bounds of a body: what is deeper or wider is no webhook.
const (
	maxDepth  = 128
	maxFields = 64 // of a form
)

// ErrMedia is a body that is neither JSON nor a form, or is packed.
var ErrMedia = errors.New("webhook: the body must be JSON or a form, in UTF-8 and not compressed")

// BadBodyError says why a body cannot be read.
type BadBodyError struct{ Why string }

func (e *BadBodyError) Error() string { return "webhook: the body " + e.Why }

// Message is a delivery that was read.
type Message struct {
	Header Headers
	JSON   []byte // its JSON text: the body, or what a form carries
	data   map[string]any
	raw    map[string][]byte // by root: the text behind data
}

// Headers are a delivery's, without those that hold secrets.
type Headers map[string]string

// Get is a header's value whatever the case of its name; empty if it is not there.
func (h Headers) Get(name string) string { return h[http.CanonicalHeaderKey(name)] }

// Bounds of what is kept of headers.
const (
	maxHeaders     = 64
	maxHeaderValue = 1024
)

// ownWords are parts of the names of headers that hold secrets.
var ownWords = []string{"authorization", "cookie", "token", "secret", "signature", "password", "api-key", "apikey"}

// keepable are the headers that may be shown, kept and matched.
func (r *Route) keepable(h http.Header) Headers {
	kept := Headers{}
	for name, values := range h {
		if len(kept) == maxHeaders || len(values) == 0 || r.holdsSecret(name) {
			continue
		}
		value := values[0]
		if len(value) > maxHeaderValue {
			value = value[:maxHeaderValue]
		}
		kept[name] = strings.ToValidUTF8(value, "\uFFFD")
	}
	return kept
}

func (r *Route) holdsSecret(name string) bool {
	lower := strings.ToLower(name)
	for _, word := range ownWords {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return strings.EqualFold(name, r.token.Header) || strings.EqualFold(name, r.hmac.Header)
}

// form tells whether a body is one, and refuses what is neither that nor JSON.
func isForm(h http.Header) (bool, error) {
	if packed := h.Get("Content-Encoding"); packed != "" && !strings.EqualFold(packed, "identity") {
		return false, ErrMedia
	}
	header := h.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(header)
	if err != nil {
		return false, ErrMedia
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
	default:
		return false, ErrMedia
	}
	switch {
	case kind == "application/json", strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"):
		return false, nil
	case kind == "application/x-www-form-urlencoded":
		return true, nil
	}
	return false, ErrMedia
}

// jsonOf is the JSON text of a body: itself, a form's field payload, or the
// fields of a form as an object.
func jsonOf(body []byte, form bool) ([]byte, error) {
	if !form {
		return body, nil
	}
	if bytes.Count(body, []byte("&")) >= maxFields {
		return nil, &BadBodyError{fmt.Sprintf("is a form of more than %d fields", maxFields)}
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, &BadBodyError{"is no form"}
	}
	if payload, ok := values["payload"]; ok {
		if len(payload) != 1 {
			return nil, &BadBodyError{"is a form with the field payload more than once"}
		}
		return []byte(payload[0]), nil
	}
	fields := map[string]string{}
	for name, all := range values {
		fields[name] = all[0]
	}
	return json.Marshal(fields)
}

// read makes a message of JSON text.
func (r *Route) read(h Headers, text []byte) (*Message, error) {
	value, err := decode(text)
	if err != nil {
		return nil, err
	}
	m := &Message{Header: h, JSON: text}
	m.data = map[string]any{"header": h, "body": value, "route": r.words()}
	m.raw = map[string][]byte{"body": text}
	return m, nil
}

// null is JSON's: it prints as nothing and is false in a template.
type null string

// decode reads one JSON value: numbers keep their digits, an object's name stands
// once, and nothing is deeper than maxDepth.
func decode(text []byte) (any, error) {
	if !utf8.Valid(text) {
		return nil, &BadBodyError{"is not well-formed UTF-8"}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := decodeValue(d, 0)
	if err != nil {
		var bad *BadBodyError
		if errors.As(err, &bad) {
			return nil, err
		}
		return nil, &BadBodyError{"is not JSON"}
	}
	if _, err := d.Token(); err != io.EOF { //nolint:errorlint // the decoder returns it bare
		return nil, &BadBodyError{"has something behind its JSON"}
	}
	return value, nil
}

func decodeValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, &BadBodyError{fmt.Sprintf("is deeper than %d", maxDepth)}
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(d, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			item, err := decodeValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, item)
		}
		_, err := d.Token()
		return list, err
	case nil:
		return null(""), nil
	}
	return token, nil
}

func decodeObject(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := name.(string) // the decoder gives nothing else here
		if _, twice := object[key]; twice {
			return nil, &BadBodyError{"has a name twice in one object"}
		}
		if object[key], err = decodeValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}
