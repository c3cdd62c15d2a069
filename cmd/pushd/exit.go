package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"pushd/server/api"
)

// Exit codes. A script tells "nobody is there" from "the answer was no".
const (
	exitOK           = 0
	exitFailure      = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitUnauthorised = 4
	exitConflict     = 5
	exitUnreachable  = 6
	exitTimedOut     = 7
	exitEndedBadly   = 8 // push --wait: the action is settled and not done
	exitInterrupted  = 130
)

// exitError is an error that knows its exit code and what to do next.
type exitError struct {
	code int
	text string
	next string
}

func (e *exitError) Error() string { return e.text }

// usage is an error of the one who typed.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, text: fmt.Sprintf(format, args...)}
}

// verdict is what an error comes to: a code, a sentence, and a next step.
func verdict(err error) (code int, text, next string) {
	var known *exitError
	var refused *api.Error
	var dial *net.OpError
	var wire *url.Error
	var stranger x509.UnknownAuthorityError
	switch {
	case err == nil:
		return exitOK, "", ""
	case errors.As(err, &known):
		return known.code, known.text, known.next
	case errors.As(err, &refused):
		code, next = refusal(refused)
		return code, refused.Error(), next
	case errors.Is(err, context.Canceled):
		return exitInterrupted, "interrupted", ""
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimedOut, "no answer in time: " + err.Error(), "give it longer with --timeout"
	case errors.As(err, &wire) && errors.As(err, &dial):
		return exitUnreachable, "no pushd server answers: " + dial.Error(), "start one with `pushd serve`, or name it with --server or PUSHD_URL"
	case errors.As(err, &wire) && errors.As(err, &stranger):
		return exitUnreachable, wire.Error(), "trust its authority with --ca FILE or PUSHD_CA"
	case errors.As(err, &wire):
		return exitUnreachable, wire.Error(), "check --server or PUSHD_URL"
	}
	return exitFailure, err.Error(), ""
}

func refusal(e *api.Error) (code int, next string) {
	switch e.Status {
	case http.StatusBadRequest:
		return exitUsage, ""
	case http.StatusNotFound:
		return exitNotFound, "`pushctl ls` shows what is there"
	case http.StatusUnauthorized:
		return exitUnauthorised, "give a token with --token-file or PUSHD_TOKEN; `pushctl token create` makes one"
	case http.StatusForbidden:
		return exitUnauthorised, "this needs a token with another scope"
	case http.StatusConflict:
		return exitConflict, ""
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if e.RetryAfter > 0 {
			return exitFailure, fmt.Sprintf("try again in %s", e.RetryAfter)
		}
	}
	return exitFailure, ""
}

// report writes an error as one line, or as a problem object for machines.
func report(term *terminal, asJSON bool, err error) int {
	code, text, next := verdict(err)
	switch {
	case code == exitOK, code == exitInterrupted: // whoever interrupted knows
	case asJSON:
		var refused *api.Error
		problem := api.Problem{Type: "about:blank", Title: term.name, Detail: text}
		if errors.As(err, &refused) {
			problem = refused.Problem
		}
		_ = json.NewEncoder(term.err).Encode(problem) // nobody is left to tell
	case next != "":
		term.say("%s: %s; %s", term.name, text, next)
	default:
		term.say("%s: %s", term.name, text)
	}
	return code
}
