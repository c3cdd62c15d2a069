//go:build unix

package main

import "syscall"

// fileLimit is how many files a process may have open.
func fileLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(l.Cur)
}
