package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pushd/server/api"
	"pushd/stream"
)

// load is one way of pushing: so many machines, each with a sender that waits
// for the answer to a push before the next, and at most `ahead` unacked.
type load struct {
	machines int
	duration time.Duration
	payload  int
	ahead    int
	rate     int // pushes per second over all machines; 0: as fast as answers come
}

// lane is one machine of a load: its sender and its agent.
type lane struct {
	load    load
	c       *api.Client
	machine string
	began   sync.Map // action_id to the start of its push
	slots   chan struct{}
	mu      sync.Mutex
	took    []time.Duration
	cycles  *atomic.Int64
}

// benchCycles runs a load against a server of its own and scores it.
func benchCycles(ctx context.Context, dir string, l load) (*cycleScore, error) {
	server, err := startChild(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * l.machines, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var cycles atomic.Int64
	lanes := make([]*lane, l.machines)
	for i := range lanes {
		lanes[i] = &lane{
			load: l, c: &api.Client{Base: server.base, HTTP: client}, machine: fmt.Sprintf("bench-%d", i),
			slots: make(chan struct{}, l.ahead), cycles: &cycles,
		}
	}
	before, err := server.usage()
	if err != nil {
		return nil, err
	}
	elapsed, err := runLanes(ctx, lanes, l.duration)
	if err != nil {
		return nil, err
	}
	after, err := server.usage()
	if err != nil {
		return nil, err
	}
	return score(lanes, float64(cycles.Load()), elapsed, before, after), nil
}

func score(lanes []*lane, cycles float64, elapsed time.Duration, before, after childUsage) *cycleScore {
	var took []time.Duration
	for _, l := range lanes {
		took = append(took, l.took...)
	}
	slices.Sort(took)
	return &cycleScore{
		Machines:        len(lanes),
		PerSecond:       cycles / elapsed.Seconds(),
		P50:             milliseconds(quantile(took, 0.50)),
		P99:             milliseconds(quantile(took, 0.99)),
		CommitsPerCycle: (after.commits - before.commits) / max(cycles, 1),
		CPUPerCycle:     float64((after.cpu - before.cpu).Microseconds()) / max(cycles, 1),
	}
}

// runLanes subscribes all, then pushes for a while, then drains. The first
// error ends it.
func runLanes(ctx context.Context, lanes []*lane, d time.Duration) (time.Duration, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var agents, senders, ready sync.WaitGroup
	stopAgents, cancelAgents := context.WithCancel(ctx)
	ready.Add(len(lanes))
	for _, l := range lanes {
		agents.Go(func() {
			if err := l.receive(stopAgents, ready.Done); err != nil && stopAgents.Err() == nil {
				fail(err)
			}
		})
	}
	defer agents.Wait()
	defer cancelAgents()
	if !waitFor(ctx, ready.Wait) {
		return 0, context.Cause(ctx)
	}
	began := time.Now()
	until, stop := context.WithDeadline(ctx, began.Add(d))
	defer stop()
	for _, l := range lanes {
		senders.Go(func() {
			if err := l.send(ctx, until); err != nil {
				fail(err)
			}
		})
	}
	senders.Wait()
	return time.Since(began), context.Cause(ctx)
}

// waitFor runs a wait beside ctx; false if ctx ends first.
func waitFor(ctx context.Context, wait func()) bool {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// send pushes until `until` ends, then waits until all of it is acked.
func (l *lane) send(ctx, until context.Context) error {
	payload, err := api.Marshal(strings.Repeat("x", max(0, l.load.payload-2)))
	if err != nil {
		return err
	}
	var tick <-chan time.Time
	if l.load.rate > 0 {
		ticker := time.NewTicker(time.Second * time.Duration(l.load.machines) / time.Duration(l.load.rate))
		defer ticker.Stop()
		tick = ticker.C
	}
	for n := 0; ; n++ {
		if tick != nil {
			select {
			case <-tick:
			case <-until.Done():
				return l.drain(ctx)
			}
		}
		select {
		case l.slots <- struct{}{}:
		case <-until.Done():
			return l.drain(ctx)
		}
		id := l.machine + "-" + strconv.Itoa(n)
		l.began.Store(id, time.Now())
		if _, err := l.c.Push(ctx, api.Push{ActionID: id, MachineID: l.machine, Type: "bench", Payload: payload}); err != nil {
			return err
		}
	}
}

// drain takes every slot, which it has once every push of this lane is acked.
func (l *lane) drain(ctx context.Context) error {
	for range cap(l.slots) {
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// receive holds the machine's stream and acks what comes, one by one.
func (l *lane) receive(ctx context.Context, ready func()) error {
	credit := min(l.load.ahead, 1000)
	resp, err := l.c.Subscribe(ctx, api.Subscription{MachineID: l.machine, InstanceID: "bench", MaxInFlight: &credit})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	events := stream.NewDecoder(resp.Body)
	for {
		event, err := events.Next()
		if err != nil {
			return err
		}
		switch event.Name {
		case "hello":
			ready()
		case "action":
			if err := l.finish(ctx, event); err != nil {
				return err
			}
		}
	}
}

func (l *lane) finish(ctx context.Context, event stream.Event) error {
	now := time.Now()
	var e envelope
	if err := json.Unmarshal(event.Data, &e); err != nil {
		return err
	}
	if began, ok := l.began.LoadAndDelete(e.ActionID); ok {
		l.mu.Lock()
		l.took = append(l.took, now.Sub(began.(time.Time)))
		l.mu.Unlock()
	}
	if _, err := l.c.Ack(ctx, api.Ack{ActionID: e.ActionID, Status: "done", Delivery: e.Delivery}); err != nil {
		return err
	}
	l.cycles.Add(1)
	<-l.slots
	return nil
}

// metric reads one number of a Prometheus page.
func metric(page []byte, name string) (float64, bool) {
	for line := range bytes.Lines(page) {
		rest, found := bytes.CutPrefix(line, []byte(name+" "))
		if !found {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(string(rest)), 64)
		return v, err == nil
	}
	return 0, false
}

func readAll(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
