package boltstore

import (
	"errors"
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
)

// File is the one file of a data directory; a copy of it is a backup.
func File(dir string) string { return filePath(dir) }

// Verify reads the whole file of a stopped server and tells what does not fit
// together. It writes nothing.
func Verify(dir string) (problems []string, err error) { return VerifyFile(filePath(dir)) }

// VerifyFile does the same for a file, such as a backup.
func VerifyFile(path string) (problems []string, err error) {
	// What bbolt and the codec make of bytes that they did not write may be a panic.
	defer func() {
		if p := recover(); p != nil {
			problems = append(problems, fmt.Sprintf("damaged: %v", p))
		}
	}()
	db, size, err := openToRead(path, lockWait)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(bt *bolt.Tx) error {
		if want := bt.Size(); want > size {
			problems = append(problems, cutShort(size, want)) // reading further would be a fault
			return nil
		}
		if wrong := lacking(bt); wrong != nil {
			problems = wrong
			return nil
		}
		if err := knownSchema(bt); err != nil {
			return err
		}
		for e := range bt.Check() {
			problems = append(problems, e.Error())
		}
		more, err := audit(bt)
		problems = append(problems, more...)
		return err
	})
	return problems, err
}

// Probe tells whether a server could open a directory's file now, without reading
// more of it than its first pages: nil, or ErrInUse, ErrNewer, fs.ErrNotExist, or
// what is wrong with it.
func Probe(dir string) error {
	path := filePath(dir)
	if err := wholeFile(path); err != nil {
		return err
	}
	db, _, err := openToRead(path, time.Millisecond)
	if err != nil {
		return err
	}
	return errors.Join(db.View(knownSchema), db.Close())
}

// openToRead opens a file that must be there, and tells its size.
func openToRead(path string, patience time.Duration) (*bolt.DB, int64, error) {
	size, err := sizeOf(path)
	if err != nil {
		return nil, 0, err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: patience})
	if err != nil {
		return nil, 0, inUse(path, err)
	}
	return db, size, nil
}

func cutShort(have, want int64) string {
	return fmt.Sprintf("cut short: %d bytes are there, %d are used", have, want)
}

// lacking tells which buckets are not there. Those that came after schema 1 was
// first written are made when a server opens the file.
func lacking(bt *bolt.Tx) (problems []string) {
	for _, name := range [][]byte{bucketMeta, bucketActions, bucketBodies, bucketIDs, bucketMachines} {
		if bt.Bucket(name) == nil {
			problems = append(problems, fmt.Sprintf("%s: missing: this is no file of pushd", name))
		}
	}
	return problems
}

// knownSchema refuses a file that a newer version wrote.
func knownSchema(bt *bolt.Tx) error {
	meta := bt.Bucket(bucketMeta)
	if meta == nil {
		return nil
	}
	if have := meta.Get(keySchema); have != nil && ordOf(have) > schema {
		return fmt.Errorf("%w: schema %d, this one knows %d", ackstore.ErrNewer, ordOf(have), schema)
	}
	return nil
}

// wholeFile refuses a file that is shorter than what it says it uses: bbolt maps
// it into memory, and reading beyond its end would end the process. A file that
// cannot be opened to read is left to who opens it next, with its own words; one
// that is locked is in use, and so is whole.
func wholeFile(path string) error {
	db, size, err := openToRead(path, time.Millisecond)
	if err != nil {
		return nil //nolint:nilerror // see above
	}
	var used int64
	err = db.View(func(bt *bolt.Tx) error {
		used = bt.Size()
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("boltstore: %s: %w", path, err)
	}
	if used > size {
		return fmt.Errorf("boltstore: %s is damaged: %s; restore a backup", path, cutShort(size, used))
	}
	return nil
}

// openLocked opens a file to write. Who waits for the lock of a file that is
// being compacted would get the one that was replaced meanwhile, and lose what it
// writes there; so it looks again.
func openLocked(path string) (*bolt.DB, error) {
	for {
		before, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("boltstore: %w", err)
		}
		db, err := bolt.Open(path, 0o600, options())
		if err != nil {
			return nil, inUse(path, err)
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(before, now) {
			return db, nil
		}
		if err := db.Close(); err != nil {
			return nil, fmt.Errorf("boltstore: %w", err)
		}
	}
}
