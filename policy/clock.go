package policy

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	_ "time/tzdata" // Windows has no zone files, and agents name zones there too
)

// clock is a time of day, with a date and a zone or without: 5:10 PM, 3pm,
// 17:10, Apr 16th, 2026 12:04 AM, Dec 12 at 5pm, 2026-05-01 at 00:00 UTC,
// 10:30am (America/Sao_Paulo).
var clock = regexp.MustCompile(`(?i)^` +
	`(?:(?:([A-Z]{3})[a-z]{0,6}\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?|(\d{4})-(\d\d)-(\d\d))(?:,| at|, at|T)? ?)?` +
	`(?:(\d{1,2})(?::(\d\d)(?::(\d\d))?)? ?([ap])\.?m\b\.?|(\d{1,2}):(\d\d)(?::(\d\d))?\b)` +
	`(?: ?\(([^()]{1,64})\)| ((?-i:[A-Z]{3,5}|[A-Z][A-Za-z]+(?:/[A-Za-z0-9_+-]+){1,2}))\b)?`)

// Groups of clock.
const (
	clockMonth = iota + 1
	clockDay
	clockYear
	isoYear
	isoMonth
	isoDay
	hour12
	minute12
	second12
	half
	hour24
	minute24
	second24
	zoneInside // of parentheses
	zoneBehind // the time, bare
)

// farBack tells a date of last year from one of this year that is just past,
// where no year is named: a reset is never that far ahead.
const farBack = 180 * 24 * time.Hour

// parseClock reads a clock time at the start of s. Without a date it is the next
// such time; the date alone, without a year, is the nearest one.
func parseClock(s string, now time.Time) (time.Duration, string, bool) {
	g := clock.FindStringSubmatch(s)
	if g == nil {
		return 0, s, false
	}
	zone, ok := zoneOf(g[zoneInside]+g[zoneBehind], now)
	if !ok {
		return 0, s, false
	}
	now = now.In(zone)
	hour, minute, second, ok := timeOfDay(g)
	if !ok {
		return 0, s, false
	}
	year, month, day, dated, ok := dateOf(g, now)
	if !ok {
		return 0, s, false
	}
	at := time.Date(year, month, day, hour, minute, second, 0, zone)
	switch {
	case !dated && at.Before(now):
		at = time.Date(year, month, day+1, hour, minute, second, 0, zone)
	case dated && g[clockYear]+g[isoYear] == "" && now.Sub(at) > farBack:
		at = time.Date(year+1, month, day, hour, minute, second, 0, zone)
	}
	return at.Sub(now), s[len(g[0]):], true
}

// zoneOf is the named zone, or now's where none is named. A name nobody knows
// (PST is one, and so is whatever else stands in parentheses) leaves the time
// unknown: it may be half a day off.
func zoneOf(name string, now time.Time) (*time.Location, bool) {
	switch strings.ToUpper(name) {
	case "", "LOCAL":
		return now.Location(), true
	case "UTC", "GMT":
		return time.UTC, true
	}
	zone, err := time.LoadLocation(name)
	return zone, err == nil
}

func timeOfDay(g []string) (hour, minute, second int, ok bool) {
	if g[half] == "" {
		hour, minute, second = atoi(g[hour24]), atoi(g[minute24]), atoi(g[second24])
		return hour, minute, second, hour < 24 && minute < 60 && second < 60
	}
	hour, minute, second = atoi(g[hour12]), atoi(g[minute12]), atoi(g[second12])
	ok = hour >= 1 && hour <= 12 && minute < 60 && second < 60
	hour %= 12
	if strings.EqualFold(g[half], "p") {
		hour += 12
	}
	return hour, minute, second, ok
}

// dateOf is the date named, else today's.
func dateOf(g []string, now time.Time) (year int, month time.Month, day int, dated, ok bool) {
	year, month, day = now.Date()
	switch {
	case g[isoYear] != "":
		year, month, day = atoi(g[isoYear]), time.Month(atoi(g[isoMonth])), atoi(g[isoDay])
	case g[clockMonth] != "":
		named, err := time.Parse("Jan", g[clockMonth])
		if err != nil {
			return 0, 0, 0, true, false
		}
		month, day = named.Month(), atoi(g[clockDay])
		if g[clockYear] != "" {
			year = atoi(g[clockYear])
		}
	default:
		return year, month, day, false, true
	}
	return year, month, day, true, month >= 1 && month <= 12 && day >= 1 && day <= 31
}

// atoi reads digits that a pattern has found; none are 0.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
