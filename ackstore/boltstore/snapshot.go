package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	bolt "go.etcd.io/bbolt"
)

// Progress is told how far a long work has come, in bytes.
type Progress func(done, total int64)

// Snapshot writes a consistent copy of the open store to path, which must not be
// there yet. It holds one read transaction while it copies, so path should be on
// a disk that takes it quickly, and not on a network.
func (s *Store) Snapshot(ctx context.Context, path string) error {
	return s.db.View(func(bt *bolt.Tx) error {
		return writeNew(path, func(w io.Writer) error {
			_, err := bt.WriteTo(ctxWriter{ctx, w})
			return err
		})
	})
}

// ctxWriter ends a long copy with its context.
type ctxWriter struct {
	ctx context.Context
	w   io.Writer
}

func (c ctxWriter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(p)
}

// Backup writes a copy of a stopped server's file to path, which must not be
// there yet.
func Backup(ctx context.Context, dir, path string, progress Progress) (err error) {
	db, size, err := openToRead(filePath(dir), lockWait)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(bt *bolt.Tx) error {
		if bt.Size() > size {
			return fmt.Errorf("boltstore: %s is damaged: %s", filePath(dir), cutShort(size, bt.Size()))
		}
		return writeNew(path, func(w io.Writer) error {
			_, err := bt.WriteTo(&told{w: ctxWriter{ctx, w}, progress: progress, total: bt.Size()})
			return err
		})
	})
}

// Receive writes a backup of size bytes that comes from elsewhere to path, which
// must not be there yet. Fewer bytes leave nothing there.
func Receive(path string, size int64, from io.Reader, progress Progress) error {
	return writeNew(path, func(w io.Writer) error {
		_, err := io.CopyN(&told{w: w, progress: progress, total: size}, from, size)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// told tells of what passes through it.
type told struct {
	w           io.Writer
	progress    Progress
	done, total int64
}

func (t *told) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if t.done += int64(n); t.progress != nil {
		t.progress(t.done, t.total)
	}
	return n, err
}

// writeNew makes a file whole and on disk, or not at all: until it is whole it
// has another name.
func writeNew(path string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("boltstore: %s: %w", path, os.ErrExist)
	}
	draft := path + ".partial"
	f, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // it may be closed, and its draft gone
			_ = os.Remove(draft)
		}
	}()
	if err := write(f); err != nil {
		return fmt.Errorf("boltstore: %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("boltstore: %s: %w", path, err)
	}
	return publish(f, path)
}

// publish gives a finished draft its name, over nothing that is there.
func publish(f *os.File, path string) error {
	if err := f.Close(); err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	err := os.Link(f.Name(), path)
	switch {
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("boltstore: %s: %w", path, os.ErrExist)
	case err != nil: // a file system without links
		err = os.Rename(f.Name(), path)
	default:
		err = os.Remove(f.Name())
	}
	if err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// compactBatch bounds a transaction of Compact.
const compactBatch = 4 << 20

// Compact rewrites the file of a stopped server without its free pages. The old
// file stands until the new one is whole and on disk.
func Compact(dir string, progress Progress) (before, after int64, err error) {
	path := filePath(dir)
	if err := wholeFile(path); err != nil {
		return 0, 0, err
	}
	src, err := openLocked(path)
	if err != nil {
		return 0, 0, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, src.Close())
		}
	}()
	// What a newer version keeps in buckets that this one does not know would be lost.
	if err := src.View(knownSchema); err != nil {
		return 0, 0, fmt.Errorf("boltstore: %w", err)
	}
	draft := path + ".compact"
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, fmt.Errorf("boltstore: %w", err)
	}
	if err := errors.Join(compactInto(draft, src, progress), giveToOwnerOf(path, draft)); err != nil {
		return 0, 0, errors.Join(err, os.Remove(draft))
	}
	if before, err = sizeOf(path); err != nil {
		return 0, 0, err
	}
	if after, err = sizeOf(draft); err != nil {
		return 0, 0, err
	}
	if runtime.GOOS == "windows" { // an open file cannot be replaced there
		closed = true
		if err := src.Close(); err != nil {
			return 0, 0, fmt.Errorf("boltstore: %w", err)
		}
	}
	if err := os.Rename(draft, path); err != nil {
		return 0, 0, fmt.Errorf("boltstore: %w", err)
	}
	return before, after, syncDir(dir)
}

func compactInto(draft string, src *bolt.DB, progress Progress) (err error) {
	dst, err := bolt.Open(draft, 0o600, &bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoSync: true})
	if err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := copyBuckets(dst, src, progress); err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	return dst.Sync()
}

// copyBuckets copies key by key, in transactions that fit in memory.
func copyBuckets(dst, src *bolt.DB, progress Progress) error {
	return src.View(func(from *bolt.Tx) error {
		c := copier{dst: dst, progress: progress, total: from.Size()}
		for _, name := range buckets {
			b := from.Bucket(name)
			if b == nil {
				continue
			}
			if err := c.bucket(name, b); err != nil {
				return err
			}
		}
		return nil
	})
}

type copier struct {
	dst         *bolt.DB
	progress    Progress
	done, total int64
}

func (c *copier) bucket(name []byte, from *bolt.Bucket) error {
	cur := from.Cursor()
	key, value := cur.First()
	for first := true; first || key != nil; first = false {
		err := c.dst.Update(func(bt *bolt.Tx) error {
			to, err := bt.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			to.FillPercent = 0.9
			for size := 0; key != nil && size < compactBatch; key, value = cur.Next() {
				if err := to.Put(key, value); err != nil {
					return err
				}
				size += len(key) + len(value)
				c.done += int64(len(key) + len(value))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if c.progress != nil {
			c.progress(min(c.done, c.total), c.total)
		}
	}
	return nil
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("boltstore: %w", err)
	}
	return info.Size(), nil
}

// syncDir makes a rename durable.
func syncDir(dir string) error {
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	return errors.Join(syncIfCan(d), d.Close())
}
