package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"pushd/ackstore"
	"pushd/server/api"
)

// answerTimeout bounds how long a client may take to read an answer.
const answerTimeout = 30 * time.Second

// call is one request on its way through a handler.
type call struct {
	*Server
	w     http.ResponseWriter
	r     *http.Request
	echo  echo.Context
	who   *caller
	query *query
	visit *visit
	table *hookTable // see routing
}

// answer writes v as JSON. It is rendered before the first byte leaves, so that
// nothing of the store is held while a client reads.
func (c *call) answer(status int, v any) error {
	raw, err := api.Marshal(v)
	if err != nil {
		return err
	}
	c.write(status, "application/json", append(raw, '\n'))
	return nil
}

// write sends a whole answer. Who does not take it is gone; there is nobody to tell.
func (c *call) write(status int, mediaType string, body []byte) {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(answerTimeout))
	if h := c.w.Header(); h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	c.w.Header().Set("Content-Type", mediaType)
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body)
}

// nothing answers 204.
func (c *call) nothing() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// pathID is the id in the path; no thing has another form.
func (c *call) pathID(thing string) (string, error) {
	id := c.echo.Param("id")
	if !idForm.MatchString(id) {
		return "", noSuch(thing, id)
	}
	return id, nil
}

// pathMachine is the machine in the path, if the caller has power p over it. One
// that is no machine's id is refused in the order of section 3: who may nothing
// learns nothing of it.
func (c *call) pathMachine(p power) (string, error) {
	id := c.echo.Param("id")
	if !c.who.over(p, id) {
		return "", outOfReach(id)
	}
	if !idForm.MatchString(id) {
		return "", noSuch("machine", id)
	}
	c.visit.machine = id
	return id, nil
}

// newMachine is pathMachine for an act that makes a machine which is not known.
func (c *call) newMachine(p power) (string, error) {
	id, err := c.pathMachine(p)
	if err == nil && strings.HasPrefix(id, "pool:") {
		return "", refuseField(malformed, "machine_id", "%s: ids that begin with pool: are reserved", quote(id))
	}
	return id, err
}

// ownAction is the id in the path, if the caller has power p over its machine.
func (c *call) ownAction(p power) (string, error) {
	id, err := c.pathID("action")
	if err != nil || c.who.reach(p) == nil {
		return id, err
	}
	owners, err := c.store.Owners(c.r.Context(), []string{id})
	if err != nil {
		return "", err
	}
	if owners[0] != "" && !c.who.over(p, owners[0]) {
		return "", refuse(forbidden, "the token does not cover the machine of action %s", quote(id))
	}
	return id, nil
}

// writeProblem is the one place where an error becomes an answer.
func (s *Server) writeProblem(m *meter, r *http.Request, refused *refusal) {
	if refused.cause != nil {
		visitOf(r).err = refused.cause
	}
	if m.status != 0 {
		return // an answer has begun; what went wrong is in the log
	}
	refused.headers(m.Header())
	problem := refused.problem()
	raw, err := api.Marshal(problem)
	if err != nil {
		raw = []byte(`{"type":"/problems/internal","title":"The server made a mistake","status":500,"detail":"no problem could be written"}`)
	}
	_ = http.NewResponseController(m).SetWriteDeadline(time.Now().Add(answerTimeout))
	h := m.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Length")
	m.WriteHeader(problem.Status)
	if r.Method != http.MethodHead {
		_, _ = m.Write(append(raw, '\n'))
	}
}

func stateText(s ackstore.State) string {
	if s == 0 {
		return ""
	}
	return s.String()
}
