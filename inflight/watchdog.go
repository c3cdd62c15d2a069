package inflight

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"pushd/ackstore"
)

// sweepMost bounds one sweep, so that deliveries go on beside a long one.
const sweepMost = 500

// sweeper applies what time has brought.
type sweeper interface {
	Sweep(ctx context.Context, r ackstore.Rules, limit int) (ackstore.Swept, error)
}

// Config says how a watchdog behaves.
type Config struct {
	Rules        func() ackstore.Rules // in force now
	ScanInterval time.Duration         // of the net; more than 0
	Now          func() time.Time      // nil: time.Now
	Swept        func(time.Duration)   // told how long each sweep took; nil: nobody asks
	Logger       zerolog.Logger
}

// Watchdog sweeps the store when something is due. Due and Changed are for the
// store's listener; they never block.
type Watchdog struct {
	cfg   Config
	store sweeper
	next  atomic.Pointer[time.Time] // when something is due; nil: not known yet
	moved chan struct{}             // capacity one: next has changed
	count counters
}

// New makes a watchdog that does nothing before Run.
func New(cfg Config) *Watchdog {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Watchdog{cfg: cfg, moved: make(chan struct{}, 1)}
}

// Due sets the next moment at which something is to be done; zero is never.
func (w *Watchdog) Due(next time.Time) {
	w.next.Store(&next)
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// Run sweeps store until ctx ends. A sweep that fails is tried again at the next
// scan.
func (w *Watchdog) Run(ctx context.Context, store sweeper) error {
	w.store = store
	scan := time.NewTicker(w.cfg.ScanInterval)
	defer scan.Stop()
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.moved:
		case <-alarm.C:
			w.sweep(ctx)
		case <-scan.C:
			w.scan(ctx)
		}
		w.arm(alarm)
	}
}

// arm sets the alarm for the next moment that is known. A moment that has passed
// and was swept is not waited for again: the store tells of another, or the scan
// comes.
func (w *Watchdog) arm(alarm *time.Timer) {
	alarm.Stop()
	next := w.next.Load()
	if next == nil || next.IsZero() {
		return
	}
	if wait := next.Sub(w.cfg.Now()); wait > 0 || w.count.sweptAt.Load() < next.UnixNano() {
		alarm.Reset(max(wait, 0))
	}
}

// sweep does what is due, in slices.
func (w *Watchdog) sweep(ctx context.Context) {
	if w.cfg.Swept != nil {
		defer func(began time.Time) { w.cfg.Swept(w.cfg.Now().Sub(began)) }(w.cfg.Now())
	}
	for ctx.Err() == nil {
		begun := w.cfg.Now()
		done, err := w.store.Sweep(ctx, w.cfg.Rules(), sweepMost)
		w.count.sweptAt.Store(begun.UnixNano())
		if err != nil {
			if ctx.Err() == nil {
				w.count.failed.Add(1)
				w.cfg.Logger.Warn().Err(err).Msg("a sweep failed; the next scan tries again")
			}
			return
		}
		if !done.More {
			return
		}
	}
}

// scan is the sweep of the net: the one that the metrics count.
func (w *Watchdog) scan(ctx context.Context) {
	begun := w.cfg.Now()
	w.sweep(ctx)
	w.count.scans.Add(1)
	w.count.lastScan.Store(begun.UnixNano())
	w.count.lastTook.Store(int64(w.cfg.Now().Sub(begun)))
}
