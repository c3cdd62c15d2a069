package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rs/zerolog"

	"pushd/stream"
)

// visit is what the log line of a request tells. No path, query, payload or token
// is in it: the route's template says enough.
type visit struct {
	id, route, machine string
	err                error // that made a 5xx
	handedOver         bool  // its answer goes on without its handler, and is logged when it ends
}

type visitKey struct{}

func visitOf(r *http.Request) *visit {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		return v
	}
	return &visit{}
}

// ServeHTTP is the outermost layer: it counts, recovers and logs.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests.enter()
	defer s.requests.leave()
	v := &visit{id: fmt.Sprintf("%s-%d", s.boot, s.serial.Add(1))}
	m := &meter{ResponseWriter: w}
	m.Header().Set("X-Request-Id", v.id)
	// The deadline of the answer before this one on its connection may be past, and
	// would fail what net/http writes by itself: 100 Continue.
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{})
	if r.Body != nil && r.Body != http.NoBody {
		// Who does not read it leaves that to net/http, which would wait for ever.
		_ = control.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout))
	}
	secure(m.Header())
	began := time.Now()
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	defer func() {
		s.recovered(recover(), m, r, v)
		if !v.handedOver {
			s.logVisit(r, v, m, time.Since(began))
		}
	}()
	s.echo.ServeHTTP(m, r)
}

// secure says what a browser must not do with an answer. The dashboard's page,
// which is to run, says otherwise.
func secure(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
}

// recovered answers for a handler that panicked; the connection goes on if its
// answer had not begun.
func (s *Server) recovered(what any, m *meter, r *http.Request, v *visit) {
	switch {
	case what == nil:
		return
	case what == http.ErrAbortHandler: //nolint:errorlint // net/http compares it so
		panic(what)
	}
	v.err = fmt.Errorf("server: panic: %v", what)
	s.logPanic(v, what, debug.Stack())
	if m.status != 0 {
		panic(http.ErrAbortHandler)
	}
	s.writeProblem(m, r, refuse(broken, "the request could not be served; the log says why"))
}

func (s *Server) logPanic(v *visit, what any, stack []byte) {
	if worker, is := what.(*stream.PanicError); is {
		what, stack = worker.Value, worker.Stack
	}
	s.cfg.Logger.Error().Str("request", v.id).Str("route", v.route).
		Str("panic", fmt.Sprint(what)).Bytes("stack", stack).Msg("a handler panicked")
}

func (s *Server) logVisit(r *http.Request, v *visit, m *meter, took time.Duration) {
	if m.status != 0 {
		s.metrics.Answered(v.route, m.status)
	}
	event := s.cfg.Logger.WithLevel(levelOf(m.status))
	if event == nil {
		return
	}
	event = event.Str("request", v.id).Str("method", r.Method).Str("route", v.route).
		Int("status", m.status).Dur("took", took).Int64("bytes", m.bytes)
	if v.machine != "" {
		event = event.Str("machine", v.machine)
	}
	if v.err != nil {
		event = event.AnErr("cause", v.err)
	}
	event.Msg("request")
}

func levelOf(status int) zerolog.Level {
	switch {
	case status == http.StatusServiceUnavailable:
		return zerolog.WarnLevel
	case status >= 500:
		return zerolog.ErrorLevel
	}
	return zerolog.DebugLevel
}

// meter notes what goes out. It hides nothing: ResponseController finds the
// writer beneath.
type meter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap serves http.ResponseController.
func (m *meter) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// WriteHeader notes the final status.
func (m *meter) WriteHeader(status int) {
	if status >= 200 {
		m.status = status
	}
	m.ResponseWriter.WriteHeader(status)
}

func (m *meter) Write(b []byte) (int, error) {
	if m.status == 0 {
		m.status = http.StatusOK
	}
	n, err := m.ResponseWriter.Write(b)
	m.bytes += int64(n)
	return n, err
}

// FlushError sends what is buffered, and with it the header.
func (m *meter) FlushError() error {
	if m.status == 0 {
		m.status = http.StatusOK
	}
	return http.NewResponseController(m.ResponseWriter).Flush()
}

// Flush serves those who only know http.Flusher.
func (m *meter) Flush() { _ = m.FlushError() }
