package agentexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushd/agentexec"
	"pushd/agentexec/journal"
	"pushd/agentexec/task"
	"pushd/policy"
	"pushd/server/api"
)

// rig is an agent in a bubble and a server that does as a test says, over pipes.
type rig struct {
	t      *testing.T
	path   string
	cfg    agentexec.Config
	deps   agentexec.Deps
	srv    *http.Server
	pipes  *pipes
	stop   context.CancelFunc
	gone   chan error
	begun  time.Time
	mu     sync.Mutex
	visits []visit
	acks   []api.Ack
	credit []any

	reasons []string // of credits

	events func(w *answer, r *http.Request)    // GET /events
	next   func(w *answer, r *http.Request)    // POST /next
	beat   func(w *answer, r *http.Request)    // POST …/beat
	judge  func(a api.Ack) (outcome api.Acked) // of each ack
	refuse func(r *http.Request) int           // a status instead of all these
	again  string                              // Retry-After of a refusal
	taken  func(acks []api.Ack) (status int)   // of a request with acks; nil: 200
}

// visit is one request of /events or /next.
type visit struct {
	at             time.Duration
	path, last, id string
	closing        bool // its connection ends with it
}

// answer writes events.
type answer struct{ http.ResponseWriter }

func (w *answer) frame(text string) {
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *answer) hello(extra ...string) {
	more := ""
	if len(extra) > 0 {
		more = "," + extra[0]
	}
	w.frame(`retry: 2000` + "\n" + `event: hello` + "\n" + `data: {"stream_id":"s1","heartbeat_s":15,"max_in_flight":1` + more + "}\n\n")
}

func (w *answer) action(id int, actionID string, delivery int, extra ...string) {
	w.frame(actionFrame(id, actionID, delivery, extra...))
}

func actionFrame(id int, actionID string, delivery int, extra ...string) string {
	return fmt.Sprintf("id: %d\nevent: action\ndata: {\"action_id\":%q,\"delivery\":%d,\"machine_id\":\"m\",\"type\":\"work\",\"payload\":{}%s}\n\n",
		id, actionID, delivery, strings.Join(extra, ""))
}

func (w *answer) bye(reason string, ms int) {
	w.frame(fmt.Sprintf("event: bye\ndata: {\"reason\":%q,\"retry_ms\":%d}\n\n", reason, ms))
}

// stay keeps the stream open, with heartbeats, until the client leaves.
func (w *answer) stay(r *http.Request) {
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(15 * time.Second):
			w.frame("event: hb\ndata: {}\n\n")
		}
	}
}

// nothing answers a poll after the time that it waits.
func nothing(w *answer, req *http.Request) {
	hold, err := time.ParseDuration(req.URL.Query().Get("wait_s") + "s")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	linger(req, hold)
	w.WriteHeader(http.StatusNoContent)
}

// held is a stream of which no byte arrives.
func held(_ *answer, req *http.Request) { <-req.Context().Done() }

// linger keeps a request open, for as long as its client stays.
func linger(r *http.Request, d time.Duration) {
	select {
	case <-r.Context().Done():
	case <-time.After(d):
	}
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "agent.db"), pipes: newPipes(), begun: time.Now()}
	r.events = func(w *answer, req *http.Request) { w.hello(); w.stay(req) }
	r.next = func(w *answer, req *http.Request) { w.WriteHeader(http.StatusNoContent) }
	r.beat = r.next
	r.judge = func(a api.Ack) api.Acked {
		outcome := map[string]string{"received": "accepted", "working": "accepted", "released": "released"}[a.Status]
		if outcome == "" {
			outcome = "settled"
		}
		return api.Acked{ActionID: a.ActionID, Outcome: outcome}
	}
	r.refuse = func(*http.Request) int { return 0 }
	r.deps.Handlers = map[string]agentexec.Handler{"work": &worker{}}
	r.cfg = agentexec.Config{Server: "http://pushd", MachineID: "m", Logger: zerolog.New(zerolog.NewTestWriter(t)), Rand: func() float64 { return 0.5 }}
	r.srv = &http.Server{Handler: r}
	go func() { _ = r.srv.Serve(r.pipes) }()
	t.Cleanup(func() {
		if r.stop != nil {
			r.end()
		}
		_ = r.srv.Close()
		synctest.Wait()
	})
	return r
}

// change changes what the server does while it does it.
func (r *rig) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// start runs an agent over the journal as it is.
func (r *rig) start() {
	j, err := journal.Open(r.path)
	require.NoError(r.t, err)
	r.deps.Journal = j
	transport := &http.Transport{DialContext: r.pipes.dial}
	r.deps.HTTP = &http.Client{Transport: transport}
	a, err := agentexec.New(r.cfg, r.deps)
	require.NoError(r.t, err)
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.gone = stop, make(chan error, 1)
	go func() {
		err := a.Run(ctx)
		transport.CloseIdleConnections()
		r.gone <- errors.Join(err, j.Close())
	}()
}

// end stops the agent and waits for it.
func (r *rig) end() {
	r.stop()
	require.NoError(r.t, <-r.gone)
	r.stop = nil
}

func (r *rig) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	out := &answer{w}
	if req.URL.Path == "/events" || req.URL.Path == "/next" {
		r.mu.Lock()
		r.visits = append(r.visits, visit{time.Since(r.begun), req.URL.Path, req.Header.Get("Last-Event-ID"), req.URL.Query().Get("instance_id"), req.Close})
		r.mu.Unlock()
	}
	r.mu.Lock()
	refuse, events, next, beat, again := r.refuse, r.events, r.next, r.beat, r.again
	r.mu.Unlock()
	if status := refuse(req); status != 0 {
		if again != "" {
			w.Header().Set("Retry-After", again)
		}
		w.WriteHeader(status)
		return
	}
	switch {
	case req.URL.Path == "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		events(out, req)
	case req.URL.Path == "/next":
		next(out, req)
	case req.URL.Path == "/acks":
		r.takeAcks(w, req)
	case strings.HasSuffix(req.URL.Path, "/beat"):
		beat(out, req)
	case req.Method == http.MethodPatch:
		var body map[string]any
		_ = json.NewDecoder(req.Body).Decode(&body)
		r.mu.Lock()
		r.credit = append(r.credit, body["max_in_flight"])
		if why, _ := body["reason"].(string); why != "" {
			r.reasons = append(r.reasons, why)
		}
		r.mu.Unlock()
		_, _ = io.WriteString(w, "{}")
	}
}

func (r *rig) takeAcks(w http.ResponseWriter, req *http.Request) {
	var acks []api.Ack
	require.NoError(r.t, json.NewDecoder(req.Body).Decode(&acks))
	if r.taken != nil {
		if status := r.taken(acks); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	answers := []api.Acked{}
	for _, a := range acks {
		r.mu.Lock()
		r.acks = append(r.acks, a)
		r.mu.Unlock()
		answers = append(answers, r.judge(a))
	}
	_ = json.NewEncoder(w).Encode(answers)
}

// said is what was acked so far: "a1/1 received", …
func (r *rig) said() (list []string) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.acks {
		text := fmt.Sprintf("%s/%d %s", a.ActionID, a.Delivery, a.Status)
		if a.Error != nil {
			text += " " + a.Error.Kind + " " + a.Error.Code
		}
		list = append(list, text)
	}
	return list
}

func (r *rig) seen() []visit {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]visit(nil), r.visits...)
}

// gaps are the times between visits, in seconds.
func (r *rig) gaps() []float64 { return gaps(r.seen()) }

// streams are the visits of /events.
func (r *rig) streams() (list []visit) {
	for _, v := range r.seen() {
		if v.path == "/events" {
			list = append(list, v)
		}
	}
	return list
}

func gaps(all []visit) (list []float64) {
	for i := 1; i < len(all); i++ {
		list = append(list, (all[i].at - all[i-1].at).Seconds())
	}
	return list
}

// worker does what a test lets it.
type worker struct {
	mu    sync.Mutex
	runs  []string
	do    func(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict
	ready func(ctx context.Context) error
}

func (w *worker) Run(ctx context.Context, job task.Job, pulse *task.Pulse) task.Verdict {
	w.mu.Lock()
	w.runs = append(w.runs, job.ActionID)
	w.mu.Unlock()
	if w.do != nil {
		return w.do(ctx, job, pulse)
	}
	return done()
}

func (w *worker) Ready(ctx context.Context) error {
	if w.ready != nil {
		return w.ready(ctx)
	}
	return nil
}

func (w *worker) ran() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.runs...)
}

func done() task.Verdict {
	return task.Verdict{Outcome: policy.Outcome{Status: policy.Done}, Result: json.RawMessage(`{"ok":true}`)}
}

// slowly works for a second, so that its verdict cannot come before its receipt
// was posted, which is then left out.
func slowly(context.Context, task.Job, *task.Pulse) task.Verdict {
	time.Sleep(time.Second)
	return done()
}

// untilStopped works until its context ends.
func untilStopped(ctx context.Context, _ task.Job, _ *task.Pulse) task.Verdict {
	<-ctx.Done()
	return task.Verdict{Outcome: policy.Outcome{Status: policy.Cancelled}}
}

// pipes is a network without sockets.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// credits are the values of max_in_flight that were set; one that was set again is
// none.
func (r *rig) credits() []any {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Clone(r.credit))
}
