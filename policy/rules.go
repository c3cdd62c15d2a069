package policy

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// told is what a sign of failure stands for.
type told struct {
	kind Kind
	code string
}

// tellingCodes are names of errors that go before a status: a refusal for money
// comes as 400 and as 429.
var tellingCodes = map[string]told{
	"max_turns":                  {Permanent, "max_turns"},
	"max_budget_usd":             {Permanent, "max_budget"},
	"prompt_too_long":            {Permanent, "context"},
	"context_length_exceeded":    {Permanent, "context"},
	"usage_limit_reached":        {Quota, "usage_limit"},
	"billing_error":              {Config, "billing"},
	"insufficient_quota":         {Config, "billing"},
	"billing_hard_limit_reached": {Config, "billing"},
	"billing_not_active":         {Config, "billing"},
	"authentication_failed":      {Config, "auth"},
	"authentication_error":       {Config, "auth"},
	"invalid_api_key":            {Config, "auth"},
	"permission_error":           {Config, "auth"},
	"ProviderAuthError":          {Config, "auth"},
}

// generalCodes are names that a status explains better where there is one.
var generalCodes = map[string]told{
	"rate_limit":            {Transient, "rate_limit"},
	"rate_limit_error":      {Transient, "rate_limit"},
	"rate_limit_exceeded":   {Transient, "rate_limit"},
	"overloaded":            {Transient, "overloaded"},
	"overloaded_error":      {Transient, "overloaded"},
	"server_is_overloaded":  {Transient, "overloaded"},
	"server_error":          {Transient, "server"},
	"api_error":             {Transient, "server"},
	"internal_server_error": {Transient, "server"},
	"timeout_error":         {Transient, "network"},
	"invalid_request":       {Permanent, "bad_request"},
	"invalid_request_error": {Permanent, "bad_request"},
	"not_found_error":       {Permanent, "bad_request"},
}

// textRule is an anchored pattern and what it stands for.
type textRule struct {
	pattern *regexp.Regexp
	told    told
}

// usageLimit is how claude and codex say that a plan's allowance is used up.
const usageLimit = `(?i)\b(?:you['’]ve (?:hit|reached) your (?:[\w-]+ )?limit|(?:usage|session|weekly|5-hour) limit reached|reached your specified api usage limits)\b`

// tellingTexts and generalTexts are read on the text of a terminal event only:
// there a service speaks, not a model.
var (
	tellingTexts = []textRule{
		{regexp.MustCompile(usageLimit), told{Quota, "usage_limit"}},
		{regexp.MustCompile(`(?i)\bcredit balance is too low\b|\bquota\b.{0,20}\bcheck your plan and billing\b`), told{Config, "billing"}},
		{regexp.MustCompile(`(?i)\bprompt is too long\b|\bmaximum context length\b`), told{Permanent, "context"}},
		{regexp.MustCompile(`(?i)^invalid api key\b|\bplease run /login\b`), told{Config, "auth"}},
	}
	generalTexts = []textRule{
		{regexp.MustCompile(`(?i)\brate limit(?:ed| exceeded| reached)\b|\btoo many requests\b`), told{Transient, "rate_limit"}},
		{regexp.MustCompile(`(?i)\bat capacity\b|\boverloaded\b`), told{Transient, "overloaded"}},
		{regexp.MustCompile(`(?i)\bexperiencing high demand\b|\binternal server error\b`), told{Transient, "server"}},
		{regexp.MustCompile(`(?i)\bstream disconnected\b|\bempty or malformed response\b|\bconnection (?:error|refused|reset|closed)\b|\berror sending request\b|\bfetch failed\b|\btimed out\b`), told{Transient, "network"}},
	}
	// sessionLost is how they say, on standard error, that there is nothing to resume.
	sessionLost = regexp.MustCompile(`(?m)^\W*(?:message: ")?(?:Error: )?(?:Session not found: |No conversation found with session ID)`)
)

func byCode(known map[string]told, codes []string) (told, bool) {
	for _, code := range codes {
		if t, found := known[code]; found {
			return t, true
		}
	}
	return told{}, false
}

func byText(rules []textRule, text string) (told, bool) {
	for _, rule := range rules {
		if rule.pattern.MatchString(text) {
			return rule.told, true
		}
	}
	return told{}, false
}

// byStatus is what an HTTP status says, where it is one of a failure.
func byStatus(status int) (told, bool) {
	switch {
	case status == 401 || status == 403:
		return told{Config, "auth"}, true
	case status == 402:
		return told{Config, "billing"}, true
	case status == 408:
		return told{Transient, "network"}, true
	case status == 429:
		return told{Transient, "rate_limit"}, true
	case status == 503 || status == 529:
		return told{Transient, "overloaded"}, true
	case status >= 500 && status < 600:
		return told{Transient, "server"}, true
	case status >= 400 && status < 500:
		return told{Permanent, "bad_request"}, true
	}
	return told{}, false
}

// eventStatus finds the status in a terminal event's text: "API Error: 500 …",
// "Request rejected (429)", "unexpected status 503 …", "last status: 429 …".
var eventStatus = regexp.MustCompile(`\b(?:API Error: |Request rejected \(|(?:unexpected|last) status:? )(\d{3})\b`)

func statusIn(message string) int {
	if found := eventStatus.FindStringSubmatch(message); found != nil {
		return atoi(found[1])
	}
	return 0
}

// Bounds of the text that is read of a Plain program.
const (
	tailLines = 64      // of each stream
	lineBytes = 4 << 10 // of each line
)

func lastLines(tail string) []string {
	lines := strings.Split(strings.TrimRight(tail, "\r\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	for i, line := range lines {
		lines[i] = strings.TrimRight(line[:min(len(line), lineBytes)], "\r")
	}
	return lines
}

// crash finds the header of a panic or a traceback: it decides before the text
// below it, which is full of numbers.
var crash = regexp.MustCompile(`^(?:panic: |fatal error: |goroutine \d+ (?:gp=\S+ m=\S+ (?:mp=\S+ )?)?\[|Traceback \(most recent call last\):|Exception in thread |thread '.*' (?:\(\d+\) )?panicked at |Segmentation fault)`)

func crashed(stderr string) bool {
	return slices.ContainsFunc(lastLines(stderr), crash.MatchString)
}

// dropped are lines that speak about code and not about this run: places in
// files, stack frames, tests and what they wanted, comments, diffs.
var dropped = regexp.MustCompile(`(?i)` +
	`\.[a-z]\w{0,7}:\d+:\d+\b` + // handler.go:429:17
	`|_test\.\w+:\d+|\.(?:test|spec)\.\w+:\d+` + // handler_test.go:57
	`|^\s+at \S|^\s*File ".*", line \d+|^\t\S.*\.go:\d+` + // frames
	`|^\s*(?:--- |=== |FAIL\b|FAILED\b|PASS\b|ok\s|not ok\b|[✓✔✗✘×✕●])` +
	`|\b(?:expect(?:ed|s)?|want(?:ed|s)?|assert\w*|should (?:be|have|return|respond|fail|equal|throw|reject))\b` +
	`|^\s*(?://|#|/\*|[+-]\s|@@ )|^\s+\*`)

// lineStatus are the ways in which a program's line gives the status it was
// refused with. A number alone never does, nor do "error" and "code" alone:
// compilers number their errors and programs their exits.
var lineStatus = []*regexp.Regexp{
	regexp.MustCompile(`(?:^|^< |[:(] ?)HTTP(?:/\d(?:\.\d)?)? (\d{3})\b`),
	regexp.MustCompile(`(?i)\b(?:https?|api|request|client|server|response|returned) error[:= ]+\(?(\d{3})\b`),
	regexp.MustCompile(`(?i)\b(?:http|response|unexpected|last|returned|received|status)(?: http)? status(?:[ _-]?code)?[:= ]+\(?(\d{3})\b`),
	regexp.MustCompile(`(?i)\bstatus(?:[ _-]?code)[:= ]+\(?(\d{3})\b`),
	regexp.MustCompile(`(?i)(?:^|[:,({] ?)status[:= ]+\(?(\d{3})\b`),
	regexp.MustCompile(`(?i)\b(?:with|got|received|returned) status[:= ]+\(?(\d{3})\b`),
	regexp.MustCompile(`(?i)\b(?:error|http) code[:= ]+(\d{3})\b`),
	regexp.MustCompile(`(?i)["'](?:status|code|status_?code)["']\s*:\s*["']?(\d{3})\b`),
	regexp.MustCompile(`(?i)^\s*(?:status|code|statusCode):\s*["']?(\d{3})["']?,?$`),
	regexp.MustCompile(`(?i)(?:^|[:(!] ?|\b(?:returned|received|status|got) )(\d{3}) (?:Too Many Requests|(?:Client|Server) Error|Internal Server Error|Bad Gateway|Service Unavailable|Service Temporarily Unavailable|Gateway Time-?out)\b`),
}

// errorName is the name of a service's error as JSON, a language's literal or a
// message gives it; in the middle of prose or of a test's name it is none.
func errorName(names string) *regexp.Regexp {
	return regexp.MustCompile(`(?:["']|[:=]\s*|^)(?:` + names + `)(?:["':,;.]|\s*$)`)
}

// lineRules are read on the lines of a Plain program, in this order, after
// lineStatus.
var lineRules = []textRule{
	{errorName(`insufficient_quota`), told{Config, "billing"}},
	{errorName(`rate_limit_error|rate_limit_exceeded`), told{Transient, "rate_limit"}},
	{errorName(`overloaded_error`), told{Transient, "overloaded"}},
	{regexp.MustCompile(`^(?:Claude AI usage limit reached\|\d|You['’]ve (?:hit|reached) your (?:[\w-]+ )?limit\b)`), told{Quota, "usage_limit"}},
	{regexp.MustCompile(`(?i)\b(?:no such host|could not resolve host|temporary failure in name resolution|name or service not known)\b|\b(?:ENOTFOUND|EAI_AGAIN)\b`), told{Transient, "dns"}},
	{regexp.MustCompile(`(?i)\bconnection (?:refused|reset|timed out)\b|\bi/o timeout\b|\bTLS handshake timeout\b|\bnetwork is unreachable\b|\bno route to host\b|\bECONN(?:REFUSED|RESET|ABORTED)\b|\bETIMEDOUT\b|\bENETUNREACH\b|\bEHOSTUNREACH\b`), told{Transient, "network"}},
}

// fromLines looks for the last line that says why a Plain program failed.
func (r Run) fromLines(lines []string) (Outcome, bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		if dropped.MatchString(lines[i]) {
			continue
		}
		t, found := fromLine(lines[i])
		if !found {
			continue
		}
		out := failed(t.kind, t.code)
		if t.code == "dns" { // a name that does not exist looks the same
			out = r.transient("dns", triesTwice)
		}
		if out.Kind == Transient || out.Kind == Quota {
			out.RetryAfter = r.waitIn(lines[i : i+1])
		}
		if out.RetryAfter == 0 && out.Kind == Transient {
			out.RetryAfter = r.waitIn(lines[max(0, i-near):min(len(lines), i+near+1)])
		}
		return out, true
	}
	return Outcome{}, false
}

// waitIn is the first wait that a line asks for, 0 is none. A line that is
// nothing but a number or a time asks for nothing.
func (r Run) waitIn(lines []string) time.Duration {
	for _, line := range lines {
		if !marker.MatchString(line) || dropped.MatchString(line) {
			continue
		}
		if wait, ok := ParseRetryAfter(line, r.Ended); ok {
			return wait
		}
	}
	return 0
}

// near is how many lines around the one that decides may hold the wait: the
// headers of an answer.
const near = 16

func fromLine(line string) (told, bool) {
	for _, pattern := range lineStatus {
		for _, found := range pattern.FindAllStringSubmatch(line, -1) {
			status, _ := strconv.Atoi(found[1])
			if t, ok := byStatus(status); ok && t.kind == Transient {
				// A 4xx of another kind may be what the program was asked to find.
				if billing.MatchString(line) {
					return told{Config, "billing"}, true
				}
				return t, true
			}
		}
	}
	return byText(lineRules, line)
}

// billing goes before the 429 it comes with.
var billing = errorName(`insufficient_quota`)
