package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pushd/server/metrics"
)

// showMetrics is GET /metrics in Prometheus' text format.
func (c *call) showMetrics() error {
	overview, err := c.store.Overview(c.r.Context(), c.rules())
	if err != nil {
		return err
	}
	w := c.watchdog()
	shot := metrics.Snapshot{
		Now: c.store.Now(), Overview: overview, Streams: c.registry.Counts(), Tally: c.cfg.Stream.Tally,
		Viewers: int(c.hub.viewers.Load()), Scans: w.ScansTotal, ScansFailed: w.ScansFailedTotal,
	}
	if w.LastScanTS != nil {
		shot.LastScan = w.LastScanTS.Time
	}
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(answerTimeout))
	c.w.Header().Set("Cache-Control", "no-store")
	// A fixed format and no compression: what is read by eye and by scrapers is one.
	r := c.r.Clone(c.r.Context())
	r.Header.Del("Accept")
	promhttp.HandlerFor(c.metrics.Gatherer(shot), promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(c.w, r)
	return nil
}
