package main_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The benchmark itself must go on working; its figures are for quiet machines.
func TestBenchMeasuresARealServer(t *testing.T) {
	t.Parallel()
	out, talk, code := run(t, "pushctl", "bench", "--machines", "1,4", "--duration", "200ms", "--rate", "100", "--streams", "60", "-o", "json")
	require.Equal(t, 0, code, talk)
	var report struct {
		SyncMS float64 `json:"fsync_p50_ms"`
		Cycles []struct {
			Machines  int     `json:"machines"`
			PerSecond float64 `json:"cycles_per_s"`
			P50       float64 `json:"push_to_bytes_p50_ms"`
			P99       float64 `json:"push_to_bytes_p99_ms"`
			Commits   float64 `json:"commits_per_cycle"`
		} `json:"cycles"`
		Paced *struct {
			PerSecond float64 `json:"cycles_per_s"`
		} `json:"paced"`
		Idle *struct {
			Streams   int     `json:"streams"`
			PerStream float64 `json:"rss_bytes_per_stream"`
		} `json:"idle_streams"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.Positive(t, report.SyncMS)
	require.Len(t, report.Cycles, 2)
	for _, c := range report.Cycles {
		require.Positive(t, c.PerSecond)
		require.Positive(t, c.P50)
		require.GreaterOrEqual(t, c.P99, c.P50)
		require.Positive(t, c.Commits)
		require.LessOrEqual(t, c.Commits, 2.2, "a cycle takes one commit for its push and its dispatch, and one for its ack")
	}
	require.Positive(t, report.Paced.PerSecond)
	require.Equal(t, 60, report.Idle.Streams)
}
