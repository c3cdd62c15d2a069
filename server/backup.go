package server

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// Backup makes a consistent copy of the store in a file of its own, which the
// server removes when it has handed it over.
type Backup func(ctx context.Context) (path string, err error)

// backups lets one be made at a time: each takes the disk as much room again as
// the store does.
type backups struct {
	busy sync.Mutex
	make Backup
}

const (
	backupPiece   = 64 << 10
	backupPatient = time.Minute // for a piece
)

// backup is GET /v1/backup. The copy is whole before its first byte leaves, so
// that nothing of the store is held while a client reads, however slowly.
func (c *call) backup() error {
	if c.backups.make == nil {
		return refuse(unknown, "this server makes no backups of itself")
	}
	if !c.backups.busy.TryLock() {
		return refuse(overLimit, "another backup is being made")
	}
	defer c.backups.busy.Unlock()
	path, err := c.backups.make(c.r.Context())
	if err != nil {
		r := refuse(unavailable, "no copy can be made now: %v", err)
		r.cause = err
		return r
	}
	f, err := os.Open(path)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	// Where an open file can be removed, nothing is left even after a crash.
	removed := os.Remove(path) == nil
	err = c.sendFile(f, "pushd.db")
	_ = f.Close() // it was only read
	if !removed {
		err = errors.Join(err, ignoreGone(os.Remove(path)))
	}
	return err
}

func (c *call) sendFile(f *os.File, name string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no") // a proxy's disk need not hold another copy
	c.w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(c.w)
	piece := make([]byte, backupPiece)
	for {
		n, err := f.Read(piece)
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(backupPatient))
			if _, werr := c.w.Write(piece[:n]); werr != nil {
				return werr // Content-Length tells the client that it has not all
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
