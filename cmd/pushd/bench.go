package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// benchPlan says what to measure.
type benchPlan struct {
	machines []int
	streams  int
	duration time.Duration
	rate     int
	payload  int
	dir      string
}

// benchReport is what came out. Latencies are from the start of a push to its
// event at the machine, read whole.
type benchReport struct {
	Platform string       `json:"platform"`
	Cores    int          `json:"cores"`
	Dir      string       `json:"data_dir"`
	SyncMS   float64      `json:"fsync_p50_ms"` // of a 1 KiB append to the same disk
	Cycles   []cycleScore `json:"cycles"`
	Paced    *cycleScore  `json:"paced,omitempty"`
	Idle     *idleScore   `json:"idle_streams,omitempty"`
}

// cycleScore is one load of push, deliver and ack, each on disk before its 2xx.
type cycleScore struct {
	Machines        int     `json:"machines"`
	PerSecond       float64 `json:"cycles_per_s"`
	P50             float64 `json:"push_to_bytes_p50_ms"`
	P99             float64 `json:"push_to_bytes_p99_ms"`
	CommitsPerCycle float64 `json:"commits_per_cycle"`
	CPUPerCycle     float64 `json:"server_cpu_us_per_cycle"`
}

// idleScore is the memory of streams that only wait.
type idleScore struct {
	Streams   int     `json:"streams"`
	PerStream float64 `json:"rss_bytes_per_stream"`
	Note      string  `json:"note,omitempty"`
}

func benchCommand(sh *shell) *cobra.Command {
	plan := &benchPlan{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure durable cycles, latency and memory on this machine",
		Long: `Start a server of its own on loopback and measure it: durable cycles (push,
deliver, ack; each push and each ack on disk before its answer) with one and
with many machines, the time from a push to its bytes, commits per cycle, and
resident memory per idle stream. Client and server share this machine, so
compare figures of one run, not of two machines.`,
		Example: `  pushctl bench
  pushctl bench --machines 1,64 --streams 0 --duration 10s -o json`,
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := runBench(cmd.Context(), sh, plan)
			if err != nil {
				return err
			}
			return sh.emit(report, func(w io.Writer) { sh.showBench(w, report) })
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&plan.machines, "machines", []int{1, 16, 64, 256}, "loads to run, in machines")
	flags.IntVar(&plan.streams, "streams", 10_000, "idle streams to hold; 0: none")
	flags.DurationVar(&plan.duration, "duration", 3*time.Second, "how long each load runs")
	flags.IntVar(&plan.rate, "rate", 500, "pushes per second of the paced load; 0: none")
	flags.IntVar(&plan.payload, "payload", 1024, "bytes of a payload")
	flags.StringVar(&plan.dir, "dir", "", "where the data directory is made (default: the system's temporary folder)")
	return cmd
}

func runBench(ctx context.Context, sh *shell, plan *benchPlan) (*benchReport, error) {
	dir, err := os.MkdirTemp(plan.dir, "pushd-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	report := &benchReport{Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Dir: dir}
	if report.SyncMS, err = measureSync(dir); err != nil {
		return nil, err
	}
	for _, n := range plan.machines {
		if n < 1 {
			return nil, usage("--machines %d: at least 1", n)
		}
		sh.say("%d machines, twice for %s …", n, plan.duration)
		score, err := benchMachines(ctx, dir, plan, n)
		if err != nil {
			return nil, err
		}
		report.Cycles = append(report.Cycles, *score)
	}
	if plan.rate > 0 {
		sh.say("8 machines at %d pushes/s for %s …", plan.rate, plan.duration)
		report.Paced, err = benchCycles(ctx, dir, load{machines: 8, duration: plan.duration, payload: plan.payload, ahead: 1000, rate: plan.rate})
		if err != nil {
			return nil, err
		}
	}
	if plan.streams > 0 {
		sh.say("%d idle streams …", plan.streams)
		report.Idle, err = benchIdle(ctx, dir, plan.streams)
	}
	return report, err
}

// benchMachines takes the rate with up to 16 actions of a machine unacked, and
// the latency with one: with 16 it would tell of the queue, not of the line.
func benchMachines(ctx context.Context, dir string, plan *benchPlan, n int) (*cycleScore, error) {
	full, err := benchCycles(ctx, dir, load{machines: n, duration: plan.duration, payload: plan.payload, ahead: 16})
	if err != nil {
		return nil, err
	}
	single, err := benchCycles(ctx, dir, load{machines: n, duration: plan.duration, payload: plan.payload, ahead: 1})
	if err != nil {
		return nil, err
	}
	full.P50, full.P99 = single.P50, single.P99
	return full, nil
}

// measureSync is the disk's own speed, which every durable figure is to be held
// against: the median of appends of 1 KiB, each synced.
func measureSync(dir string) (float64, error) {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 1024)
	took := make([]time.Duration, 200)
	for i := range took {
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return milliseconds(took[len(took)/2]), nil
}

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// quantile of sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func (sh *shell) showBench(w io.Writer, r *benchReport) {
	fmt.Fprintf(w, "%s, %d cores; one synced append to %s takes %.2f ms (median)\n\n", r.Platform, r.Cores, r.Dir, r.SyncMS)
	t := sh.table(w, "MACHINES", "CYCLES/S", "P50 MS", "P99 MS", "COMMITS/CYCLE", "SERVER CPU US/CYCLE")
	rows := r.Cycles
	if r.Paced != nil {
		rows = append(slices.Clone(rows), *r.Paced)
	}
	for i, c := range rows {
		name := strconv.Itoa(c.Machines)
		if i == len(r.Cycles) {
			name += " paced"
		}
		t.row(name, fmt.Sprintf("%.0f", c.PerSecond), fmt.Sprintf("%.2f", c.P50), fmt.Sprintf("%.2f", c.P99), fmt.Sprintf("%.3f", c.CommitsPerCycle), fmt.Sprintf("%.0f", c.CPUPerCycle))
	}
	t.Flush()
	if r.Idle != nil {
		fmt.Fprintf(w, "\n%d idle streams: %.0f bytes of resident memory each\n", r.Idle.Streams, r.Idle.PerStream)
		if r.Idle.Note != "" {
			fmt.Fprintln(w, strings.TrimSpace(r.Idle.Note))
		}
	}
}
