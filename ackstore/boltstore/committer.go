package boltstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
)

// call is one verb that waits for the committer.
type call struct {
	rules ackstore.Rules
	apply func(*tx)
	err   error
	done  chan struct{}
}

// intake is the line in front of the committer.
type intake struct {
	mu     sync.Mutex
	calls  []*call
	closed bool
	signal chan struct{} // capacity one: there are calls, or the end
}

// maxBatch bounds a transaction, and so the wait of the first call in it.
const maxBatch = 4096

// submit waits until apply was committed. A context that ends takes the call
// back if the committer has not begun it; else its outcome is awaited, since a
// call that may have been applied must not look as if it had not.
func (s *Store) submit(ctx context.Context, r ackstore.Rules, apply func(*tx)) error {
	c := &call{rules: r, apply: apply, done: make(chan struct{})}
	if !s.in.put(c) {
		return fmt.Errorf("%w: closed", ackstore.ErrUnavailable)
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	if s.in.withdraw(c) {
		return ctx.Err()
	}
	<-c.done
	return c.err
}

func (in *intake) put(c *call) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	in.calls = append(in.calls, c)
	in.wake()
	return true
}

func (in *intake) wake() {
	select {
	case in.signal <- struct{}{}:
	default:
	}
}

func (in *intake) withdraw(c *call) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, waiting := range in.calls {
		if waiting == c {
			in.calls = append(in.calls[:i:i], in.calls[i+1:]...)
			return true
		}
	}
	return false
}

// take waits for calls; it returns none once the intake is closed and empty.
func (in *intake) take() []*call {
	for {
		in.mu.Lock()
		batch := in.calls
		closed := in.closed
		if len(batch) > maxBatch {
			batch, in.calls = batch[:maxBatch:maxBatch], batch[maxBatch:]
			in.wake()
		} else {
			in.calls = nil
		}
		in.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch
		}
		<-in.signal
	}
}

func (in *intake) close() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.wake()
}

// run is the committer.
func (s *Store) run() {
	defer close(s.stopped)
	for batch := s.in.take(); len(batch) > 0; batch = s.in.take() {
		s.serve(batch)
	}
}

// serve commits a batch and answers. A call that cannot be applied, since what it
// reads is damaged, is refused alone: somebody may repeat it for ever.
func (s *Store) serve(batch []*call) {
	t, err := s.commit(batch)
	for err != nil && t != nil && t.unfit != nil && len(batch) > 1 {
		unfit := t.unfit
		unfit.answer(err)
		batch = slices.DeleteFunc(batch, func(c *call) bool { return c == unfit })
		t, err = s.commit(batch)
	}
	for _, c := range batch {
		c.answer(err)
	}
	if err == nil {
		s.announce(t)
	}
}

func (c *call) answer(err error) {
	c.err = err
	close(c.done)
}

// commit applies a batch in one transaction. When it fails nothing of the batch
// was applied, on disk or in memory.
func (s *Store) commit(batch []*call) (*tx, error) {
	if s.unread { // what is in memory is neither what was nor what is
		if err := s.reload(); err != nil {
			return nil, fmt.Errorf("%w: %v", ackstore.ErrUnavailable, err)
		}
		s.unread = false
	}
	bt, err := s.db.Begin(true)
	if err != nil {
		return nil, s.failed(nil, err)
	}
	t := newTx(s, bt)
	t.watchClock(batch)
	for _, c := range batch {
		t.r = c.rules
		c.apply(t)
		if t.err != nil {
			t.unfit = c
			break
		}
	}
	t.ride()
	t.flush()
	if t.err != nil {
		_ = bt.Rollback() // the first error is the one to tell
		return t, s.failed(t, t.err)
	}
	if !t.wrote {
		if err := bt.Rollback(); err != nil { // nothing to keep
			return nil, s.failed(t, err)
		}
		t.deliver()
		return t, nil
	}
	began := time.Now()
	if err := bt.Commit(); err != nil {
		return nil, s.failed(t, err)
	}
	if s.cfg.Commit != nil {
		s.cfg.Commit(time.Since(began))
	}
	for _, note := range t.notes {
		note(&s.seen)
	}
	s.commits.Add(1)
	s.broken.Store(false)
	t.deliver()
	return t, nil
}

// failed reads the memory again from the file, and says so once.
func (s *Store) failed(t *tx, cause error) error {
	if t != nil {
		for i := len(t.undo) - 1; i >= 0; i-- {
			t.undo[i]()
		}
	}
	if !s.broken.Swap(true) {
		s.log.Error().Err(cause).Msg("the store cannot write; it answers 503 until it can")
	}
	if err := s.reload(); err != nil {
		s.unread = true
		s.log.Error().Err(err).Msg("the store cannot be read; nothing is written until it can")
	}
	return fmt.Errorf("%w: %v", ackstore.ErrUnavailable, cause)
}

// announce tells the listener what a commit has brought.
func (s *Store) announce(t *tx) {
	if s.cfg.Listener == nil {
		return
	}
	for id := range t.wakes {
		s.cfg.Listener.Wake(id)
	}
	if len(t.changes) > 0 {
		s.cfg.Listener.Changed(t.changes)
	}
	if next := s.nextDue(); !next.Equal(s.announced) {
		s.announced = next
		s.cfg.Listener.Due(next)
	}
}

// Close ends the committer and closes the file; what was answered is on disk.
func (s *Store) Close() error {
	s.in.close()
	<-s.stopped
	return s.db.Close()
}

// tx is one batch being applied.
type tx struct {
	s     *Store
	bt    *bolt.Tx
	r     ackstore.Rules // of the call being applied
	now   time.Time
	err   error
	unfit *call // the one that could not be applied

	wrote    bool
	reading  bool                        // recovery: the memory is read, nothing is written
	kicked   map[*machine]ackstore.Rules // something may be due for it
	dirty    map[*machine]bool
	labels   map[string]*labelRow
	mail     map[*lease]*post
	wakes    map[string]bool
	changes  []ackstore.Change
	notes    []func(*seen)
	undo     []func() // what a failed commit must put back beside the memory
	metaTold bool     // ord, stamp or counts moved
}

func newTx(s *Store, bt *bolt.Tx) *tx {
	return &tx{
		s: s, bt: bt, now: toMicro(s.cfg.Now()),
		kicked: map[*machine]ackstore.Rules{}, dirty: map[*machine]bool{}, labels: map[string]*labelRow{},
		mail: map[*lease]*post{}, wakes: map[string]bool{},
	}
}

// fail keeps the first error: the batch is lost, and told so.
func (t *tx) fail(err error) {
	if err != nil && t.err == nil {
		t.err = err
	}
}

func (t *tx) bucket(name []byte) *bolt.Bucket { return t.bt.Bucket(name) }

func (t *tx) put(bucket, key, value []byte) {
	t.wrote = true
	t.fail(t.bucket(bucket).Put(key, value))
}

// append puts what comes behind all that is there and never grows: its pages need
// not keep half their room for more (measured: a file a quarter smaller).
func (t *tx) append(bucket, key, value []byte) {
	t.bucket(bucket).FillPercent = 0.9
	t.put(bucket, key, value)
}

func (t *tx) del(bucket, key []byte) {
	t.wrote = true
	t.fail(t.bucket(bucket).Delete(key))
}

// flush writes the rows that many calls of a batch may have changed, once.
func (t *tx) flush() {
	if !t.wrote && len(t.dirty) == 0 {
		return
	}
	for m := range t.dirty {
		t.put(bucketMachines, []byte(m.id), encode(&m.row))
	}
	for key, row := range t.labels {
		t.put(bucketLabels, []byte(key), encode(row))
	}
	if t.metaTold {
		t.put(bucketMeta, keyOrd, be(t.s.ord))
		t.put(bucketMeta, keyStamp, be(t.s.stamp))
		t.put(bucketMeta, keyCounts, encode(&t.s.counts))
	}
	if t.wrote {
		t.s.firstTime = firstTime(t.bucket(bucketTimes))
	}
}

func firstTime(b *bolt.Bucket) time.Time {
	key, _ := b.Cursor().First()
	if key == nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(ordOf(key)))
}

// stamp is the store's logical time: it orders dispatches and breakers.
func (t *tx) stamp() uint64 {
	t.metaTold = true
	t.s.stamp++
	return t.s.stamp
}

func (t *tx) touch(m *machine) { t.dirty[m] = true }

func (t *tx) kick(m *machine) { t.kicked[m] = t.r }

func (t *tx) say(c ackstore.Change) {
	c.At = t.now
	t.changes = append(t.changes, c)
}
