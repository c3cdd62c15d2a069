package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pushd/ackstore"
	"pushd/stream"
)

// Snapshot is what there is at the moment of a scrape.
type Snapshot struct {
	Now      time.Time // the store's
	Overview ackstore.Overview
	Streams  stream.RegistryCounts
	Tally    *stream.Tally // nil: not counted
	Viewers  int           // of the feed

	Scans, ScansFailed uint64    // of the watchdog
	LastScan           time.Time // zero: none yet
}

// Gatherer is all series as they are now.
func (m *Metrics) Gatherer(s Snapshot) prometheus.Gatherer {
	now := prometheus.NewPedanticRegistry()
	now.MustRegister(shot{&s})
	return prometheus.Gatherers{m.registry, now}
}

// shot is a snapshot as a collector; it describes nothing beforehand.
type shot struct{ *Snapshot }

// Describe serves prometheus.Collector.
func (shot) Describe(chan<- *prometheus.Desc) {}

// Collect serves prometheus.Collector.
func (s shot) Collect(out chan<- prometheus.Metric) {
	c := collecting(out)
	c.store(s.Snapshot)
	c.machines(s.Snapshot)
	c.streams(s.Snapshot)
	c.watchdog(s.Snapshot)
}

type collecting chan<- prometheus.Metric

func (c collecting) send(kind prometheus.ValueType, name, help string, value float64, pair ...string) {
	var names, values []string
	if len(pair) == 2 {
		names, values = pair[:1], pair[1:]
	}
	c <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, value, values...)
}

func (c collecting) gauge(name, help string, value float64, pair ...string) {
	c.send(prometheus.GaugeValue, name, help, value, pair...)
}

func (c collecting) counter(name, help string, value uint64, pair ...string) {
	c.send(prometheus.CounterValue, name, help, float64(value), pair...)
}

func (c collecting) store(s *Snapshot) {
	o := &s.Overview
	for _, state := range ackstore.States() {
		c.gauge("pushd_actions", "Actions by state.", float64(o.Counts[state]), "state", state.String())
		if state.Settled() {
			c.counter("pushd_retention_evicted_total", "Records past their retention, by the state they ended in.", o.Evicted[state], "state", state.String())
		}
	}
	c.gauge("pushd_orphans", "Lost deliveries that wait to be sent again.", float64(o.Orphans))
	c.gauge("pushd_oldest_ready_age_seconds", "Age of the action that has waited longest.", s.age(o.OldestQueued))
	c.gauge("pushd_oldest_in_flight_age_seconds", "Since the first dispatch of what is in flight.", s.age(o.OldestInFlight))
	c.gauge("pushd_breaker_open", "Breakers that are open or half open.", float64(len(o.Breakers)))
	c.gauge("pushd_store_size_bytes", "Size of the store's file.", float64(o.Bytes))
	c.counter("pushd_store_commits_total", "Commits since the start.", o.Commits)
	c.counter("pushd_clock_jumps_total", "How often the wall clock was set.", o.ClockJumps.Forward, "direction", "forward")
	c.counter("pushd_clock_jumps_total", "How often the wall clock was set.", o.ClockJumps.Back, "direction", "back")
}

// age is 0 where there is nothing.
func (s *Snapshot) age(since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(0, s.Now.Sub(since).Seconds())
}

func (c collecting) machines(s *Snapshot) {
	o := &s.Overview
	for _, p := range []ackstore.Presence{ackstore.Online, ackstore.Suspect, ackstore.Grace, ackstore.Offline} {
		c.gauge("pushd_machines", "Machines known, by presence.", float64(o.Presences[p]), "status", string(p))
	}
	c.gauge("pushd_window_used", "In flight on machines that are there (num_ack_pending elsewhere).", float64(o.CreditUsed))
	c.gauge("pushd_window_limit", "What those machines may have in flight.", float64(o.Credit))
	paused := map[string]map[string]bool{"paused": {}, "paused_need_help": {}}
	machines := map[string]bool{}
	for _, h := range o.Holds {
		switch {
		case h.Scope == ackstore.OfMachine:
			machines[h.ID] = true
		case h.Scope == ackstore.OfSession && h.Cause == ackstore.HeldNeedHelp:
			paused["paused_need_help"][h.ID] = true
		case h.Scope == ackstore.OfSession:
			paused["paused"][h.ID] = true
		}
	}
	for status, ids := range paused {
		c.gauge("pushd_sessions", "Sessions that are paused; one that is paused for several reasons counts for each status.", float64(len(ids)), "status", status)
	}
	c.gauge("pushd_machines_paused", "Machines that are paused.", float64(len(machines)))
}

func (c collecting) streams(s *Snapshot) {
	n := s.Streams
	c.gauge("pushd_streams_open", "Live event streams.", float64(n.Streams))
	c.gauge("pushd_polls", "Polls that wait.", float64(n.Polls))
	c.gauge("pushd_feed_viewers", "Dashboards on the feed.", float64(s.Viewers))
	c.counter("pushd_subscriptions_total", "Streams and polls admitted.", n.Admitted)
	c.counter("pushd_takeovers_total", "Subscriptions that took another's place.", n.Takeovers)
	c.counter("pushd_contests_total", "Takeovers between agents that do not know each other.", n.Contests)
	c.counter("pushd_subscriptions_refused_total", "Subscriptions refused.", n.Refused)
	t := s.Tally
	if t == nil {
		t = &stream.Tally{}
	}
	const frames, help = "pushd_stream_frames_total", "Frames written to event streams."
	c.counter(frames, help, t.Actions.Load(), "event", "action")
	c.counter(frames, help, t.Cancels.Load(), "event", "cancel")
	c.counter(frames, help, t.Heartbeats.Load(), "event", "hb")
	c.counter(frames, help, t.Byes.Load(), "event", "bye")
	c.counter("pushd_stream_bytes_total", "Bytes written to event streams.", t.Bytes.Load())
	c.counter("pushd_stream_unwritten_total", "Deliveries given back with no byte written.", t.Unwritten.Load())
}

func (c collecting) watchdog(s *Snapshot) {
	c.counter("pushd_watchdog_scans_total", "Scans of the watchdog.", s.Scans)
	c.counter("pushd_watchdog_scan_failures_total", "Scans that failed.", s.ScansFailed)
	at := 0.0
	if !s.LastScan.IsZero() {
		at = float64(s.LastScan.UnixMilli()) / 1000
	}
	c.gauge("pushd_watchdog_last_scan_timestamp_seconds", "When the last scan began; 0 before the first.", at)
}
