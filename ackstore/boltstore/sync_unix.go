//go:build unix

package boltstore

import "os"

func syncIfCan(d *os.File) error { return d.Sync() }
