package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"pushd/ackstore"
	"pushd/server/api"
	"pushd/stream"
)

// kind is a sort of refusal; kinds says what each is on the wire.
type kind uint8

const (
	malformed kind = iota
	unauthorised
	unsigned
	forbidden
	foreignSite
	unknown
	notAllowed
	notAcceptable
	tooSlow
	conflict
	contested
	tooLarge
	wrongMedia
	misdirected
	overLimit
	tooManyTries
	broken
	draining
	unavailable
	full
)

// kinds is the one table of statuses. A slug is part of the contract: clients may
// compare a problem's type.
var kinds = [...]struct {
	status      int
	slug, title string
}{
	malformed:     {http.StatusBadRequest, "malformed", "The request cannot be understood"},
	unauthorised:  {http.StatusUnauthorized, "unauthorised", "A valid token is needed"},
	unsigned:      {http.StatusUnauthorized, "unsigned", "The delivery is not signed as it must be"},
	forbidden:     {http.StatusForbidden, "forbidden", "The token does not cover this"},
	foreignSite:   {http.StatusForbidden, "foreign-site", "Another site's request is not served"},
	unknown:       {http.StatusNotFound, "unknown", "There is no such thing"},
	notAllowed:    {http.StatusMethodNotAllowed, "method-not-allowed", "The method is not allowed here"},
	notAcceptable: {http.StatusNotAcceptable, "not-acceptable", "The answer has another media type"},
	tooSlow:       {http.StatusRequestTimeout, "too-slow", "The body came too slowly"},
	conflict:      {http.StatusConflict, "conflict", "The request conflicts with what is there"},
	contested:     {http.StatusConflict, "contested", "Agents contest this machine"},
	tooLarge:      {http.StatusRequestEntityTooLarge, "too-large", "The request is too large"},
	wrongMedia:    {http.StatusUnsupportedMediaType, "unsupported-media-type", "The body has another media type"},
	misdirected:   {http.StatusMisdirectedRequest, "misdirected", "An open server answers its own host only"},
	overLimit:     {http.StatusTooManyRequests, "limit", "There is no room now"},
	tooManyTries:  {http.StatusTooManyRequests, "too-many-tries", "Too many requests without a valid token"},
	broken:        {http.StatusInternalServerError, "internal", "The server made a mistake"},
	draining:      {http.StatusServiceUnavailable, "draining", "The server is stopping"},
	unavailable:   {http.StatusServiceUnavailable, "unavailable", "The store cannot write now"},
	full:          {http.StatusServiceUnavailable, "full", "There is no room for another stream"},
}

// refusal is an error that knows its answer.
type refusal struct {
	kind   kind
	detail string
	fields []api.FieldError
	retry  time.Duration // Retry-After; 0: that of the kind, if it has one
	cause  error         // for the log, never for the wire

	reason, outcome, state, actionID string
}

func (r *refusal) Error() string { return r.detail }

func (r *refusal) Unwrap() error { return r.cause }

// refuse makes a refusal.
func refuse(k kind, format string, args ...any) *refusal {
	return &refusal{kind: k, detail: fmt.Sprintf(format, args...)}
}

// refuseField makes a refusal that names the field at fault.
func refuseField(k kind, field, format string, args ...any) *refusal {
	message := fmt.Sprintf(format, args...)
	r := refuse(k, "%s %s", field, message)
	r.fields = []api.FieldError{{Field: field, Message: message}}
	return r
}

// noRoute is the 404 of a route of the settings file.
func noRoute(id string) *refusal {
	return refuse(unknown, "there is no webhook route %s in the settings", quote(id))
}

// noSuch is the 404 of a thing; its name is shown cut.
func noSuch(thing, id string) *refusal {
	return refuse(unknown, "there is no %s %s, or it is past its retention", thing, quote(id))
}

// problem is r as the wire has it.
func (r *refusal) problem() api.Problem {
	k := kinds[r.kind]
	return api.Problem{
		Type: "/problems/" + k.slug, Title: k.title, Status: k.status, Detail: r.detail, Errors: r.fields,
		Reason: r.reason, ActionID: r.actionID, Outcome: r.outcome, State: r.state,
	}
}

// retryAfter is when to come again, in whole seconds, at least 1; 0 is never said.
func (r *refusal) retryAfter() int {
	wait := r.retry
	if wait <= 0 {
		switch r.kind {
		case overLimit, contested:
			wait = 5 * time.Second
		case draining, full:
			wait = 2 * time.Second
		case unavailable:
			wait = time.Second
		default:
			return 0
		}
	}
	return max(1, int((wait+time.Second-1)/time.Second))
}

// headers sets what a refusal says besides its problem.
func (r *refusal) headers(h http.Header) {
	if seconds := r.retryAfter(); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if r.kind == unauthorised || r.kind == unsigned {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if r.kind == misdirected || r.kind == tooSlow {
		h.Set("Connection", "close")
	}
}

// judge turns any error into a refusal.
func judge(err error) *refusal {
	var r *refusal
	var he *echo.HTTPError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &he):
		return ofEcho(he)
	}
	if r := ofStore(err); r != nil {
		return r
	}
	if r := ofStream(err); r != nil {
		return r
	}
	return ofTransport(err)
}

// ofEcho gives the router's own errors a body.
func ofEcho(e *echo.HTTPError) *refusal {
	switch e.Code {
	case http.StatusNotFound:
		return refuse(unknown, "no route has this path; GET /openapi.yaml lists them all")
	case http.StatusMethodNotAllowed:
		return refuse(notAllowed, "this path takes other methods, see Allow")
	case http.StatusRequestEntityTooLarge:
		return refuse(tooLarge, "the body is larger than limits.max_body_bytes")
	case http.StatusUnsupportedMediaType:
		return refuse(wrongMedia, "the body must be application/json")
	}
	r := refuse(broken, "the request could not be served")
	r.cause = e
	return r
}

func ofStore(err error) *refusal {
	var (
		known    *ackstore.ConflictError
		limit    *ackstore.LimitError
		closed   *ackstore.ClosedError
		ineligib *ackstore.NotEligibleError
	)
	switch {
	case errors.As(err, &known):
		r := refuse(conflict, "action_id %s is known with other content; a repeat must send the same fields", quote(known.ActionID))
		r.actionID = known.ActionID
		return r
	case errors.As(err, &limit):
		if limit.Setting == "limits.max_machines" {
			return refuse(overLimit, "limits.max_machines is %d, and machine %s would be one more", limit.Limit, quote(limit.MachineID))
		}
		return refuse(overLimit, "%s is %d, and machine %s has no room left", limit.Setting, limit.Limit, quote(limit.MachineID))
	case errors.As(err, &closed):
		return refuse(conflict, "%s %s was cancelled and takes no new actions until it is resumed", closed.Scope, quote(closed.ID))
	case errors.As(err, &ineligib):
		r := refuse(conflict, "action %s is %s, which does not allow this", quote(ineligib.ActionID), ineligib.State)
		r.actionID, r.state = ineligib.ActionID, ineligib.State.String()
		return r
	}
	return ofSentinel(err)
}

func ofSentinel(err error) *refusal {
	switch {
	case errors.Is(err, ackstore.ErrUnknown):
		return refuse(unknown, "there is no such thing, or it is past its retention")
	case errors.Is(err, ackstore.ErrNotEligible):
		return refuse(conflict, "its state does not allow this")
	case errors.Is(err, ackstore.ErrCursor):
		return refuseField(malformed, "cursor", "is none that a list gave")
	case errors.Is(err, ackstore.ErrFenced):
		return refuse(conflict, "a newer subscription holds this machine")
	case errors.Is(err, ackstore.ErrLimit):
		return refuse(overLimit, "a limit is reached")
	case errors.Is(err, ackstore.ErrConflict), errors.Is(err, ackstore.ErrClosed):
		return refuse(conflict, "the request conflicts with what is there")
	case errors.Is(err, ackstore.ErrUnavailable):
		r := refuse(unavailable, "the store cannot write now; the same request may be sent again")
		r.cause = err
		return r
	}
	return nil
}

func ofStream(err error) *refusal {
	var e *stream.RefusedError
	if !errors.As(err, &e) {
		return nil
	}
	var r *refusal
	switch {
	case errors.Is(e, stream.ErrContested):
		r = refuse(contested, "too many agents that do not know each other claim this machine; its holder stays")
	case errors.Is(e, stream.ErrReplaced):
		r = refuse(contested, "a still newer subscription came before this one began")
		r.reason = "replaced"
	case errors.Is(e, stream.ErrFull):
		r = refuse(full, "stream.max_streams machines are connected")
	case errors.Is(e, stream.ErrDraining):
		r = refuse(draining, "the server is stopping; come again when it is back")
	case errors.Is(e, stream.ErrRevoked):
		r = refuse(unauthorised, "the token has ended")
	default:
		return nil
	}
	r.retry = e.RetryAfter
	return r
}

func ofTransport(err error) *refusal {
	var large *http.MaxBytesError
	var r *refusal
	switch {
	case errors.As(err, &large):
		return refuse(tooLarge, "the body is larger than limits.max_body_bytes, %d", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(tooSlow, "the body stood still for too long")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		r = refuse(unavailable, "the request was cut off; it may be sent again")
	default:
		r = refuse(broken, "the request could not be served; the log says why")
	}
	r.cause = err
	return r
}

// quote shows a value that a stranger sent: quoted, and never long.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		cut := most
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}
