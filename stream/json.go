package stream

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// Frames are rendered by hand: reflection costs more than all the rest of a
// dispatch, and the payload would be parsed again.

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Ill-formed UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\ufffd"...)
				start = i + size
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// appendField appends ,"name":"value", unless value is empty.
func appendField(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendString(appendName(dst, name), value)
}

func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, `,"`...), name...), `":`...)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

// appendSeconds appends a duration as the protocol has it: seconds, with a
// fraction where there is one.
func appendSeconds(dst []byte, name string, d time.Duration) []byte {
	return strconv.AppendFloat(appendName(dst, name), math.Max(d.Seconds(), 0), 'f', -1, 64)
}

func appendTime(dst []byte, name string, t time.Time) []byte {
	dst = append(appendName(dst, name), '"')
	return append(appendInstant(dst, t), '"')
}

// appendInstant appends RFC 3339, UTC, milliseconds.
func appendInstant(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}
