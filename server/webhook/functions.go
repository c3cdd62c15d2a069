package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"unicode/utf8"
)

// functions are what a leaf may call: text in, text out, no file, no variable, no clock.
var functions = template.FuncMap{
	"trunc":    trunc,
	"lower":    func(v any) string { return strings.ToLower(show(v)) },
	"upper":    func(v any) string { return strings.ToUpper(show(v)) },
	"trim":     func(v any) string { return strings.TrimSpace(show(v)) },
	"replace":  replace,
	"default":  fallback,
	"id":       func(v any) string { return idOf(show(v)) },
	"json":     asJSON,
	"join":     join,
	"contains": func(part string, v any) bool { return strings.Contains(show(v), part) },
	"prefix":   func(part string, v any) bool { return strings.HasPrefix(show(v), part) },
	"base":     func(v any) string { s := show(v); return s[strings.LastIndexByte(s, '/')+1:] },
	"has":      has,
}

// show is a value as a template prints it.
func show(v any) string {
	if isScalar(v) {
		return text(v, true)
	}
	switch v := v.(type) {
	case nil, null:
		return ""
	case map[string]any, []any:
		s, _ := asJSON(v)
		return s
	}
	return fmt.Sprint(v)
}

// trunc cuts a text after n characters.
func trunc(n int, v any) string {
	s := show(v)
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}

func replace(old, with string, v any) (string, error) {
	s := show(v)
	if old == "" || strings.Count(s, old)*(len(with)-len(old)) > maxLeaf {
		return "", errors.New("replace: too much of it")
	}
	return strings.ReplaceAll(s, old, with), nil
}

func fallback(other, v any) any {
	if s := show(v); s == "" {
		return other
	}
	return v
}

func asJSON(v any) (string, error) {
	raw, err := marshal(plain(v))
	return string(raw), err
}

// join puts the items of a list together; with a name, that field of each.
func join(separator string, v any, names ...string) (string, error) {
	items, ok := v.([]any)
	if !ok || len(names) > 1 {
		return "", errors.New("join: wants a separator and a list, and perhaps a field's name")
	}
	parts := make([]string, len(items))
	size := 0
	for i, item := range items {
		if len(names) == 1 {
			item, _ = step(item, path(strings.Split(names[0], ".")))
		}
		parts[i] = show(item)
		if size += len(parts[i]) + len(separator); size > maxLeaf {
			return "", errLong
		}
	}
	return strings.Join(parts, separator), nil
}

// has tells whether a dotted path leads somewhere in a value.
func has(where string, v any) bool {
	_, ok := step(v, path(strings.Split(where, ".")))
	return ok
}

// maxID is the length of an id of protocol section 1.
const maxID = 128

// idOf makes an id of any text: what an id may not hold becomes a dash. One that
// was cut ends in a hash, so that two long texts stay apart.
func idOf(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf && (isAlnum(byte(r)) || b.Len() > 0 && strings.ContainsRune("._:@-", r)):
			b.WriteRune(r)
		case b.Len() > 0:
			b.WriteByte('-')
		}
		if b.Len() > 4*maxID {
			break
		}
	}
	out := b.String()
	if len(out) <= maxID {
		return out
	}
	sum := sha256.Sum256([]byte(s))
	return out[:maxID-17] + "-" + hex.EncodeToString(sum[:8])
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
