package trace_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"pushd/ackstore"
	"pushd/server/trace"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// collect is a collector: the spans that it is sent come out of the channel.
func collect(t *testing.T) (endpoint string, spans chan *otlp.Span) {
	t.Helper()
	spans = make(chan *otlp.Span, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var got collector.ExportTraceServiceRequest
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &got) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, of := range got.ResourceSpans {
			for _, in := range of.ScopeSpans {
				for _, span := range in.Spans {
					spans <- span
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1/traces", spans
}

func start(t *testing.T, endpoint string, sample float64) (tr *trace.Tracer, stop func()) {
	t.Helper()
	tr, err := trace.New(t.Context(), trace.Config{Endpoint: endpoint, Sample: sample, Logger: zerolog.Nop()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = tr.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return tr, stop
}

// life is an action from its push to its end.
func life(id, traceparent string, t0 time.Time) []ackstore.Change {
	at := func(event string, n time.Duration, was, is ackstore.State) ackstore.Change {
		return ackstore.Change{ActionID: id, MachineID: "m1", Event: event, At: t0.Add(n * time.Second), Was: was, State: is, Sent: t0.Add(time.Second), Delivery: 1, Trace: traceparent}
	}
	return []ackstore.Change{
		at("pushed", 0, 0, ackstore.Queued), at("dispatched", 1, ackstore.Queued, ackstore.InFlight),
		at("received", 2, ackstore.InFlight, ackstore.Done), at("done", 3, ackstore.InFlight, ackstore.Done),
	}
}

func next(t *testing.T, spans chan *otlp.Span) *otlp.Span {
	t.Helper()
	select {
	case s := <-spans:
		return s
	case <-time.After(20 * time.Second):
		require.Fail(t, "no span came")
		return nil
	}
}

func TestAnActionIsASpanOfItsPushAndOneOfEachDelivery(t *testing.T) {
	endpoint, spans := collect(t)
	tr, _ := start(t, endpoint, 0)
	t0 := time.Now().Add(-time.Minute)
	tr.Changed(life("a1", parent, t0))
	push, delivery := next(t, spans), next(t, spans)
	require.Equal(t, "push", push.Name)
	require.Equal(t, "delivery", delivery.Name)
	for _, s := range []*otlp.Span{push, delivery} {
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", hex.EncodeToString(s.TraceId))
		require.Equal(t, "b7ad6b7169203331", hex.EncodeToString(s.ParentSpanId))
	}
	require.Equal(t, uint64(t0.Add(time.Second).UnixNano()), delivery.StartTimeUnixNano)
	require.Equal(t, uint64(t0.Add(3*time.Second).UnixNano()), delivery.EndTimeUnixNano)
	require.Equal(t, "first ack", delivery.Events[0].Name)
	require.Equal(t, uint64(t0.Add(2*time.Second).UnixNano()), delivery.Events[0].TimeUnixNano)
}

func TestAnActionWithoutATraceHasItsOwn(t *testing.T) {
	endpoint, spans := collect(t)
	tr, _ := start(t, endpoint, 1)
	tr.Changed(life("a1", "", time.Now()))
	push, delivery := next(t, spans), next(t, spans)
	require.Equal(t, push.TraceId, delivery.TraceId)
	require.Equal(t, push.SpanId, delivery.ParentSpanId)
	require.Empty(t, push.ParentSpanId)
}

func TestWhatIsNotSampledIsNotSent(t *testing.T) {
	endpoint, spans := collect(t)
	tr, stop := start(t, endpoint, 0)
	tr.Changed(life("a1", "", time.Now()))
	tr.Changed(life("a2", parent[:len(parent)-1]+"0", time.Now()))
	tr.Changed(life("a3", parent, time.Now()))
	next(t, spans)
	next(t, spans)
	stop()
	require.Empty(t, spans)
}

// A collector that hangs slows nobody: what is too much is dropped, and counted.
func TestACollectorThatHangsSlowsNobody(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	tr, _ := start(t, s.URL+"/v1/traces", 1)
	for range 10_000 {
		tr.Changed(life("a1", parent, time.Now()))
	}
	require.Eventually(t, func() bool {
		changes, spans := tr.Dropped()
		return changes > 0 && spans > 0
	}, 20*time.Second, 10*time.Millisecond)
}

func TestNoneIsOff(t *testing.T) {
	var off *trace.Tracer
	off.Changed(life("a1", parent, time.Now()))
}
