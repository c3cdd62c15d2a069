package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"pushd/docs"
)

// pulse remembers for a moment whether the store could write: whoever asks needs
// no token, and must not be able to make the disk busy.
type pulse struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

const pulseLife = time.Second

func (p *pulse) feel(now time.Time, look func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if age := now.Sub(p.at); p.at.IsZero() || age >= pulseLife || age < 0 {
		p.err, p.at = look(), now
	}
	return p.err
}

type status struct {
	Status  string `json:"status"`
	Version string `json:"version,omitempty"`
}

// health is GET /healthz: alive and able to write.
func (c *call) health() error {
	err := c.pulse.feel(c.cfg.Now(), func() error {
		// Another asker will have this answer: it must not hang on this one's patience.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), 5*time.Second)
		defer cancel()
		return c.store.Writable(ctx)
	})
	if err != nil {
		r := refuse(unavailable, "the store cannot write now")
		r.cause = err
		return r
	}
	return c.answer(http.StatusOK, status{"ok", c.cfg.Version})
}

// ready is GET /readyz.
func (c *call) ready() error {
	if c.draining.Load() {
		return refuse(draining, "the server is stopping")
	}
	return c.answer(http.StatusOK, status{"ready", c.cfg.Version})
}

// describe is GET /openapi.yaml.
func (c *call) describe() error {
	c.write(http.StatusOK, "application/yaml; charset=utf-8", docs.OpenAPI)
	return nil
}
