package main_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkAgent tells how soon an agent has subscribed (ns/op: start, the beats
// of a machine that was known, the end by SIGTERM not counted) and how much it
// weighs while it has nothing to do.
func BenchmarkAgent(b *testing.B) {
	if raceEnabled {
		b.Skip("the race detector takes time and memory of its own")
	}
	w := site(b, echoes)
	weight := 0
	for b.Loop() {
		w.work()
		b.StopTimer()
		weight = max(weight, memory(b, w.agent.cmd.Process.Pid, "VmRSS"))
		w.end()
		b.StartTimer()
	}
	require.Positive(b, weight)
	b.ReportMetric(float64(weight), "KiB-idle")
}
