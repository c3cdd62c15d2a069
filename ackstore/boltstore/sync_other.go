//go:build !unix

package boltstore

import "os"

// syncIfCan: directories cannot be synced here; the file system keeps a rename.
func syncIfCan(*os.File) error { return nil }
