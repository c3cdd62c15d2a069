//go:build linux || darwin || freebsd

package main

import "syscall"

// freeSpace is what an ordinary user may still write to the disk of a directory.
func freeSpace(dir string) (free int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:unconvert // the types differ by system
}
