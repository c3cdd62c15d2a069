package agentexec

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"pushd/agentexec/journal"
	"pushd/agentexec/task"
	"pushd/policy"
)

// Config says how an agent behaves. Zero values are the defaults.
type Config struct {
	Server         string // http://127.0.0.1:8080
	MachineID      string
	MaxConcurrency int           // 1
	OrphanTimeout  time.Duration // 0: the server's
	DrainTimeout   time.Duration // 30 s: what running work gets at the end
	MaxResult      int           // bytes; 1 MiB less what surrounds it

	FirstByte   time.Duration // 10 s: without a byte for this long a proxy holds the stream
	PollWait    time.Duration // 20 s
	PollSpell   time.Duration // 5 min: then the stream is tried again, doubling to 1 h
	BeatEvery   time.Duration // 30 s
	WorkingFrom time.Duration // 5 s: working acks come no closer than this
	WorkingTo   time.Duration // 10 s: nor further apart while the pulse goes on
	Healthy     time.Duration // 30 s: a stream this old starts the backoff anew

	Now    func() time.Time // time.Now; what a wall clock shows
	Rand   func() float64   // 0 to 1; math/rand
	Logger zerolog.Logger
}

// Deps are what an agent stands on. It closes none of them.
type Deps struct {
	Journal  *journal.Journal
	HTTP     *http.Client           // without a Timeout, which would cut streams
	Token    func() (string, error) // the bearer token now; empty: none
	Handlers map[string]Handler     // by action type
}

// Handler does the work of one action type.
type Handler interface {
	// Run executes a job and bumps its pulse. When ctx ends it stops what it
	// started and returns soon; the cause says why.
	Run(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict
	// Ready tells whether the work can be done at all; it may be asked often.
	Ready(ctx context.Context) error
}

// WithDefaults fills in what is not set.
func (c Config) WithDefaults() Config {
	number(&c.MaxConcurrency, 1)
	number(&c.MaxResult, 1<<20-4<<10)
	number(&c.DrainTimeout, 30*time.Second)
	number(&c.FirstByte, 10*time.Second)
	number(&c.PollWait, 20*time.Second)
	number(&c.PollSpell, 5*time.Minute)
	number(&c.BeatEvery, 30*time.Second)
	number(&c.WorkingFrom, 5*time.Second)
	number(&c.WorkingTo, 10*time.Second)
	number(&c.Healthy, 30*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

func number[T int | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

func (c Config) validate() error {
	switch {
	case c.Server == "":
		return errors.New("agentexec: no server")
	case c.MachineID == "":
		return errors.New("agentexec: no machine id")
	case c.MaxConcurrency < 1 || c.MaxConcurrency > 1000:
		return errors.New("agentexec: max_concurrency must be 1 to 1000")
	}
	return nil
}

// Agent is one machine's agent.
type Agent struct {
	cfg   Config
	deps  Deps
	desk  *desk
	post  *post
	line  *line
	gate  *gate
	naps  *napWatch
	ready chan struct{} // closed with the first hello or poll
	once  sync.Once
	mark  string // begins the run ids of this directory's agent

	// A proxy that holds answers until their connection ends gives them up when
	// there is one connection to a request.
	single atomic.Bool
	alone  *http.Client
}

// New returns an agent that Run starts.
func New(cfg Config, deps Deps) (*Agent, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if deps.HTTP == nil {
		deps.HTTP = &http.Client{}
	}
	if deps.Token == nil {
		deps.Token = func() (string, error) { return "", nil }
	}
	key, err := deps.Journal.Key()
	if err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, deps: deps, ready: make(chan struct{}), mark: key + "."}
	a.alone = &http.Client{CheckRedirect: deps.HTTP.CheckRedirect, Transport: closing{deps.HTTP.Transport}}
	a.post = newPost(a)
	a.gate = newGate(a)
	a.desk = newDesk(a)
	a.line = newLine(a)
	a.naps = newNapWatch(cfg.Now)
	return a, nil
}

// Ready is closed once the agent is subscribed.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

func (a *Agent) online() { a.once.Do(func() { close(a.ready) }) }

// kindOf is the kind as an ack spells it.
func kindOf(k policy.Kind) string {
	if k == "" {
		return string(policy.Error)
	}
	return string(k)
}
