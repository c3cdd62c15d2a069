package webhook

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// path is where a value stands: header.X-Event, body.issue.labels.0.name. A name
// that holds dots itself wins over the way through objects.
type path []string

// maxPath bounds the steps of a path.
const maxPath = 32

func parsePath(text string) (path, bool) {
	parts := path(strings.Split(text, "."))
	if len(parts) < 2 && text != "body" && text != "action" || len(parts) > maxPath {
		return nil, false
	}
	switch parts[0] {
	case "header", "body", "route", "delivery", "action":
	default:
		return nil, false
	}
	if slices.Contains(parts, "") {
		return nil, false
	}
	return parts, true
}

// Lookup finds the value at a path, as it was decoded.
func (m *Message) Lookup(text string) (any, bool) {
	p, ok := parsePath(text)
	if !ok {
		return nil, false
	}
	return m.find(p)
}

func (m *Message) find(p path) (any, bool) {
	root, ok := m.data[p[0]]
	if !ok {
		return nil, false
	}
	if h, is := root.(Headers); is {
		value, ok := h[http.CanonicalHeaderKey(strings.Join(p[1:], "."))]
		return value, ok
	}
	return step(root, p[1:])
}

// step goes down. Each object is asked for the longest name first; since a value
// stands in one object, nothing is looked at twice.
func step(value any, p path) (any, bool) {
	if len(p) == 0 {
		return value, true
	}
	switch v := value.(type) {
	case map[string]any:
		for n := len(p); n > 0; n-- {
			if inner, ok := v[strings.Join(p[:n], ".")]; ok {
				if found, ok := step(inner, p[n:]); ok {
					return found, true
				}
			}
		}
	case map[string]string:
		found, ok := v[strings.Join(p, ".")]
		return found, ok
	case []any:
		if i, err := strconv.Atoi(p[0]); err == nil && i >= 0 && i < len(v) {
			return step(v[i], p[1:])
		}
	}
	return nil, false
}

// text is a scalar as its JSON spells it, a string without its quotes.
func text(value any, found bool) string {
	if !found {
		return ""
	}
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// verbatim finds the JSON text at a path, as it came: digits, escapes and the
// order of names are kept.
func (m *Message) verbatim(p path) (json.RawMessage, bool) {
	raw, ok := m.raw[p[0]]
	if !ok {
		value, ok := m.find(p)
		if !ok {
			return nil, false
		}
		out, err := marshal(plain(value))
		return out, err == nil
	}
	return rawStep(raw, p[1:])
}

func rawStep(raw json.RawMessage, p path) (json.RawMessage, bool) {
	if len(p) == 0 {
		return raw, len(raw) > 0
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		for n := len(p); n > 0; n-- {
			if inner, ok := object[strings.Join(p[:n], ".")]; ok {
				if found, ok := rawStep(inner, p[n:]); ok {
					return found, true
				}
			}
		}
		return nil, false
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	if i, err := strconv.Atoi(p[0]); err == nil && i >= 0 && i < len(list) {
		return rawStep(list[i], p[1:])
	}
	return nil, false
}

// plain puts JSON's own null back.
func plain(value any) any {
	switch v := value.(type) {
	case null:
		return nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = plain(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = plain(inner)
		}
		return out
	}
	return value
}
