package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"pushd/ackstore"
)

// showMetrics is GET /metrics in Prometheus' text format. Labels are bounded by
// what this file names: no id of an action, session, replay or machine is one.
func (c *call) showMetrics() error {
	overview, err := c.store.Overview(c.r.Context(), c.rules())
	if err != nil {
		return err
	}
	var m exposition
	m.gauge("pushd_build_info", "Version of the server.", 1, "version", c.cfg.Version)
	c.storeMetrics(&m, &overview)
	c.streamMetrics(&m)
	c.watchdogMetrics(&m)
	c.write(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", []byte(m.text.String()))
	return nil
}

func (c *call) storeMetrics(m *exposition, o *ackstore.Overview) {
	m.head("pushd_actions", "Actions by state.", "gauge")
	for _, state := range ackstore.States() {
		m.sample("pushd_actions", float64(o.Counts[state]), "state", state.String())
	}
	m.gauge("pushd_orphans", "Deliveries lost that wait to be sent again.", float64(o.Orphans))
	m.gauge("pushd_machines", "Machines known.", float64(o.Machines))
	m.gauge("pushd_pauses", "Causes for which something is paused.", float64(len(o.Holds)))
	m.gauge("pushd_breakers", "Breakers that are not closed.", float64(len(o.Breakers)))
	age := 0.0
	if !o.OldestQueued.IsZero() {
		age = max(0, c.store.Now().Sub(o.OldestQueued).Seconds())
	}
	m.gauge("pushd_oldest_queued_age_seconds", "Age of the action that has waited longest.", age)
	m.gauge("pushd_store_bytes", "Size of the store's file.", float64(o.Bytes))
	m.counter("pushd_store_commits_total", "Commits since the start.", o.Commits)
}

func (c *call) streamMetrics(m *exposition) {
	n := c.registry.Counts()
	m.gauge("pushd_streams", "Live event streams.", float64(n.Streams))
	m.gauge("pushd_polls", "Polls that wait.", float64(n.Polls))
	m.gauge("pushd_feed_viewers", "Dashboards on the feed.", float64(c.hub.viewers.Load()))
	m.counter("pushd_subscriptions_total", "Streams and polls admitted.", n.Admitted)
	m.counter("pushd_takeovers_total", "Subscriptions that took another's place.", n.Takeovers)
	m.counter("pushd_contests_total", "Takeovers between agents that do not know each other.", n.Contests)
	m.counter("pushd_subscriptions_refused_total", "Subscriptions refused.", n.Refused)
	t := c.cfg.Stream.Tally
	if t == nil {
		return
	}
	m.head("pushd_stream_frames_total", "Frames written to event streams.", "counter")
	m.sample("pushd_stream_frames_total", float64(t.Actions.Load()), "event", "action")
	m.sample("pushd_stream_frames_total", float64(t.Cancels.Load()), "event", "cancel")
	m.sample("pushd_stream_frames_total", float64(t.Heartbeats.Load()), "event", "hb")
	m.sample("pushd_stream_frames_total", float64(t.Byes.Load()), "event", "bye")
	m.counter("pushd_stream_bytes_total", "Bytes written to event streams.", t.Bytes.Load())
	m.counter("pushd_stream_unwritten_total", "Deliveries given back with no byte written.", t.Unwritten.Load())
	m.counter("pushd_stream_write_timeouts_total", "Streams ended by a reader that took nothing.", t.WriteTimeouts.Load())
	m.counter("pushd_stream_write_errors_total", "Streams ended by a write that failed.", t.WriteErrors.Load())
}

func (c *call) watchdogMetrics(m *exposition) {
	w := c.watchdog()
	m.counter("pushd_orphans_detected_total", "Deliveries taken for lost.", w.OrphansDetectedTotal)
	m.counter("pushd_orphans_resent_total", "Orphans sent again.", w.OrphansResentTotal)
	m.counter("pushd_orphans_giveup_total", "Actions given up.", w.OrphansGiveupTotal)
	m.counter("pushd_watchdog_scans_total", "Scans of the watchdog.", w.ScansTotal)
	m.counter("pushd_watchdog_scans_failed_total", "Scans that failed.", w.ScansFailedTotal)
	m.gauge("pushd_watchdog_last_scan_duration_seconds", "How long the last scan took.", w.LastScanDurationMS/1000)
	at := 0.0
	if w.LastScanTS != nil {
		at = float64(w.LastScanTS.UnixMilli()) / float64(time.Second/time.Millisecond)
	}
	m.gauge("pushd_watchdog_last_scan_timestamp_seconds", "When the last scan began; 0 before the first.", at)
}

// exposition writes Prometheus' text format, version 0.0.4.
type exposition struct{ text strings.Builder }

func (e *exposition) head(name, help, kind string) {
	e.text.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

func (e *exposition) gauge(name, help string, value float64, label ...string) {
	e.head(name, help, "gauge")
	e.sample(name, value, label...)
}

func (e *exposition) counter(name, help string, value uint64) {
	e.head(name, help, "counter")
	e.sample(name, float64(value))
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sample writes one line; label is a name and a value, or nothing.
func (e *exposition) sample(name string, value float64, label ...string) {
	e.text.WriteString(name)
	if len(label) == 2 {
		e.text.WriteString(`{` + label[0] + `="` + labelEscapes.Replace(label[1]) + `"}`)
	}
	e.text.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}
