package server

import (
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
	sessionLife    = 7 * 24 * time.Hour // after its last use
	maxSessions    = 10_000
	sessionIDBytes = 32
)

// sessions maps a cookie's random value to a token's id. They live in memory: a
// restart ends them, and so does their token's end.
type sessions struct {
	now  func() time.Time
	rand io.Reader

	mu   sync.Mutex
	byID map[string]*session
}

type session struct {
	tokenID string
	used    time.Time
}

func newSessions(now func() time.Time, rand io.Reader) *sessions {
	return &sessions{now: now, rand: rand, byID: map[string]*session{}}
}

// begin returns the cookie of a new session of a token.
func (s *sessions) begin(tokenID string, secure bool) (*http.Cookie, error) {
	var raw [sessionIDBytes]byte
	if _, err := io.ReadFull(s.rand, raw[:]); err != nil {
		return nil, err
	}
	id := base64.RawURLEncoding.EncodeToString(raw[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	s.byID[id] = &session{tokenID, s.now()}
	return cookie(id, secure, int(sessionLife/time.Second)), nil
}

// trim drops what has not been used for long, and the oldest when there are too
// many. The lock is held.
func (s *sessions) trim() {
	oldest, id := s.now(), ""
	for key, e := range s.byID {
		if s.now().Sub(e.used) > sessionLife {
			delete(s.byID, key)
		} else if e.used.Before(oldest) {
			oldest, id = e.used, key
		}
	}
	if len(s.byID) >= maxSessions {
		delete(s.byID, id)
	}
}

// token is the token of a request's session.
func (s *sessions) token(r *http.Request) (id string, ok bool) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[c.Value]
	if e == nil || s.now().Sub(e.used) > sessionLife {
		return "", false
	}
	e.used = s.now()
	return e.tokenID, true
}

// end forgets a request's session and returns the cookie that says so.
func (s *sessions) end(r *http.Request) *http.Cookie {
	if c, err := r.Cookie(cookieName); err == nil {
		s.mu.Lock()
		delete(s.byID, c.Value)
		s.mu.Unlock()
	}
	return cookie("", r.TLS != nil, -1)
}

func cookie(value string, secure bool, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
