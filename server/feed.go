package server

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/rs/zerolog"

	"pushd/ackstore"
	"pushd/server/api"
)

const (
	feedStream    = "feed"
	feedHeartbeat = 15 * time.Second

	frameGap  = 250 * time.Millisecond // from one frame to the next: four a second are as quick as an eye
	frameMost = 250                    // changes in a frame: a slow browser stands a thousand a second
	frameEnd  = "end"                  // the comment that ends one; no viewer sees it
)

// feed broadcasts what changes to dashboards, gathered into frames: what happens
// within a quarter of a second goes out in one write. It is lossy on purpose: a
// viewer that missed something is told to read again (event resync), and one that
// does not read is cut off, never waited for.
type feed struct {
	hub    *Hub
	log    zerolog.Logger
	server *sse.Server

	// Only run has to do with these.
	serial  uint64 // of events
	pending []ackstore.Change
	open    bool // events have gone out whose frame has not ended

	mu      sync.Mutex
	viewers map[*viewer]struct{}
	closed  bool
}

// viewer is one dashboard on the feed.
type viewer struct {
	tokenID string
	session sessionKey // of its cookie, if it has one
	cut     context.CancelFunc
}

func newFeed(hub *Hub, log zerolog.Logger) *feed {
	server := sse.New()
	server.AutoReplay, server.AutoStream, server.SplitData = false, false, true
	server.Headers = map[string]string{"Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no"}
	server.CreateStream(feedStream)
	return &feed{hub: hub, log: log, server: server, viewers: map[*viewer]struct{}{}}
}

// run publishes until ctx ends, and is the only one who does.
func (f *feed) run(ctx context.Context) {
	defer f.server.Close()
	beat := time.NewTicker(feedHeartbeat)
	defer beat.Stop()
	var next <-chan time.Time // when a frame is due
	var last time.Time
	for {
		select {
		case changes := <-f.hub.feed:
			f.gather(changes)
		case <-beat.C:
			f.comment("hb")
		case <-next:
			f.frame()
			next, last = nil, time.Now()
		case <-ctx.Done():
			f.close()
			return
		}
		if next == nil && f.due() {
			next = time.After(time.Until(last.Add(frameGap)))
		}
	}
}

// gather keeps changes for the next frame; what has no room there is missed.
func (f *feed) gather(changes []ackstore.Change) {
	room := min(len(changes), frameMost-len(f.pending))
	f.pending = append(f.pending, changes[:room]...)
	f.hub.missed.Add(uint64(len(changes) - room))
}

func (f *feed) due() bool { return len(f.pending) > 0 || f.open || f.hub.missed.Load() > 0 }

// frame sends what was gathered, and that something was missed.
func (f *feed) frame() {
	for i := range f.pending {
		f.publish(f.pending[i])
	}
	f.pending = f.pending[:0]
	f.resync()
	f.open = !f.comment(frameEnd)
}

func (f *feed) comment(text string) bool {
	return f.server.TryPublish(feedStream, &sse.Event{Comment: []byte(text)})
}

// publish sends one change; a machine, session, replay or breaker that changed is
// a machine event.
func (f *feed) publish(c ackstore.Change) {
	name := "change"
	if c.ActionID == "" {
		name = "machine"
	}
	data, err := api.Marshal(api.Change{
		ActionID: c.ActionID, MachineID: c.MachineID, State: stateText(c.State),
		Event: c.Event, Detail: c.Detail, At: api.At(c.At),
	})
	if err != nil {
		return
	}
	if !f.send(name, data) {
		f.hub.missed.Add(1)
	}
}

// send publishes a fresh event: the library keeps what it is given.
func (f *feed) send(name string, data []byte) bool {
	f.serial++
	f.open = true
	id := strconv.FormatUint(f.serial, 10)
	return f.server.TryPublish(feedStream, &sse.Event{ID: []byte(id), Event: []byte(name), Data: data})
}

// resync tells viewers that something was dropped, once there is room to.
func (f *feed) resync() {
	missed := f.hub.missed.Swap(0)
	if missed == 0 {
		return
	}
	if !f.send("resync", []byte(`{"missed":`+strconv.FormatUint(missed, 10)+`}`)) {
		f.hub.missed.Add(missed)
	}
}

// join counts a viewer in; false once the feed has closed.
func (f *feed) join(v *viewer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.viewers[v] = struct{}{}
	f.hub.viewers.Add(1)
	return true
}

func (f *feed) leave(v *viewer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.viewers, v)
	f.hub.viewers.Add(-1)
}

// closeTokens cuts off who watches under a token that has ended.
func (f *feed) closeTokens(ids map[string]bool) {
	f.cut(func(v *viewer) bool { return ids[v.tokenID] })
}

// closeSession cuts off who watches under a session that has ended.
func (f *feed) closeSession(key sessionKey) {
	if key != (sessionKey{}) {
		f.cut(func(v *viewer) bool { return v.session == key })
	}
}

func (f *feed) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cut(func(*viewer) bool { return true })
}

func (f *feed) cut(which func(*viewer) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for v := range f.viewers {
		if which(v) {
			v.cut()
		}
	}
}

// openFeed is GET /v1/feed.
func (c *call) openFeed() error {
	if c.draining.Load() {
		return refuse(draining, "the server is stopping")
	}
	if !accepts(c.r, "text/event-stream") {
		return refuse(notAcceptable, "the answer is text/event-stream, which Accept %s does not allow", quote(c.r.Header.Get("Accept")))
	}
	ctx, cut := c.whileSignedIn()
	defer cut()
	v := &viewer{tokenID: c.who.tokenID, session: keyOf(c.r), cut: cut}
	if !c.feed.join(v) {
		return refuse(draining, "the server is stopping")
	}
	defer c.feed.leave(v)
	if _, err := c.identify(c.r); err != nil { // a token or session that ended before we joined cut nobody off
		return err
	}
	go func() { // streams end first at a stop: Shutdown would wait for them
		select {
		case <-c.stopping:
			cut()
		case <-ctx.Done():
		}
	}()
	shrinkSendBuffer(ctx)
	// The library takes the stream from the query and an id from a header: both
	// are ours, never the client's.
	r := c.r.Clone(ctx)
	r.URL = &url.URL{Path: "/v1/feed", RawQuery: "stream=" + feedStream}
	r.Header.Del("Last-Event-ID")
	c.feed.server.ServeHTTP(newFeedWriter(c.w, cut, c.who.reach(mayRead)), r)
	return nil
}

// whileSignedIn is the request's context, which ends with its session too.
func (c *call) whileSignedIn() (context.Context, context.CancelFunc) {
	if session, ok := c.sessions.of(c.r); ok {
		return context.WithTimeout(c.r.Context(), session.Until.Sub(c.cfg.Now()))
	}
	return context.WithCancel(c.r.Context())
}

// feedWriter holds events back until their frame has ended, and then writes them at
// once under a deadline. After the first error it swallows everything: the library's
// loop must go on reading its channel, or it would hold up all the others.
type feedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	cut     context.CancelFunc
	reach   func(machineID string) bool // nil: all
	event   []byte                      // that is being written
	frame   []byte                      // whole events
	dead    bool
}

const feedWriteTimeout = 3 * time.Second

func newFeedWriter(w http.ResponseWriter, cut context.CancelFunc, reach func(string) bool) *feedWriter {
	return &feedWriter{ResponseWriter: w, control: http.NewResponseController(w), cut: cut, reach: reach}
}

// Write keeps a piece of an event.
func (w *feedWriter) Write(b []byte) (int, error) {
	if !w.dead {
		w.event = append(w.event, b...)
	}
	return len(b), nil
}

// Flush puts the event to its frame, if the viewer may see it, and writes the frame
// when a comment ends it. The first flush has no event: it writes the headers.
func (w *feedWriter) Flush() {
	event := w.event
	w.event = w.event[:0]
	comment := bytes.HasPrefix(event, []byte(": "))
	ends := bytes.HasPrefix(event, []byte(": "+frameEnd+"\n"))
	if !ends && (comment || w.within(event)) {
		w.frame = append(w.frame, event...)
	}
	if w.dead || len(event) > 0 && (!comment || ends && len(w.frame) == 0) {
		return
	}
	_ = w.control.SetWriteDeadline(time.Now().Add(feedWriteTimeout))
	_, err := w.ResponseWriter.Write(w.frame)
	w.frame = w.frame[:0]
	if err == nil {
		err = ignoreUnsupported(w.control.Flush())
	}
	if err != nil {
		w.dead = true
		w.cut()
	}
}

// within tells whether an event may be seen: a caller with a pattern sees only
// what names a machine within it.
func (w *feedWriter) within(event []byte) bool {
	if w.reach == nil {
		return true
	}
	for line := range bytes.Lines(event) {
		data, is := bytes.CutPrefix(line, []byte("data: "))
		if !is {
			continue
		}
		var c api.Change
		if err := json.Unmarshal(data, &c); err != nil {
			return false
		}
		return c.MachineID == "" && c.ActionID == "" && c.Event == "" || c.MachineID != "" && w.reach(c.MachineID)
	}
	return true // nothing that names a machine
}
