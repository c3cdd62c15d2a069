package server

import (
	"net/http"
	"regexp"
	"strings"
)

// traceForm is W3C Trace Context's traceparent, version 00.
var traceForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// traceOf is the trace that a push belongs to, kept with its actions and handed to
// their agents. One that is malformed is ignored, as the standard asks: it comes
// from a sender's tracing, not from who wrote the request.
func traceOf(r *http.Request) string {
	all := r.Header.Values("traceparent")
	if len(all) != 1 {
		return ""
	}
	text := strings.TrimSpace(all[0])
	m := traceForm.FindStringSubmatch(text)
	if m == nil || strings.Trim(m[1], "0") == "" || strings.Trim(m[2], "0") == "" {
		return ""
	}
	return text
}
