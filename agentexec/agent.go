package agentexec

import (
	"context"
	"net/http"
	"sync"
	"time"

	"pushd/agentexec/task"
	"pushd/server/api"
)

// lastPost bounds how long an agent that ends tries to hand over what it owes;
// what is left is on disk.
const lastPost = 5 * time.Second

// Run works until ctx ends: then nothing new is begun, what runs gets
// DrainTimeout, and what is left is stopped and reported. The error is one that
// forbids to begin, of the journal.
func (a *Agent) Run(ctx context.Context) error {
	found, err := a.deps.Journal.Recover()
	if err == nil {
		err = a.deps.Journal.Unaside()
	}
	if err != nil {
		return err
	}
	if found.Owed > 0 {
		a.cfg.Logger.Info().Int("owed", found.Owed).Int("interrupted", found.Interrupted).
			Int("released", found.Released).Msg("an earlier agent left verdicts behind; they go first")
	}
	// The parts live on while the agent drains.
	parts, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	lineCtx, hangUp := context.WithCancel(parts)
	defer hangUp()
	var rest, lines sync.WaitGroup
	rest.Go(func() { a.post.run(parts) })
	rest.Go(func() { a.gate.run(parts) })
	rest.Go(func() { a.naps.run(parts) })
	lines.Go(func() { a.line.run(lineCtx) })

	<-ctx.Done()
	a.cfg.Logger.Info().Msg("the agent stops: no new work")
	a.gate.drain()
	a.desk.drain(a.cfg.DrainTimeout) // returns when nothing runs
	hangUp()
	lines.Wait()
	stop()
	rest.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPost)
	defer cancel()
	if err := a.post.flush(last); err != nil {
		a.cfg.Logger.Warn().Err(err).Msg("some verdicts could not be posted; the next start does")
	}
	a.gate.restore(last)
	return nil
}

// client is the way to the server with the token of this moment.
func (a *Agent) client() (*api.Client, error) {
	token, err := a.deps.Token()
	via := a.deps.HTTP
	if a.single.Load() {
		via = a.alone
	}
	return &api.Client{Base: a.cfg.Server, Token: token, HTTP: via}, err
}

// closing ends the connection after each request.
type closing struct{ next http.RoundTripper }

// RoundTrip serves http.Client.
func (c closing) RoundTrip(r *http.Request) (*http.Response, error) {
	next := c.next
	if next == nil {
		next = http.DefaultTransport
	}
	r = r.Clone(r.Context())
	r.Close = true
	return next.RoundTrip(r)
}

// wait waits for d; false if ctx ends before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// arrive takes an action that came in, by stream or by poll. The error is the
// journal's: then nothing was received.
func (a *Agent) arrive(act task.Action, lastID string) error {
	if act.MachineID == "" {
		act.MachineID = a.cfg.MachineID
	}
	standing, err := a.deps.Journal.Receive(act, lastID)
	if err != nil {
		return err
	}
	a.desk.take(act, standing)
	return nil
}
