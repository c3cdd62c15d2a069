package stream

import "sync/atomic"

// Tally counts what streams write; all streams of a process may share one.
type Tally struct {
	Actions, Cancels, Heartbeats, Byes atomic.Uint64 // frames
	Bytes                              atomic.Uint64
	Unwritten                          atomic.Uint64 // deliveries given back with no byte written
	WriteTimeouts, WriteErrors         atomic.Uint64 // streams that ended by them
	StoreErrors                        atomic.Uint64 // claims that failed
}
