package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// secretParams are where tokens get into logs; none is taken, or shown again.
var secretParams = []string{"token", "access_token", "auth", "authorization"}

// guard refuses what no route takes, whoever asks.
func (s *Server) guard(r *http.Request) error {
	if err := noSecrets(r.URL.RawQuery); err != nil {
		return err
	}
	if s.open() && !s.cfg.Insecure {
		if err := ownHost(r); err != nil {
			return err
		}
	}
	if strings.HasPrefix(r.URL.Path, "/webhooks/") {
		return nil // a sender of webhooks may be a browser's form; they are signed
	}
	return ownSite(r)
}

func noSecrets(raw string) error {
	for pair := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		for _, secret := range secretParams {
			if strings.EqualFold(name, secret) {
				return refuseField(malformed, secret, "is refused in a query string, which ends in logs; use the header Authorization: Bearer")
			}
		}
	}
	return nil
}

// ownHost holds off DNS rebinding and reverse proxies from a server without
// tokens: both would make its loopback address reachable from elsewhere.
func ownHost(r *http.Request) error {
	for _, header := range []string{"Forwarded", "X-Forwarded-For", "Via"} {
		if len(r.Header.Values(header)) > 0 {
			return refuse(misdirected, "a server without tokens is not for use behind a proxy (%s); create a token first", header)
		}
	}
	if !loopbackHost(r.Host) {
		return refuse(misdirected, "a server without tokens answers to loopback names only, not to %s; create a token first", quote(r.Host))
	}
	return nil
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// ownSite refuses what another site makes a browser send: here even a GET may
// take work or a stream.
func ownSite(r *http.Request) error {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "cross-site", "same-site":
		return refuse(foreignSite, "requests of other sites are refused (Sec-Fetch-Site: %s)", site)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !sameOrigin(origin, r.Host) {
			return refuse(foreignSite, "requests of other sites are refused (Origin %s)", quote(origin))
		}
	}
	return nil
}

// sameOrigin compares an Origin with the Host that the request was sent to. A
// proxy may have taken TLS away, so the scheme only says which port is meant.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	if port == "" || u.Host == "" {
		return false
	}
	return strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

// badToken is the answer to a token that is none. An address that goes on with
// them is told to wait: a revoked agent must not fill the log, nor a guesser try.
func (s *Server) badToken(r *http.Request) error {
	wait, limited := s.tries.strike(s.addressOf(r))
	s.metrics.Unauthorised(limited)
	if !limited {
		return refuse(unauthorised, "the token is not known, or has ended")
	}
	refused := refuse(tooManyTries, "too many requests with tokens that are not known, or have ended, came from this address")
	refused.retry = wait
	return refused
}

// open tells whether callers need no token: none exists, and the server listens
// where that is allowed.
func (s *Server) open() bool { return s.cfg.Open && s.keys.none() }

// identify finds out who asks.
func (s *Server) identify(r *http.Request) (*caller, error) {
	if s.open() {
		return &caller{open: true}, nil
	}
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, text, _ := strings.Cut(header, " ")
		if who, ok := s.keys.bearer(strings.TrimSpace(text)); ok && strings.EqualFold(scheme, "Bearer") {
			return who, nil
		}
		return nil, s.badToken(r)
	}
	if who, ok := certified(r); ok {
		return who, nil
	}
	if session, ok := s.sessions.of(r); ok {
		if who, ok := s.keys.holder(session.TokenID); ok {
			return who, nil
		}
	}
	return nil, refuse(unauthorised, "this needs a token: Authorization: Bearer TOKEN")
}
