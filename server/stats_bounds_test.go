package server_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/server"
)

// However much happens, on however many machines, what is remembered is bounded.
func TestStatsStayWithinTheirMemory(t *testing.T) {
	hub := server.NewHub()
	now := time.Now()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	changes := make([]ackstore.Change, 2)
	for i := range 200_000 {
		id, machine := fmt.Sprint("a", i), fmt.Sprint("m", i)
		at := now.Add(time.Duration(i) * 20 * time.Millisecond)
		changes[0] = ackstore.Change{ActionID: id, MachineID: machine, State: ackstore.Queued, Event: "pushed", At: at}
		changes[1] = ackstore.Change{ActionID: id, MachineID: machine, State: ackstore.Queued, Event: "orphan", At: at}
		hub.Changed(changes)
	}
	grown := int64(heap()) - int64(before)
	t.Logf("200,000 machines and orphans: %d KiB", grown>>10)
	require.Less(t, grown, int64(24<<20))
	runtime.KeepAlive(hub)
}

func BenchmarkStats(b *testing.B) {
	hub := server.NewHub()
	now := time.Now()
	changes := []ackstore.Change{
		{ActionID: "a", MachineID: "m", State: ackstore.Queued, Event: "pushed", At: now},
		{ActionID: "a", MachineID: "m", State: ackstore.InFlight, Event: "dispatched", At: now},
		{ActionID: "a", MachineID: "m", State: ackstore.Done, Event: "done", At: now},
	}
	b.ReportAllocs()
	for b.Loop() {
		hub.Changed(changes)
	}
}
