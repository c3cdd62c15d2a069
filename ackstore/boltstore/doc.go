// Package boltstore keeps the promise of [ackstore.Store] in one bbolt file.
//
// One goroutine, the committer, owns the write side and the memory. It takes all
// the calls that wait, applies them in one transaction, lets streams that have
// nothing left to write ride along with what has become due for them, commits,
// and only then answers and wakes. While one commit syncs, the next calls gather:
// throughput grows with load, and an idle machine waits for one commit.
//
// Memory holds what is in flight, the heads of lanes and the machines; the queue
// itself is on disk. A commit that fails answers [ackstore.ErrUnavailable] to all
// that were in it, and the memory is read again from the file, so that nothing
// half-done is left.
//
// The package decides nothing about an action: package ledger does.
package boltstore
