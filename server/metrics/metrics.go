// Package metrics turns what happens into Prometheus' series: what the store says
// has changed, what handlers answered, and at each scrape what there is.
//
// Every label has values that are known beforehand: no id of an action, session,
// replay or machine is one, so the number of series does not grow with them. It
// decides nothing and asks nobody; a scrape is given its Snapshot.
package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"pushd/ackstore"
)

// Metrics counts what happens. Its methods may be called by many goroutines and
// never block.
type Metrics struct {
	registry *prometheus.Registry

	enqueued, deliveries, acks, settled, failures *prometheus.CounterVec
	detected, resent, gaveUp                      *prometheus.CounterVec
	redrives, paused, breakers, closed            *prometheus.CounterVec
	requests, unauthorised                        *prometheus.CounterVec
	dropped, revived, doubled                     prometheus.Counter

	toSend, toReceived, toResult, commit, scan prometheus.Histogram
	orphanAge                                  *prometheus.HistogramVec
}

// Buckets: from a commit on a fast disk to work that takes a day.
var (
	shortBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	waitBuckets  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
	workBuckets  = []float64{.01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600}
	lossBuckets  = []float64{.1, .5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300}
)

// New returns metrics with a registry of their own.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pushd_build_info", Help: "Version of the server.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(build,
		collectors.NewBuildInfoCollector(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.counters()
	m.histograms()
	return m
}

func (m *Metrics) counters() {
	m.enqueued = m.vec("pushd_actions_enqueued_total", "Actions that came in, and what became of them at the door.", labels("source", sources...), labels("outcome", admissions...))
	m.deliveries = m.vec("pushd_deliveries_total", "Dispatches: the first of an action, a retry after a failure, a resend after a loss.", labels("reason", "first", "retry", "resend"))
	m.acks = m.vec("pushd_acks_total", "Acks by what they say and how they were judged.", labels("verb", verbs...), labels("outcome", outcomes...))
	m.detected = m.vec("pushd_orphans_detected_total", "Deliveries taken for lost (num_redelivered elsewhere counts what follows).", labels("cause", causes...))
	m.resent = m.vec("pushd_orphans_resent_total", "Lost deliveries sent again.", labels("cause", causes...))
	m.gaveUp = m.vec("pushd_orphans_giveup_total", "Actions given up: their resends are used up.", labels("cause", causes...))
	m.settled = m.vec("pushd_actions_settled_total", "Actions that reached a final state, and by what.", labels("state", settledStates...), labels("reason", reasons...))
	m.failures = m.vec("pushd_attempt_failures_total", "Executions that failed, by the kind of failure.", labels("class", classes...))
	m.redrives = m.vec("pushd_redrives_total", "Actions queued again by an operator.", labels("from", "in_doubt", "failed", "gave_up", "expired", "cancelled"))
	m.paused = m.vec("pushd_sessions_paused_total", "Pauses of sessions that began.", labels("reason", pauseCauses...))
	m.breakers = m.vec("pushd_breaker_transitions_total", "Breakers that changed.", labels("to", "open", "half_open", "closed"))
	m.closed = m.vec("pushd_streams_closed_total", "Event streams that ended.", labels("reason", closings...))
	m.unauthorised = m.vec("pushd_auth_failures_total", "Requests without a valid token; limited ones were over the limit of their address.", labels("answer", "refused", "limited"))
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "pushd_http_requests_total", Help: "Requests answered, by route and class of status."}, []string{"route", "code"})
	m.dropped = m.one("pushd_repush_cancelled_total", "Resends that were not needed: their agent was heard, or they were cancelled, before they went out.")
	m.revived = m.one("pushd_revived_total", "Lost deliveries whose agent was heard after all.")
	m.doubled = m.one("pushd_duplicate_executions_total", "Actions of which two deliveries were reported done.")
	m.registry.MustRegister(m.requests)
}

func (m *Metrics) histograms() {
	m.toSend = m.histogram("pushd_enqueue_to_send_seconds", "From when an action may go to when the bytes of its first delivery were written.", waitBuckets)
	m.toReceived = m.histogram("pushd_send_to_received_seconds", "From a dispatch to the received that answers it.", waitBuckets)
	m.toResult = m.histogram("pushd_send_to_result_seconds", "From a dispatch to the result.", workBuckets)
	m.commit = m.histogram("pushd_store_commit_seconds", "What a commit of the store takes.", shortBuckets)
	m.scan = m.histogram("pushd_watchdog_scan_seconds", "What a sweep of the watchdog takes.", shortBuckets)
	m.orphanAge = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pushd_orphan_age_seconds", Help: "From a dispatch to when it was taken for lost.", Buckets: lossBuckets,
	}, []string{"cause"})
	for _, cause := range causes {
		m.orphanAge.WithLabelValues(cause)
	}
	m.registry.MustRegister(m.orphanAge)
}

// label is a name and all the values that it may have.
type label struct {
	name   string
	values []string
}

func labels(name string, values ...string) label { return label{name, values} }

// vec makes a counter whose series are all there from the start: a rate over one
// that appears with its first event would miss that event.
func (m *Metrics) vec(name, help string, by ...label) *prometheus.CounterVec {
	names := make([]string, len(by))
	for i, l := range by {
		names[i] = l.name
	}
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, names)
	m.registry.MustRegister(v)
	var each func(chosen []string)
	each = func(chosen []string) {
		if len(chosen) == len(by) {
			v.WithLabelValues(chosen...)
			return
		}
		for _, value := range by[len(chosen)].values {
			each(append(chosen[:len(chosen):len(chosen)], value))
		}
	}
	each(nil)
	return v
}

func (m *Metrics) one(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

// Enqueued counts what was pushed: its source (api, webhook, chain) and the outcome
// (queued, duplicate, conflict, limit, closed, late, failed).
func (m *Metrics) Enqueued(source, outcome string, n int) {
	m.enqueued.WithLabelValues(oneOf(source, sources), oneOf(outcome, admissions)).Add(float64(n))
}

// Acked counts an ack.
func (m *Metrics) Acked(verb ackstore.Verb, outcome ackstore.Outcome) {
	m.acks.WithLabelValues(oneOf(verb.String(), verbs), oneOf(outcome.String(), outcomes)).Inc()
}

// Sent is told when the bytes of a dispatch were written.
func (m *Metrics) Sent(d ackstore.Dispatch, at time.Time) {
	if d.Delivery == 1 {
		observe(m.toSend, at.Sub(d.DueSince))
	}
}

// Committed is told what a commit took.
func (m *Metrics) Committed(took time.Duration) { observe(m.commit, took) }

// Swept is told what a sweep took.
func (m *Metrics) Swept(took time.Duration) { observe(m.scan, took) }

// StreamClosed counts the end of an event stream.
func (m *Metrics) StreamClosed(reason string) {
	m.closed.WithLabelValues(oneOf(reason, closings)).Inc()
}

// Unauthorised counts a request that had no valid token.
func (m *Metrics) Unauthorised(limited bool) {
	answer := "refused"
	if limited {
		answer = "limited"
	}
	m.unauthorised.WithLabelValues(answer).Inc()
}

// Answered counts a request; route is a template of the route table, empty for a
// path that is none of it.
func (m *Metrics) Answered(route string, status int) {
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Inc()
}

func observe(h prometheus.Observer, d time.Duration) { h.Observe(max(0, d).Seconds()) }
