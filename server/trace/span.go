package trace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"pushd/ackstore"
)

// openMost bounds the memory of deliveries that have no verdict yet.
const openMost = 100_000

// delivery is one that is on its way.
type delivery struct {
	number      int
	sent, acked time.Time
}

// take turns one change into what it means for spans.
func (t *Tracer) take(c *ackstore.Change) {
	switch c.Event {
	case "pushed":
		t.pushed(c)
		return
	case "dispatched", "resent":
		t.begin(c, c.At)
		return
	case "revived":
		t.begin(c, c.Sent)
	}
	d := t.open[c.ActionID]
	if d == nil && c.Was == ackstore.InFlight && !c.Sent.IsZero() {
		d = &delivery{number: c.Delivery, sent: c.Sent} // from before the start, or beyond openMost
	}
	if d == nil {
		return
	}
	switch c.Event {
	case "received", "revived", "done", "failed", "released":
		if d.acked.IsZero() {
			d.acked = c.At
		}
	}
	// One commit may tell of several; a receipt is no verdict, whatever came with it.
	if c.Event != "received" && c.Event != "revived" && c.State != ackstore.InFlight {
		delete(t.open, c.ActionID)
		t.delivered(c, d)
	}
}

func (t *Tracer) begin(c *ackstore.Change, at time.Time) {
	if len(t.open) < openMost {
		t.open[c.ActionID] = &delivery{number: c.Delivery, sent: at}
	}
}

func about(c *ackstore.Change) trace.SpanStartEventOption {
	return trace.WithAttributes(attribute.String("pushd.action_id", c.ActionID), attribute.String("pushd.machine_id", c.MachineID))
}

func (t *Tracer) pushed(c *ackstore.Change) {
	ctx := remote(c.Trace)
	if c.Trace == "" {
		ctx = context.WithValue(ctx, rootKey{}, c.ActionID)
	}
	_, span := t.tracer.Start(ctx, "push", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(c.At), about(c))
	span.End(trace.WithTimestamp(c.At))
}

func (t *Tracer) delivered(c *ackstore.Change, d *delivery) {
	ctx := remote(c.Trace)
	if c.Trace == "" {
		ctx = trace.ContextWithRemoteSpanContext(ctx, t.rootOf(c.ActionID))
	}
	_, span := t.tracer.Start(ctx, "delivery", trace.WithSpanKind(trace.SpanKindProducer), trace.WithTimestamp(d.sent), about(c))
	span.SetAttributes(attribute.Int("pushd.delivery", d.number), attribute.String("pushd.verdict", c.Event), attribute.String("pushd.state", c.State.String()))
	if !d.acked.IsZero() {
		span.AddEvent("first ack", trace.WithTimestamp(d.acked))
	}
	switch c.Event {
	case "failed", "gave_up", "orphan", "in_doubt":
		span.SetStatus(codes.Error, c.Event)
	}
	span.End(trace.WithTimestamp(c.At))
}

// remote is the trace that a push came with, or none.
func remote(traceparent string) context.Context {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return propagation.TraceContext{}.Extract(context.Background(), carrier)
}

// rootOf is the span of a push that came without a trace.
func (t *Tracer) rootOf(action string) trace.SpanContext {
	of, span := idsOf(action)
	c := trace.SpanContextConfig{TraceID: of, SpanID: span, Remote: true}
	if t.ratio.ShouldSample(sdk.SamplingParameters{TraceID: of}).Decision == sdk.RecordAndSample {
		c.TraceFlags = trace.FlagsSampled
	}
	return trace.NewSpanContext(c)
}

func idsOf(action string) (of trace.TraceID, span trace.SpanID) {
	sum := sha256.Sum256([]byte(action))
	copy(of[:], sum[:])
	copy(span[:], sum[16:])
	return of, span
}

// rootKey holds the action whose push begins a trace.
type rootKey struct{}

// ids are by chance, but for roots: deliveries must find them, after a restart too.
type ids struct{}

// NewIDs serves the SDK.
func (ids) NewIDs(ctx context.Context) (of trace.TraceID, span trace.SpanID) {
	if action, is := ctx.Value(rootKey{}).(string); is {
		return idsOf(action)
	}
	_, _ = rand.Read(of[:]) // it never fails
	return of, ids{}.NewSpanID(ctx, of)
}

// NewSpanID serves the SDK.
func (ids) NewSpanID(context.Context, trace.TraceID) (span trace.SpanID) {
	_, _ = rand.Read(span[:]) // it never fails
	return span
}
