package server

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"sync"
	"time"
)

// A browser cannot send a bearer token with an event stream, so a dashboard
// exchanges it for a cookie that says nothing by itself.
const (
	cookieName     = "pushd_session"
	sessionLife    = 7 * 24 * time.Hour // from the sign-in on
	maxSessions    = 10_000
	sessionIDBytes = 32
)

// sessionKey is the hash of a cookie's value: neither memory nor disk holds the
// value itself, so that what is stolen from them opens nothing.
type sessionKey [sha256.Size]byte

// session lasts as long as its token does, and no longer than until.
type session struct {
	TokenID string    `json:"token_id"`
	Until   time.Time `json:"until"`
}

// sessions are who has signed in. They are written down at each sign-in and each
// sign-out, so that a restart neither ends one nor brings one back.
type sessions struct {
	now  func() time.Time
	rand io.Reader
	file string // empty: they are kept in memory only

	saving sync.Mutex // one write of the file at a time

	mu      sync.Mutex
	byKey   map[sessionKey]session
	unsaved bool
}

func newSessions(c Config) *sessions {
	return &sessions{now: c.Now, rand: c.Rand, file: c.SessionFile, byKey: map[sessionKey]session{}}
}

// begin makes a session of a token in the place of the one that the request had.
func (s *sessions) begin(r *http.Request, tokenID string) (*http.Cookie, error) {
	var raw [sessionIDBytes]byte
	if _, err := io.ReadFull(s.rand, raw[:]); err != nil {
		return nil, err
	}
	value := base64.RawURLEncoding.EncodeToString(raw[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, keyOf(r))
	s.trim()
	s.byKey[sha256.Sum256([]byte(value))] = session{tokenID, s.now().Add(sessionLife).UTC()}
	s.unsaved = true
	return cookie(value, r.TLS != nil, int(sessionLife/time.Second)), nil
}

// trim drops what is over, and the oldest when there are too many. The lock is held.
func (s *sessions) trim() {
	var first sessionKey
	var until time.Time
	for key, e := range s.byKey {
		switch {
		case !s.now().Before(e.Until):
			delete(s.byKey, key)
		case until.IsZero() || e.Until.Before(until):
			first, until = key, e.Until
		}
	}
	if len(s.byKey) >= maxSessions {
		delete(s.byKey, first)
	}
}

// of is a request's session, if it has one that lasts.
func (s *sessions) of(r *http.Request) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, known := s.byKey[keyOf(r)]
	return e, known && s.now().Before(e.Until)
}

// end forgets a request's session and returns the cookie that says so.
func (s *sessions) end(r *http.Request) *http.Cookie {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.byKey[keyOf(r)]; known {
		delete(s.byKey, keyOf(r))
		s.unsaved = true
	}
	return cookie("", r.TLS != nil, -1)
}

// keyOf is the key of a request's cookie, and a key of nothing without one.
func keyOf(r *http.Request) sessionKey {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return sessionKey{}
	}
	return sha256.Sum256([]byte(c.Value))
}

func cookie(value string, secure bool, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
