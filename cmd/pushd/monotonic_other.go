//go:build !linux

package main

import "time"

// monotonic is asked for by systemd, which is not here.
func monotonic() time.Duration { return 0 }
