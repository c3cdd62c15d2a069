package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"pushd/ackstore/boltstore"
	"pushd/server"
)

// backupOf lets the server make copies of its store, beside it: there is no other
// place that is surely its own. A copy takes as much room again as the store; it
// is not begun where that would fill the disk.
func backupOf(store *boltstore.Store, dir string) server.Backup {
	path := boltstore.File(dir) + ".backup"
	return func(ctx context.Context) (string, error) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // a crash left it
			return "", err
		}
		if info, err := os.Stat(boltstore.File(dir)); err == nil {
			if free, known := freeSpace(dir); known && free < info.Size()+spareSpace {
				return "", fmt.Errorf("a copy of %s does not fit beside it: %s free", sizeText(info.Size()), sizeText(free))
			}
		}
		return path, store.Snapshot(ctx, path)
	}
}

// spareSpace is what a backup leaves to the server that makes it.
const spareSpace = 64 << 20
