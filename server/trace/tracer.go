package trace

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"pushd/ackstore"
)

const (
	exportTimeout = 2 * time.Second
	sayEvery      = time.Minute // of drops and failures
)

// Config is where spans go.
type Config struct {
	Endpoint string  // a collector's address for traces, with its path
	Sample   float64 // of actions without a traceparent; with one its flag decides
	Version  string
	Logger   zerolog.Logger
}

// Tracer turns changes into spans. A nil one is off.
type Tracer struct {
	log      zerolog.Logger
	heard    chan []ackstore.Change
	dropped  atomic.Uint64
	failed   atomic.Uint64 // spans that the collector did not take
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	ratio    sdk.Sampler
	open     map[string]*delivery // owned by Run
}

// New returns a tracer that does nothing yet.
func New(ctx context.Context, c Config) (*Tracer, error) {
	out, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.Endpoint), otlptracehttp.WithTimeout(exportTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	t := &Tracer{
		log: c.Logger, heard: make(chan []ackstore.Change, 1024), ratio: sdk.TraceIDRatioBased(c.Sample),
		open: map[string]*delivery{},
	}
	// It blocks Run where the collector is slow: so all that is dropped is dropped,
	// and counted, in one place.
	batches := sdk.WithBatcher(&counting{out, &t.failed}, sdk.WithBlocking(), sdk.WithBatchTimeout(time.Second), sdk.WithExportTimeout(exportTimeout))
	about := resource.NewSchemaless(attribute.String("service.name", "pushd"), attribute.String("service.version", c.Version))
	t.provider = sdk.NewTracerProvider(batches, sdk.WithResource(about), sdk.WithIDGenerator(ids{}), sdk.WithSampler(sdk.ParentBased(t.ratio)))
	t.tracer = t.provider.Tracer("pushd")
	return t, nil
}

// counting is an exporter whose failures are counted and not passed on: the SDK
// would write them to the process's own log.
type counting struct {
	sdk.SpanExporter
	failed *atomic.Uint64
}

// ExportSpans serves the SDK.
func (c *counting) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := c.SpanExporter.ExportSpans(ctx, spans); err != nil {
		c.failed.Add(uint64(len(spans)))
	}
	return nil
}

// Changed takes what the store says has happened. It never blocks.
func (t *Tracer) Changed(changes []ackstore.Change) {
	if t == nil {
		return
	}
	var told []ackstore.Change // the caller may use its slice again
	for i := range changes {
		if changes[i].ActionID != "" {
			told = append(told, changes[i])
		}
	}
	if told == nil {
		return
	}
	select {
	case t.heard <- told:
	default:
		t.dropped.Add(uint64(len(told)))
	}
}

// Dropped is how many changes were dropped, and how many spans not taken.
func (t *Tracer) Dropped() (changes, spans uint64) { return t.dropped.Load(), t.failed.Load() }

// Run exports until ctx ends.
func (t *Tracer) Run(ctx context.Context) error {
	if t == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	var said uint64
	for {
		select {
		case changes := <-t.heard:
			for i := range changes {
				t.take(&changes[i])
			}
		case <-tick.C:
			said = t.say(said)
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
			defer cancel()
			_ = t.provider.Shutdown(ending) // what is lost then is lost
			t.say(said)
			return nil
		}
	}
}

// say logs what was lost since it was said last.
func (t *Tracer) say(before uint64) uint64 {
	changes, spans := t.Dropped()
	if changes+spans > before {
		t.log.Warn().Uint64("changes_dropped", changes).Uint64("spans_not_taken", spans).Msg("traces are incomplete; the numbers are since the start")
	}
	return changes + spans
}
