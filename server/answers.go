package server

import (
	"net/http"
	"sync"
	"time"

	"pushd/server/api"
)

// lineAnswers holds the answers to an NDJSON push until the client takes them, in
// memory: reading must go on even if it takes none, or a sender that writes all
// before it reads would be stuck for good. 10,000 lines bound it.
//
// They leave when the sender pauses, or has ended. While it writes without a pause
// it does not read either, and what is sent into its closed window can make the
// kernels on both sides throw away each other's acknowledgements.
type lineAnswers struct {
	w    http.ResponseWriter
	more chan struct{} // capacity one: what waits shall leave
	gone chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	waiting  []byte
	finished bool
	started  bool
	paused   bool // the sender sends nothing now
}

func newLineAnswers(w http.ResponseWriter) *lineAnswers {
	return &lineAnswers{w: w, more: make(chan struct{}, 1), gone: make(chan struct{})}
}

// add queues a line's answer and never blocks.
func (a *lineAnswers) add(l *line) {
	raw, err := api.Marshal(l.answer())
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(append(a.waiting, raw...), '\n')
	if a.paused {
		a.release()
	}
}

// pause is called while the handler is in a read in which nothing comes: what
// waits leaves now, and what is answered until resume at once.
func (a *lineAnswers) pause() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = true
	a.release()
}

func (a *lineAnswers) resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused = false
}

// release lets what waits leave. The lock is held.
func (a *lineAnswers) release() {
	if len(a.waiting) > 0 || a.finished {
		a.start()
		a.wake()
	}
}

// start begins the answer. The lock is held.
func (a *lineAnswers) start() {
	if a.started {
		return
	}
	a.started = true
	a.w.Header().Set("Content-Type", ndjsonMedia)
	a.w.Header().Set("Cache-Control", "no-store")
	a.w.WriteHeader(http.StatusOK)
	go a.write()
}

func (a *lineAnswers) wake() {
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// finish says that no more comes, and waits until all is taken or the client is
// found not to take it.
func (a *lineAnswers) finish() {
	a.mu.Lock()
	a.finished = true
	// Until now the client was owed patience: it may have been busy sending.
	a.hurry()
	a.release()
	a.mu.Unlock()
	<-a.gone
}

func (a *lineAnswers) hurry() {
	_ = http.NewResponseController(a.w).SetWriteDeadline(time.Now().Add(answerTimeout))
}

func (a *lineAnswers) write() {
	defer close(a.gone)
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(time.Time{})
	for range a.more {
		for {
			piece, last := a.take()
			if len(piece) == 0 {
				if last {
					return
				}
				break
			}
			if last {
				a.hurry()
			}
			if _, err := a.w.Write(piece); err != nil {
				return // nobody to tell; what was pushed stays pushed
			}
			if err := ignoreUnsupported(control.Flush()); err != nil {
				return
			}
		}
	}
}

// take removes a piece of what waits, and tells whether nothing is added any more.
func (a *lineAnswers) take() (piece []byte, last bool) {
	const most = 64 << 10
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.waiting), most)
	piece, a.waiting = a.waiting[:n], a.waiting[n:]
	return piece, a.finished
}
