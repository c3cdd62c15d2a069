package agentexec

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"pushd/agentexec/journal"
	"pushd/server/api"
)

// Bounds of one request of the post.
const (
	batchAcks    = 200
	batchBytes   = 4 << 20
	postTimeout  = 30 * time.Second
	postFirst    = time.Second
	postMost     = 30 * time.Second
	statusTaken  = "received"
	statusAtWork = "working"
)

// post carries acks. Verdicts wait in the journal; received and working, which a
// newer ack of their action makes worthless, wait here.
type post struct {
	a    *Agent
	wake chan struct{}
	turn chan struct{} // one request at a time: acks of an action go in order

	mu    sync.Mutex
	light map[string]api.Ack
	order []string
}

func newPost(a *Agent) *post {
	return &post{a: a, wake: make(chan struct{}, 1), turn: make(chan struct{}, 1), light: make(map[string]api.Ack)}
}

// nudge says that there is something to post.
func (p *post) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it knows
	}
}

// say queues a received or working; only the newest of an action is kept.
func (p *post) say(ack api.Ack) {
	p.mu.Lock()
	if _, waits := p.light[ack.ActionID]; !waits {
		p.order = append(p.order, ack.ActionID)
	}
	p.light[ack.ActionID] = ack
	p.mu.Unlock()
	p.nudge()
}

// drop takes back what is queued of an action: its verdict says more.
func (p *post) drop(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.light, id) // its place in order is skipped
}

// pick takes what is queued.
func (p *post) pick(most int) (acks []api.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.order) > 0 && len(acks) < most {
		id := p.order[0]
		p.order = p.order[1:]
		if ack, waits := p.light[id]; waits {
			acks = append(acks, ack)
			delete(p.light, id)
		}
	}
	return acks
}

// putBack queues again what could not be sent and has no newer word.
func (p *post) putBack(acks []api.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ack := range acks {
		if _, newer := p.light[ack.ActionID]; !newer && p.a.desk.knows(ack.ActionID) {
			p.order = append(p.order, ack.ActionID)
			p.light[ack.ActionID] = ack
		}
	}
}

// run posts what comes until ctx ends.
func (p *post) run(ctx context.Context) {
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		for {
			err := p.flush(ctx)
			if err == nil || ctx.Err() != nil {
				failures = 0
				break
			}
			failures++
			p.a.cfg.Logger.Warn().Err(err).Int("try", failures).Msg("acks could not be posted; they are kept")
			if !wait(ctx, p.pause(err, failures)) {
				return
			}
		}
	}
}

func (p *post) pause(err error, failures int) time.Duration {
	if api.IsStatus(err, http.StatusUnauthorized, http.StatusForbidden) {
		return spread(deniedWait, p.a.cfg.Rand())
	}
	if after := retryAfter(err); after > 0 {
		return spread(after, p.a.cfg.Rand())
	}
	limit := min(postFirst<<min(failures-1, 10), postMost)
	return time.Duration(float64(limit) * p.a.cfg.Rand())
}

func retryAfter(err error) time.Duration {
	var refusal *api.Error
	if errors.As(err, &refusal) {
		return refusal.RetryAfter
	}
	return 0
}

// flush posts until nothing is left that may be posted.
func (p *post) flush(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		light := p.pick(batchAcks)
		owed, err := p.a.deps.Journal.Owed(batchAcks, batchBytes)
		if err != nil {
			p.putBack(light)
			return err
		}
		if len(light)+len(owed) == 0 {
			return nil
		}
		if err := p.send(ctx, light, owed); err != nil {
			return err
		}
	}
}

// send posts one batch; one that cannot be read as a whole goes ack by ack.
func (p *post) send(ctx context.Context, light []api.Ack, owed []journal.Owed) error {
	answers, err := p.ask(ctx, batch(light, owed))
	if api.IsStatus(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge) {
		if len(owed) > 0 {
			p.putBack(light) // the fault is a verdict's, or shows when they go alone
		}
		for _, o := range owed {
			if err := p.single(ctx, o); err != nil {
				return err
			}
		}
		return nil // light ones that cannot be read are worth nothing
	}
	if err != nil {
		p.putBack(light)
		return err
	}
	for i, answer := range answers {
		if i < len(light) {
			p.hear(light[i], answer)
		} else if i < len(light)+len(owed) {
			o := owed[i-len(light)]
			if err := p.settle(o, answer.Outcome); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *post) ask(ctx context.Context, acks []api.Ack) ([]api.Acked, error) {
	client, err := p.a.client()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	answers, err := client.AckAll(ctx, acks)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p.a.single.Store(true) // perhaps the answer is held until the connection ends
	}
	if err == nil && len(answers) != len(acks) {
		err = errors.New("agentexec: the answer to the acks has another length than they")
	}
	return answers, err
}

func batch(light []api.Ack, owed []journal.Owed) []api.Ack {
	acks := make([]api.Ack, 0, len(light)+len(owed))
	acks = append(acks, light...)
	for _, o := range owed {
		acks = append(acks, o.Ack)
	}
	return acks
}

// single posts one verdict whose batch was refused. What is too large loses its
// result, what cannot be read at all is given up, loudly: it would be refused for
// ever and everything behind it with it.
func (p *post) single(ctx context.Context, o journal.Owed) error {
	answers, err := p.ask(ctx, []api.Ack{o.Ack})
	switch {
	case err == nil:
		return p.settle(o, answers[0].Outcome)
	case api.IsStatus(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge) && len(o.Ack.Result) > len(dropped):
		p.a.cfg.Logger.Error().Err(err).Str("action", o.Ack.ActionID).Msg("the server does not take this result; the verdict goes without it")
		return p.a.deps.Journal.Shrink(o, []byte(dropped))
	case api.IsStatus(err, http.StatusBadRequest, http.StatusRequestEntityTooLarge):
		p.a.cfg.Logger.Error().Err(err).Str("action", o.Ack.ActionID).Str("verdict", o.Ack.Status).Msg("the server cannot read this verdict; it is kept aside")
		return p.a.deps.Journal.Answered(o, journal.Refused)
	}
	return err
}

const dropped = `{"dropped":"the server did not take this result"}`

// hear takes the answer to a sign of life.
func (p *post) hear(ack api.Ack, answer api.Acked) {
	if answer.Cancel {
		p.a.desk.cancel(ack.ActionID, "the server's answer to an ack")
	}
}

// settle takes the answer to a verdict.
func (p *post) settle(o journal.Owed, outcome string) error {
	log := p.a.cfg.Logger.With().Str("action", o.Ack.ActionID).Str("verdict", o.Ack.Status).Str("outcome", outcome).Logger()
	fate := journal.Taken
	switch outcome {
	case "stale", "conflict", "unknown":
		fate = journal.NotTaken
		log.Warn().Msg("the server did not take a verdict")
	case "forbidden":
		fate = journal.Refused
		log.Error().Msg("the token does not cover this action; its verdict is kept aside until the next start")
	default:
		log.Info().Msg("answered")
	}
	return p.a.deps.Journal.Answered(o, fate)
}
