//go:build unix

package boltstore

import (
	"os"
	"syscall"
)

// giveToOwnerOf has a file belong to whom another belongs to, where root works on
// the directory of a service: what root leaves there the service must be able to open.
func giveToOwnerOf(other, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(other)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Chown(path, int(owner.Uid), int(owner.Gid))
}
