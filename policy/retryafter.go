package policy

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MinRetryAfter is the least wait ParseRetryAfter answers: "Retry-After: 0"
// from a service that has just refused is not to be taken at its word.
const MinRetryAfter = time.Second

// Numbers without a unit. Up to epochFrom they are seconds from now (99999999,
// seen in the wild, is three years: clamped), above it they count from 1970.
const (
	epochFrom   = 1e9  // 2001-09-09 in seconds
	epochMillis = 1e11 // in seconds that would be the year 5138
	epochEnd    = 1e14 // in milliseconds that would be the year 5138: micro or nanoseconds, no known sender
)

// marker finds where a text says when to come back; its first group is the unit
// of a bare number where the name of the field gives one.
var marker = regexp.MustCompile(`(?i)(?:` +
	`\bretry[-_ ]?(?:after|delay)(?:[-_ ]?(ms|s|secs?|seconds?))?(?:["']?\s*[:=]\s*|\s+)` + // Retry-After: 7, "retry_after_ms":1500, retry after 30 seconds
	`|\bretry_?at["']?\s*[:=]\s*` +
	`|\b(?:try again|retry(?:ing)?|resets?)\s+(?:in|at|on|after)\s+` +
	`|\bresets?\s+` + // resets 10:30am (America/Sao_Paulo)
	`|\bresets?_?(?:at|in|after)["']?\s*[:=]\s*` + // "resetsAt":1774447200
	`|ratelimit-(?:[a-z-]+-)?reset(?:-[a-z-]+)?:\s*` + // x-ratelimit-reset-requests: 1m30s
	`|\bregain access on\s+` +
	`|\blimit reached\|` + // usage limit reached|1753077600
	`)["']?`)

// ParseRetryAfter reads how long from now a text asks to wait: the value of a
// header or a field alone ("20", "1m30s", an HTTP date, RFC 3339, seconds or
// milliseconds since 1970, a clock time), a header line or JSON member with its
// name, or a sentence that holds one ("Please try again in 11.054s."). The wait
// is clamped to MinRetryAfter and MaxQuotaRetryAfter; Decide clamps further by
// kind.
//
// A clock time without a date is the next such time, in the zone it names or
// else in that of now. ok is false for a text that names no time, and for a
// date that is past: both leave it to our own backoff.
//
// A zone's name is looked up as the time package does it.
func ParseRetryAfter(text string, now time.Time) (wait time.Duration, ok bool) {
	for _, at := range marker.FindAllStringSubmatchIndex(text, -1) {
		unit := ""
		if at[2] >= 0 {
			unit = text[at[2]:at[3]]
		}
		if wait, _, ok := parseWhen(text[at[1]:], unit, now); ok {
			return clampWait(wait)
		}
	}
	alone := strings.Trim(text, " \t\r\n\"'")
	if wait, rest, ok := parseWhen(alone, "", now); ok && rest == "" {
		return clampWait(wait)
	}
	return 0, false
}

// clampWait refuses what is past; 0 is not.
func clampWait(wait time.Duration) (time.Duration, bool) {
	if wait < 0 {
		return 0, false
	}
	return min(max(wait, MinRetryAfter), MaxQuotaRetryAfter), true
}

// parseWhen reads one value at the start of s and answers what is left of s.
func parseWhen(s, unit string, now time.Time) (wait time.Duration, rest string, ok bool) {
	for _, form := range []func(string, time.Time) (time.Duration, string, bool){parseStamp, parseClock, parseSpan} {
		if wait, rest, ok := form(s, now); ok {
			return wait, rest, true
		}
	}
	return parseNumber(s, unit, now)
}

// stamps are the forms of a date that say everything themselves: RFC 3339, and
// the three of an HTTP date (RFC 9110 section 5.6.7).
var stamps = []struct {
	form    *regexp.Regexp
	layouts []string
}{
	{
		regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)`),
		[]string{time.RFC3339, "2006-01-02 15:04:05Z07:00"},
	},
	{
		regexp.MustCompile(`^[A-Z][a-z]{2,8}, \d\d[ -][A-Z][a-z]{2}[ -]\d{2,4} \d\d:\d\d:\d\d GMT`),
		[]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT"},
	},
	{
		regexp.MustCompile(`^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}`),
		[]string{time.ANSIC},
	},
}

func parseStamp(s string, now time.Time) (time.Duration, string, bool) {
	for _, stamp := range stamps {
		found := stamp.form.FindString(s)
		for _, layout := range stamp.layouts {
			if at, err := time.Parse(layout, strings.ToUpper(found)); found != "" && err == nil {
				return at.Sub(now), s[len(found):], true
			}
		}
	}
	return 0, s, false
}

var (
	// span is a sum of amounts with units: 11.054s, 1m30s, 2 days 3 hours.
	span   = regexp.MustCompile(`(?i)^` + amount + `(?:(?:\s*,\s*|\s+and\s+|\s*)` + amount + `)*\b`)
	amount = `(?:\d{1,12}(?:\.\d{1,9})?)\s*(?:` + units + `)`
	units  = `milliseconds?|millis|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d`
	piece  = regexp.MustCompile(`(?i)(\d{1,12}(?:\.\d{1,9})?)\s*(` + units + `)`)
)

func parseSpan(s string, _ time.Time) (time.Duration, string, bool) {
	found := span.FindString(s)
	if found == "" {
		return 0, s, false
	}
	var sum time.Duration
	for _, p := range piece.FindAllStringSubmatch(found, -1) {
		sum = plus(sum, spanOf(p[1], unitOf(p[2])))
	}
	return sum, s[len(found):], true
}

// unitOf is the length of a unit by its spelling; no unit is seconds.
func unitOf(name string) time.Duration {
	name = strings.ToLower(name)
	switch {
	case strings.HasPrefix(name, "ms"), strings.HasPrefix(name, "milli"):
		return time.Millisecond
	case strings.HasPrefix(name, "m"):
		return time.Minute
	case strings.HasPrefix(name, "h"):
		return time.Hour
	case strings.HasPrefix(name, "d"):
		return 24 * time.Hour
	}
	return time.Second
}

// spanOf is number·unit, at most MaxQuotaRetryAfter: more is not told apart.
func spanOf(number string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || n*float64(unit) >= float64(MaxQuotaRetryAfter) {
		return MaxQuotaRetryAfter
	}
	return time.Duration(n * float64(unit))
}

// bare is a number with nothing behind it that would make it a count of something
// ("retry after 3 attempts").
var bare = regexp.MustCompile(`^(\d{1,15}(?:\.\d{1,9})?)\s*(?:$|[.,;)"'}\]\r\n])`)

func parseNumber(s, unit string, now time.Time) (time.Duration, string, bool) {
	found := bare.FindStringSubmatch(s)
	if found == nil {
		return 0, s, false
	}
	rest := s[len(found[1]):]
	n, err := strconv.ParseFloat(found[1], 64)
	switch {
	case err != nil || n >= epochEnd:
		return 0, s, false
	case unit != "" || n < epochFrom:
		return spanOf(found[1], unitOf(unit)), rest, true
	case n >= epochMillis:
		return time.UnixMilli(int64(n)).Sub(now), rest, true
	}
	return time.Unix(int64(n), 0).Sub(now), rest, true
}

// HeaderWait reads the headers of an answer that refused: retry-after-ms, else
// Retry-After, else the last reset of its rate limits to come. Names are
// compared without case. Dates are measured against the answer's own Date where
// there is one, so that this machine's clock does not matter.
func HeaderWait(headers map[string]string, now time.Time) (wait time.Duration, ok bool) {
	byName := make(map[string]string, len(headers))
	for name, value := range headers {
		byName[strings.ToLower(name)] = strings.TrimSpace(value)
	}
	if date, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", byName["date"]); err == nil {
		now = date
	}
	for _, name := range []string{"retry-after-ms", "retry-after"} {
		if wait, ok := headerWait(name, byName[name], now); ok {
			return wait, true
		}
	}
	for name, value := range byName {
		if !strings.Contains(name, "ratelimit-") || !strings.Contains(name, "reset") {
			continue
		}
		if reset, found := headerWait(name, value, now); found {
			wait, ok = max(wait, reset), true
		}
	}
	return wait, ok
}

// headerWait takes a header's whole value or nothing of it.
func headerWait(name, value string, now time.Time) (time.Duration, bool) {
	unit := ""
	if strings.HasSuffix(name, "-ms") {
		unit = "ms"
	}
	wait, rest, ok := parseWhen(strings.Trim(value, `"`), unit, now)
	if !ok || rest != "" {
		return 0, false
	}
	return clampWait(wait)
}
