package policy_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/policy"
)

// noon is a Wednesday in April, as a machine in Berlin sees it: UTC+2.
func noon(t testing.TB) time.Time {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	return time.Date(2026, 4, 15, 12, 0, 0, 0, berlin)
}

func TestParseRetryAfter(t *testing.T) {
	t.Parallel()
	now := noon(t)
	epoch := strconv.FormatInt(now.Unix()+3600, 10)
	s, m, h := time.Second, time.Minute, time.Hour
	for _, tc := range []struct {
		name, text string
		want       time.Duration
	}{
		{"seconds", "20", 20 * s},
		{"seconds with a fraction", "1.5", 1500 * time.Millisecond},
		{"seconds in white space and quotes", " \"20\"\r\n", 20 * s},
		{"zero is one second", "0", s},
		{"less than a second is one", "0.2", s},
		{"more than eight days are eight", "99999999", 8 * day},
		{"a header line", "Retry-After: 7", 7 * s},
		{"a header line of HTTP/2", "retry-after: 7\r\n", 7 * s},
		{"a header line in a dump", "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nVia: x\r\n", 7 * s},
		{"a member of JSON", `{"error":{"retry_after":30}}`, 30 * s},
		{"a member of JSON in camels", `{"retryAfter": "12"}`, 12 * s},
		{"an HTTP date", "Wed, 15 Apr 2026 10:00:30 GMT", 30 * s},
		{"an HTTP date of RFC 850", "Wednesday, 15-Apr-26 10:00:30 GMT", 30 * s},
		{"an HTTP date of asctime", "Wed Apr 15 10:00:30 2026", 30 * s},
		{"an HTTP date in a header line", "Retry-After: Wed, 15 Apr 2026 10:01:00 GMT", m},
		{"milliseconds by their header", "retry-after-ms: 1500", 1500 * time.Millisecond},
		{"milliseconds by their member", `"retry_after_ms":2500,`, 2500 * time.Millisecond},
		{"milliseconds by their unit", "6500ms", 6500 * time.Millisecond},
		{"a duration", "1m30s", 90 * s},
		{"a duration of a reset header", "x-ratelimit-reset-requests: 1m30s", 90 * s},
		{"a duration with all there is", "1d2h3m4.5s", 26*h + 3*m + 4500*time.Millisecond},
		{"a duration in a member", `"retryDelay":"34.07s"`, 34070 * time.Millisecond},
		{"a duration in words", "Try again in 2 days 3 hours 25 minutes.", 51*h + 25*m},
		{"a duration in words with and", "retry after 1 hour and 5 minutes", 65 * m},
		{"a duration in words with commas", "resets in 1 hour, 2 minutes, 3 seconds", h + 2*m + 3*s},
		{"a duration in a sentence", "Rate limit reached for m. Please try again in 11.054s.", 11054 * time.Millisecond},
		{"a number in a sentence", "retry after 30", 30 * s},
		{"RFC 3339", "2026-04-15T10:02:00Z", 2 * m},
		{"RFC 3339 with an offset and a fraction", "2026-04-15T12:02:00.250+02:00", 2*m + 250*time.Millisecond},
		{"RFC 3339 in a reset header", "anthropic-ratelimit-input-tokens-reset: 2026-04-15T10:02:00Z", 2 * m},
		{"seconds since 1970", epoch, h},
		{"milliseconds since 1970", epoch + "000", h},
		{"seconds since 1970 behind a bar", "Claude AI usage limit reached|" + epoch, h},
		{"seconds since 1970 in resetsAt", `{"status":"rejected","resetsAt":` + epoch + `,"rateLimitType":"five_hour"}`, h},
		{"seconds since 1970 in resets_at", `"resets_at": ` + epoch + `}`, h},
		{"seconds since 1970 in a header", "X-RateLimit-Reset: " + epoch, h},
		{"a clock time in the zone of this machine", "or try again at 5:10 PM.", 5*h + 10*m},
		{"a clock time alone", "5:10 PM", 5*h + 10*m},
		{"a clock time in 24 hours", "resets 17:10", 5*h + 10*m},
		{"a clock time without minutes", "resets 3pm", 3 * h},
		{"a clock time that is past is tomorrow's", "try again at 11:59 AM", 23*h + 59*m},
		{"a clock time at midnight", "resets 12am", 12 * h},
		{"a clock time at noon is now", "resets 12:00 pm", s},
		{"a clock time with its zone", "You've hit your session limit · resets 10:30am (America/Sao_Paulo)", 3*h + 30*m},
		{"a clock time with its zone, past there", "resets 6:30am (America/Sao_Paulo)", 23*h + 30*m},
		{"a clock time in UTC", "resets at 11:00 UTC", h},
		{"a clock time in a zone without parentheses", "resets 5am America/Sao_Paulo", 22 * h},
		{"a clock time in an abbreviated zone", "resets 3pm CET", 3 * h},
		{"a date with its year", "or try again at Apr 16th, 2026 12:04 AM.", 12*h + 4*m},
		{"a date without its year", "resets Apr 17 at 5pm", 53 * h},
		{"a date with a comma and a zone", "resets Apr 16, 9am (UTC)", 23 * h},
		{"a date in digits", "You will regain access on 2026-04-16 at 00:00 UTC.", 14 * h},
		{"a date with a full month", "resets April 16, 12pm", 24 * h},
		{"the first that can be read", "Retry-After: soon, try again in 9s", 9 * s},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := policy.ParseRetryAfter(tc.text, now)
			require.True(t, ok)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestParseRetryAfterRefuses(t *testing.T) {
	t.Parallel()
	now := noon(t)
	for _, tc := range []struct{ name, text string }{
		{"nothing", ""},
		{"a word", "soon"},
		{"a header with a word", "Retry-After: soon"},
		{"a negative number", "-5"},
		{"a negative number in a header", "Retry-After: -5"},
		{"a number in another notation", "1e9"},
		{"no number", "NaN"},
		{"more digits than a number has", "99999999999999999999"},
		{"nanoseconds since 1970", "1774447200000000000"},
		{"a number of something", "30 files"},
		{"a count of attempts", "retry after 3 attempts"},
		{"a duration of something", "30seconds-old cache"},
		{"a duration in a sentence that asks nothing", "the build took 11.054s"},
		{"a time in a sentence that asks nothing", "2026-04-15T10:02:00Z starting up"},
		{"an HTTP date that is past", "Fri, 31 Dec 1999 23:59:59 GMT"},
		{"seconds since 1970 that are past", "1753077600"},
		{"a date that is past", "resets Apr 14 at 5pm"},
		{"a date with its year that is past", "try again at Apr 16th, 2025 12:04 AM"},
		{"a day that no month has", "resets Apr 45 at 5pm"},
		{"a month that is none", "resets Foo 12 at 5pm"},
		{"a time that no clock shows", "resets 25:10"},
		{"minutes that no clock shows", "resets 5:99 pm"},
		{"a zone nobody knows", "resets 3pm (Mars/Olympus_Mons)"},
		{"a zone that no table holds", "resets 3pm PST"},
		{"a zone that is a way out of the directory", "resets 3pm (Europe/../../etc/passwd)"},
		{"a port", "127.0.0.1:443"},
		{"a place in a file", "handler.go:429:17"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := policy.ParseRetryAfter(tc.text, now)
			require.False(t, ok, "%v", got)
			require.Zero(t, got)
		})
	}
}

func TestParseRetryAfterAcrossTheYear(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 31, 22, 0, 0, 0, time.UTC)
	got, ok := policy.ParseRetryAfter("resets Jan 1 at 1am", now)
	require.True(t, ok)
	require.Equal(t, 3*time.Hour, got)
}

func TestParseRetryAfterWhereTheClockJumps(t *testing.T) {
	t.Parallel()
	berlin := noon(t).Location()
	// In the night to 29 March 2026 the hour from 2 to 3 is missing.
	got, ok := policy.ParseRetryAfter("resets 5am", time.Date(2026, 3, 28, 22, 0, 0, 0, berlin))
	require.True(t, ok)
	require.Equal(t, 6*time.Hour, got)
}

func TestHeaderWait(t *testing.T) {
	t.Parallel()
	now := noon(t)
	for _, tc := range []struct {
		name    string
		headers map[string]string
		want    time.Duration
	}{
		{"Retry-After", map[string]string{"Retry-After": "20"}, 20 * time.Second},
		{"milliseconds before seconds", map[string]string{"retry-after": "2", "Retry-After-Ms": "1500"}, 1500 * time.Millisecond},
		{"a date is measured against the answer's own", map[string]string{
			"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Fri, 31 Dec 1999 23:59:29 GMT",
		}, 30 * time.Second},
		{"the last reset, where nothing else is said", map[string]string{
			"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-limit-tokens": "90000",
		}, 6 * time.Minute},
		{"a reset where Retry-After is garbage", map[string]string{"Retry-After": "soon", "Anthropic-Ratelimit-Requests-Reset": "2026-04-15T10:02:00Z"}, 2 * time.Minute},
		{"garbage is nothing", map[string]string{"Retry-After": "20 or so", "X-RateLimit-Reset": "?"}, 0},
		{"what is past is nothing", map[string]string{"X-RateLimit-Reset": "1753077600"}, 0},
		{"no headers, nothing", nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, ok := policy.HeaderWait(tc.headers, now)
			require.Equal(t, tc.want != 0, ok)
			require.Equal(t, tc.want, got)
		})
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"20", "1m30s", "Fri, 31 Dec 1999 23:59:59 GMT", "retry-after-ms: 1500", "try again in 11.054s", "limit reached|1753077600",
		"resets 10:30am (America/Sao_Paulo)", "try again at Apr 16th, 2026 12:04 AM.", `"resetsAt":1774447200`, "2026-05-01 at 00:00 UTC",
		"9999d9999d9999d9999d", "Retry-After: 2 days, 3 hours and 4 ms", "resets Feb 31 at 12pm (UTC)", "9999-99-99 00:00",
	} {
		f.Add(seed)
	}
	now := noon(f)
	f.Fuzz(func(t *testing.T, text string) {
		wait, ok := policy.ParseRetryAfter(text, now)
		again, okAgain := policy.ParseRetryAfter(text, now)
		require.Equal(t, wait, again)
		require.Equal(t, ok, okAgain)
		if !ok {
			require.Zero(t, wait)
			return
		}
		require.GreaterOrEqual(t, wait, policy.MinRetryAfter)
		require.LessOrEqual(t, wait, policy.MaxQuotaRetryAfter)
	})
}
