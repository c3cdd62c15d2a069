package agentexec

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"pushd/server/api"
)

// How long the answer of a preflight counts, and how soon an untold credit is
// told again.
const (
	readyFor    = 45 * time.Second
	unreadyFor  = 10 * time.Second
	creditAgain = 5 * time.Second
)

// gate keeps work away from a machine that cannot do it: it asks handlers whether
// they are ready, and tells the server a credit of 0 while one is not, or while
// the agent drains.
type gate struct {
	a      *Agent
	wake   chan struct{}
	asking chan struct{} // one preflight at a time

	mu       sync.Mutex
	checks   map[string]check // by action type
	draining bool
	told     string    // the reason the server knows for a credit of 0; empty: full credit
	knows    bool      // told is what the server has
	hellos   int       // of a server that may have forgotten a reason since
	mute     time.Time // until then nothing is told: the server does not know us
}

type check struct {
	err error
	at  time.Time
}

func newGate(a *Agent) *gate {
	return &gate{a: a, wake: make(chan struct{}, 1), asking: make(chan struct{}, 1), checks: make(map[string]check)}
}

func (g *gate) nudge() {
	select {
	case g.wake <- struct{}{}:
	default: // it knows
	}
}

// ask tells whether a type's handler is ready, from memory if that is fresh.
func (g *gate) ask(ctx context.Context, kind string, h Handler) error {
	select {
	case g.asking <- struct{}{}:
		defer func() { <-g.asking }()
	case <-ctx.Done():
		return ctx.Err() // another one may take its time
	}
	now := g.a.cfg.Now()
	g.mu.Lock()
	known, found := g.checks[kind]
	g.mu.Unlock()
	valid := readyFor
	if known.err != nil {
		valid = unreadyFor
	}
	if found && now.Sub(known.at) < valid {
		return known.err
	}
	err := h.Ready(ctx)
	if ctx.Err() != nil {
		return ctx.Err() // that says nothing of the handler
	}
	if text(err) != text(known.err) {
		level := zerolog.InfoLevel
		if err != nil {
			level = zerolog.WarnLevel
		}
		g.a.cfg.Logger.WithLevel(level).Str("type", kind).AnErr("reason", err).Msg("preflight changed")
	}
	g.mu.Lock()
	g.checks[kind] = check{err, g.a.cfg.Now()}
	g.mu.Unlock()
	g.nudge()
	return err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// reason is why the credit is 0 now; empty: it is not.
func (g *gate) reason() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.draining {
		return "the agent stops"
	}
	var failing []string
	for kind, c := range g.checks {
		if c.err != nil {
			failing = append(failing, fmt.Sprintf("%s: %v", kind, c.err))
		}
	}
	if len(failing) == 0 {
		return ""
	}
	slices.Sort(failing)
	return "preflight failed: " + strings.Join(failing, "; ")
}

// credit is what to subscribe with.
func (g *gate) credit() int {
	if g.reason() != "" {
		return 0
	}
	return g.a.cfg.MaxConcurrency
}

// hello tells a reason again: with a new instance the server forgets what an agent
// has said of its credit, and its reason.
func (g *gate) hello() {
	said := g.reason() == "" // by the subscription
	g.mu.Lock()
	g.mute = time.Time{}
	if !said {
		g.hellos++
		g.knows = false
	}
	g.mu.Unlock()
	g.nudge()
}

func (g *gate) drain() {
	g.mu.Lock()
	g.draining = true
	g.mu.Unlock()
	g.nudge()
}

// run checks all handlers at the start, what fails again and again, and tells the
// server what follows.
func (g *gate) run(ctx context.Context) {
	g.remember()
	g.round(ctx, false)
	for {
		pause := unreadyFor
		if !g.say(ctx) {
			pause = creditAgain
		} else if g.reason() == "" {
			pause = time.Hour // until something wakes it
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-g.wake:
			timer.Stop()
		case <-timer.C:
			g.round(ctx, true)
		}
	}
}

// remember takes over from an earlier agent that had set the credit down.
func (g *gate) remember() {
	lowered, err := g.a.deps.Journal.Lowered()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.knows = err == nil && !lowered
}

// round asks every handler, or those that failed last.
func (g *gate) round(ctx context.Context, onlyFailing bool) {
	for kind, h := range g.a.deps.Handlers {
		g.mu.Lock()
		failing := g.checks[kind].err != nil
		g.mu.Unlock()
		if failing || !onlyFailing {
			_ = g.ask(ctx, kind, h) // kept in checks
		}
	}
}

// say tells the server the credit where it knows another; false if it could not.
func (g *gate) say(ctx context.Context) bool {
	reason := g.reason()
	g.mu.Lock()
	same, hellos := g.knows && g.told == reason, g.hellos
	muted := g.a.cfg.Now().Before(g.mute)
	g.mu.Unlock()
	if same {
		return true
	}
	if muted {
		return false
	}
	if err := g.tell(ctx, reason); err != nil {
		if ctx.Err() == nil {
			g.a.cfg.Logger.Warn().Err(err).Str("reason", reason).Msg("the credit could not be told")
		}
		g.mu.Lock()
		if api.IsStatus(err, http.StatusUnauthorized, http.StatusForbidden) {
			g.mute = g.a.cfg.Now().Add(spread(deniedWait, g.a.cfg.Rand()))
		} else {
			g.knows = false // only the answer may be lost
		}
		g.mu.Unlock()
		return false
	}
	g.mu.Lock()
	g.told, g.knows = reason, hellos == g.hellos
	again := !g.knows
	g.mu.Unlock()
	if again {
		g.nudge()
	}
	return true
}

// tell lowers or lifts the credit. On an open server ours passes for the
// operator's, so it is lifted there and not set, to leave nothing behind.
func (g *gate) tell(ctx context.Context, reason string) error {
	client, err := g.a.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if reason != "" {
		if err := g.a.deps.Journal.SetLowered(true); err != nil {
			return err
		}
		_, err := client.SetCredit(ctx, g.a.cfg.MachineID, new(0), cut(reason, maxReason))
		return err
	}
	_, err = client.SetCredit(ctx, g.a.cfg.MachineID, nil, "")
	if api.IsStatus(err, http.StatusBadRequest) {
		_, err = client.SetCredit(ctx, g.a.cfg.MachineID, &g.a.cfg.MaxConcurrency, "")
	}
	if err != nil {
		return err
	}
	return g.a.deps.Journal.SetLowered(false)
}

// maxReason bounds the reason of a credit.
const maxReason = 512

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "…"
}

// restore gives the credit back when the agent is gone: another one of this
// machine shall not find it at 0.
func (g *gate) restore(ctx context.Context) {
	if lowered, err := g.a.deps.Journal.Lowered(); err != nil || !lowered {
		return
	}
	if err := g.tell(ctx, ""); err != nil {
		g.a.cfg.Logger.Warn().Err(err).Msg("the credit could not be given back; the next start does")
	}
}
