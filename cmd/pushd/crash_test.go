package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/server/api"
	"pushd/stream"
)

var crashRounds = flag.Int("crash.rounds", 15, "how often TestKillLoop kills the server")

// TestKillLoop kills the server again and again while senders push and an agent
// works, and holds what each was promised against what is there.
func TestKillLoop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newWitness()
	for round := range *crashRounds {
		d, err := start(dir)
		require.NoError(t, err)
		require.NoError(t, d.ready(), "round %d", round)
		w.play(d, round)
		d.kill()
		require.NoError(t, d.stop())
		w.close()
		require.Empty(t, w.faults, "round %d", round)
	}
	d := serve(t, dir)
	w.settleAll(t, d)
	require.Empty(t, w.faults)
	t.Logf("%d kills, %d pushes accepted, %d results taken", *crashRounds, len(w.accepted), len(w.settled))
	require.Greater(t, len(w.settled), *crashRounds, "there was hardly any load")
}

// witness remembers what was promised, across the lives of a server.
type witness struct {
	mu       sync.Mutex
	accepted map[string]bool // pushes with a 2xx
	settled  map[string]bool // a done with a 2xx
	seen     map[string]int  // highest delivery read
	lastID   uint64
	faults   []string
	moved    chan struct{} // a token for each result that was taken

	stop context.CancelFunc
	wg   sync.WaitGroup
}

func newWitness() *witness {
	return &witness{accepted: map[string]bool{}, settled: map[string]bool{}, seen: map[string]int{}, moved: make(chan struct{}, 1<<16)}
}

func (w *witness) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// play loads a server until a random number of results has been taken.
func (w *witness) play(d *daemon, round int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.stop = cancel
	for sender := range 2 {
		w.wg.Go(func() { w.send(ctx, d.client(), fmt.Sprintf("r%03d-%d", round, sender)) })
	}
	w.wg.Go(func() { w.work(ctx, d.client()) })
	for range 1 + rand.IntN(80) {
		select {
		case <-w.moved:
		case <-ctx.Done():
			return
		}
	}
}

// close ends the players of a round; the server is gone already.
func (w *witness) close() {
	w.stop()
	w.wg.Wait()
	for len(w.moved) > 0 {
		<-w.moved
	}
}

func (w *witness) send(ctx context.Context, c *api.Client, prefix string) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%s-%05d", prefix, n)
		_, err := c.Push(ctx, api.Push{ActionID: id, MachineID: "m1", SessionID: "s" + strconv.Itoa(n%4), Type: "job", Payload: json.RawMessage(strconv.Itoa(n))})
		if err != nil {
			return // killed
		}
		w.mu.Lock()
		w.accepted[id] = true
		w.mu.Unlock()
	}
}

// work is an agent that gives one instance and keeps its last event id, as one
// that survives its server does.
func (w *witness) work(ctx context.Context, c *api.Client) {
	credit := 8
	w.mu.Lock()
	last := strconv.FormatUint(w.lastID, 10)
	w.mu.Unlock()
	resp, err := c.Subscribe(ctx, api.Subscription{MachineID: "m1", InstanceID: "i1", MaxInFlight: &credit, LastEventID: last})
	if err != nil {
		return
	}
	defer resp.Body.Close()
	events := stream.NewDecoder(resp.Body)
	for {
		event, err := events.Next()
		if err != nil {
			return
		}
		switch event.Name {
		case "hello":
			w.finishHeld(ctx, c, event.Data)
		case "action":
			if id, delivery, ok := w.see(event); ok {
				w.finish(ctx, c, id, delivery)
			}
		}
	}
}

// see notes an event and what it breaks.
func (w *witness) see(event stream.Event) (id string, delivery int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var e struct {
		ActionID string `json:"action_id"`
		Delivery int    `json:"delivery"`
	}
	number, err := strconv.ParseUint(event.ID, 10, 64)
	if err = errors.Join(err, json.Unmarshal(event.Data, &e)); err != nil {
		w.fault("event %q: %v", event.ID, err)
		return "", 0, false
	}
	if number <= w.lastID {
		w.fault("event id %d after %d", number, w.lastID)
	}
	w.lastID = number
	if w.settled[e.ActionID] {
		w.fault("%s was sent again after its done was taken", e.ActionID)
	}
	if before := w.seen[e.ActionID]; before > 0 {
		w.fault("%s came as delivery %d, although delivery %d had been read", e.ActionID, e.Delivery, before)
	}
	w.seen[e.ActionID] = e.Delivery
	return e.ActionID, e.Delivery, true
}

// finishHeld answers for what an earlier life had handed over.
func (w *witness) finishHeld(ctx context.Context, c *api.Client, hello []byte) {
	var h struct {
		InFlight []struct {
			ActionID string `json:"action_id"`
		} `json:"in_flight"`
	}
	if err := json.Unmarshal(hello, &h); err != nil {
		w.fault("hello: %v", err)
	}
	for _, held := range h.InFlight {
		w.mu.Lock()
		delivery := w.seen[held.ActionID]
		w.mu.Unlock()
		if delivery > 0 {
			w.finish(ctx, c, held.ActionID, delivery)
		}
	}
}

func (w *witness) finish(ctx context.Context, c *api.Client, id string, delivery int) {
	answer, err := c.Ack(ctx, api.Ack{ActionID: id, Status: "done", Delivery: delivery})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && (answer.Outcome == "settled" || answer.Outcome == "duplicate"):
		w.settled[id] = true
		select {
		case w.moved <- struct{}{}:
		default:
		}
	case err == nil:
		w.fault("done of %s was answered %s", id, answer.Outcome)
	case api.IsStatus(err, http.StatusNotFound, http.StatusConflict):
		w.fault("done of %s: %v", id, err)
	}
}

// settleAll lets a healthy agent settle the rest and then looks at everything.
func (w *witness) settleAll(t *testing.T, d *daemon) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	w.wg.Go(func() { w.work(ctx, d.client()) })
	require.Eventually(t, func() bool { return open(t, d.client()) == 0 }, 4*patience, 50*time.Millisecond, "some are never settled")
	cancel()
	w.wg.Wait()
	for id := range w.accepted {
		r, err := d.client().Action(t.Context(), id, 0)
		require.NoError(t, err, "%s was accepted", id)
		require.Equal(t, "done", r.State, id)
		w.settled[id] = true
	}
	q, err := d.client().Queue(t.Context())
	require.NoError(t, err)
	require.Equal(t, q.Counts["done"], countAll(t, d.client()), "the counts are not what a full scan finds")
}

// open is how many actions are not settled.
func open(t *testing.T, c *api.Client) int {
	q, err := c.Queue(t.Context())
	if err != nil {
		return -1
	}
	return q.Counts["queued"] + q.Counts["scheduled"] + q.Counts["in_flight"] + q.Counts["in_doubt"]
}

func countAll(t *testing.T, c *api.Client) int {
	t.Helper()
	n, cursor := 0, ""
	for {
		page, err := c.Actions(t.Context(), api.ActionFilter{Limit: 1000, Cursor: cursor})
		require.NoError(t, err)
		n += len(page.Items)
		if cursor = page.NextCursor; cursor == "" {
			return n
		}
	}
}
