package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"pushd/server/api"
)

// maxFaults bounds how many fields one problem names.
const maxFaults = 20

// faults gathers what is wrong with a request, field by field, so that a sender
// learns of all of it at once.
type faults struct {
	fields []api.FieldError
	more   int
	small  bool // something besides a size is wrong
}

// add notes that field is at fault.
func (f *faults) add(field, format string, args ...any) {
	f.small = true
	f.note(field, fmt.Sprintf(format, args...))
}

// large notes that field is too large, which alone is a 413.
func (f *faults) large(field, format string, args ...any) {
	f.note(field, fmt.Sprintf(format, args...))
}

func (f *faults) note(field, message string) {
	if len(f.fields) == maxFaults {
		f.more++
		return
	}
	f.fields = append(f.fields, api.FieldError{Field: field, Message: message})
}

// err is the refusal that all the faults together make, or nil.
func (f *faults) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	k := tooLarge
	if f.small {
		k = malformed
	}
	first := f.fields[0]
	r := refuse(k, "%s %s", first.Field, first.Message)
	if rest := len(f.fields) - 1 + f.more; rest > 0 {
		r.detail += fmt.Sprintf("; and %d more", rest)
	}
	r.fields = f.fields
	return r
}

// checkJSON refuses what is not one JSON value in well-formed UTF-8.
func checkJSON(body []byte) error {
	if !utf8.Valid(body) {
		return refuse(malformed, "the body is not well-formed UTF-8 (byte %d)", invalidAt(body))
	}
	var value json.RawMessage
	err := json.Unmarshal(body, &value)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case len(bytes.TrimSpace(body)) == 0:
		return refuse(malformed, "the body is empty; JSON is wanted")
	case errors.As(err, &syntax):
		return refuse(malformed, "the body is not JSON: %v (byte %d)", syntax, syntax.Offset)
	}
	return refuse(malformed, "the body is not JSON")
}

func invalidAt(b []byte) int {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(b)
}

// member is one name and value of an object; the value is the text as it stood.
type member struct {
	name  string
	value []byte
}

// members splits an object. Its text must have passed checkJSON.
func members(object []byte) []member {
	var all []member
	i := skipSpace(object, skipSpace(object, 0)+1)
	for object[i] != '}' {
		end := skipValue(object, i)
		name := unquote(object[i:end])
		i = skipSpace(object, skipSpace(object, end)+1) // over the colon
		end = skipValue(object, i)
		all = append(all, member{name, object[i:end]})
		if i = skipSpace(object, end); object[i] == ',' {
			i = skipSpace(object, i+1)
		}
	}
	return all
}

// elements splits an array. Its text must have passed checkJSON.
func elements(array []byte) [][]byte {
	var all [][]byte
	i := skipSpace(array, skipSpace(array, 0)+1)
	for array[i] != ']' {
		end := skipValue(array, i)
		all = append(all, array[i:end])
		if i = skipSpace(array, end); array[i] == ',' {
			i = skipSpace(array, i+1)
		}
	}
	return all
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the index after the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
		default:
			i = skipLiteral(b, i)
		}
		if depth == 0 {
			return i
		}
	}
}

func skipLiteral(b []byte, i int) int {
	for i < len(b) && bytes.IndexByte([]byte(" \t\n\r,:]}"), b[i]) < 0 {
		i++
	}
	return i
}

// unquote reads a JSON string that is known to be valid.
func unquote(text []byte) string {
	if bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1])
	}
	var s string
	_ = json.Unmarshal(text, &s) // checkJSON has passed it
	return s
}

// compact drops the white space between tokens and keeps all else: digits,
// escapes, the order of keys, keys that come twice.
func compact(value []byte) []byte {
	var buf bytes.Buffer
	buf.Grow(len(value))
	_ = json.Compact(&buf, value) // checkJSON has passed it
	return buf.Bytes()
}

// jsonKind names the kind of a value for a message.
func jsonKind(value []byte) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}
