package boltstore

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"pushd/ackstore"
)

// Config opens a store.
type Config struct {
	Dir      string               // data directory; made if it is missing
	Now      func() time.Time     // the store's clock; nil: time.Now
	Elapsed  func() time.Duration // time that no step of the wall clock touches, for tests; nil: what Now's readings tell
	Listener ackstore.Listener    // nil: nobody listens
	Commit   func(time.Duration)  // told how long each commit took; it must not block; nil: nobody asks
	Logger   zerolog.Logger
}

// Store is the bbolt driver. It serves calls from Open to Close.
type Store struct {
	cfg     Config
	log     zerolog.Logger
	db      *bolt.DB
	in      intake
	stopped chan struct{}
	broken  atomic.Bool // the last commit failed
	unread  bool        // and the memory could not be read again; owned by the committer
	commits atomic.Uint64
	boxes   boxes
	clock   clock // owned by the committer
	seen    seen  // owned by the committer

	following []ackstore.Following // owned by the committer
	memory                         // owned by the committer
}

var _ ackstore.Store = (*Store)(nil)

// fileName is the one file of a data directory.
const fileName = "pushd.db"

// lockWait is how long a second process waits before it says "in use": long
// enough for a predecessor that is just ending.
const lockWait = 2 * time.Second

// Open opens the store of a directory and reads into memory what is in flight,
// the heads of lanes and the machines. A second process is refused with ErrInUse.
func Open(cfg Config) (*Store, error) {
	s, err := read(cfg)
	if err != nil {
		return nil, err
	}
	go s.run() // Close waits for it
	return s, nil
}

// read opens a store on which nobody works yet.
func read(cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	db, err := openFile(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: cfg.Logger, db: db, stopped: make(chan struct{})}
	s.in.signal = make(chan struct{}, 1)
	s.seen.evicted = map[ackstore.State]uint64{}
	s.boot = cfg.Now()
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// openFile opens the file, or makes it whole under another name first: a file
// that is there and empty was damaged, and must not pass for a fresh start.
func openFile(dir string) (db *bolt.DB, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("boltstore: data directory: %w", err)
	}
	path := filepath.Join(dir, fileName)
	if info, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := createFile(path); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("boltstore: %w", err)
	} else if info.Size() == 0 {
		return nil, fmt.Errorf("boltstore: %s is empty: damaged; restore a backup, or move it away to begin anew", path)
	}
	defer func() {
		// bbolt panics on some damaged files instead of returning an error.
		if p := recover(); p != nil {
			err = fmt.Errorf("boltstore: %s is damaged: %v", path, p)
		}
	}()
	if err := wholeFile(path); err != nil {
		return nil, err
	}
	return openLocked(path)
}

// inUse tells a lock that another process holds from other trouble.
func inUse(path string, err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("%w: %s", ackstore.ErrInUse, filepath.Dir(path))
	}
	return fmt.Errorf("boltstore: %s: %w", path, err)
}

func createFile(path string) error {
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("boltstore: %w", err)
	}
	db, err := bolt.Open(draft, 0o600, options())
	if err != nil {
		return fmt.Errorf("boltstore: %s: %w", draft, err)
	}
	if err := db.Close(); err != nil {
		return fmt.Errorf("boltstore: %s: %w", draft, err)
	}
	_ = giveToOwnerOf(filepath.Dir(path), draft) // who may not gives nothing away
	// Whoever was first has made the file; ours is not needed then.
	if err := os.Link(draft, path); err != nil && !errors.Is(err, os.ErrExist) {
		return os.Rename(draft, path)
	}
	return os.Remove(draft)
}

// options: a map freelist that is not synced gives 28 to 34 % (measured for
// design section 2); it is rebuilt when the file is opened.
func options() *bolt.Options {
	return &bolt.Options{
		Timeout: lockWait, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
		InitialMmapSize: initialMmap,
	}
}

// prepare makes the buckets, checks the schema and reads the memory.
func (s *Store) prepare() error {
	err := s.db.Update(func(bt *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := bt.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		meta := bt.Bucket(bucketMeta)
		have := meta.Get(keySchema)
		if have == nil {
			return meta.Put(keySchema, be(schema))
		}
		if v := ordOf(have); v > schema {
			return fmt.Errorf("%w: schema %d, this one knows %d", ackstore.ErrNewer, v, schema)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	return s.reload()
}

// Now is the store's clock.
func (s *Store) Now() time.Time { return s.cfg.Now() }

// boxes are the letter boxes of live leases: what was dispatched to a stream that
// was not asking, until it asks.
type boxes struct {
	mu sync.Mutex
	m  map[string]*lease // by machine
}

// post is what a lease is to be handed.
type post struct {
	dispatches []ackstore.Dispatch
	cancels    []ackstore.CancelNote
}

func (p *post) empty() bool { return len(p.dispatches) == 0 && len(p.cancels) == 0 }

func (b *boxes) open(l *lease) {
	if l == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m == nil {
		b.m = map[string]*lease{}
	}
	b.m[l.machine] = l
}

func (b *boxes) close(l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.m[l.machine] == l {
		delete(b.m, l.machine)
	}
}

func (b *boxes) put(l *lease, p *post) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l.box.dispatches = append(l.box.dispatches, p.dispatches...)
	// What a failed commit puts back has its place: an event id is a receipt for
	// all that came before.
	slices.SortStableFunc(l.box.dispatches, func(a, b ackstore.Dispatch) int { return cmp.Compare(a.EventID, b.EventID) })
	l.box.cancels = append(l.box.cancels, p.cancels...)
}

// take empties the box of a lease, if it is still the machine's.
func (b *boxes) take(of ackstore.Lease, most int) post {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.m[of.MachineID]
	if l == nil || l.epoch != of.Epoch {
		return post{}
	}
	p := l.box
	l.box = post{}
	if most > 0 && len(p.dispatches) > most {
		l.box.dispatches, p.dispatches = p.dispatches[most:], p.dispatches[:most:most]
	}
	return p
}

func (b *boxes) empty(l *lease) post {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := l.box
	l.box = post{}
	return p
}

// pick takes out of a lease's box what is asked for.
func (b *boxes) pick(l *lease, which func(ackstore.Dispatch) bool) (taken []ackstore.Dispatch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range l.box.dispatches {
		if which(d) {
			taken = append(taken, d)
		}
	}
	if taken != nil {
		l.box.dispatches = slices.DeleteFunc(slices.Clone(l.box.dispatches), which)
	}
	return taken
}

func (b *boxes) full(l *lease) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !l.box.empty()
}
