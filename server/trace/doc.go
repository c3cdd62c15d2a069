// Package trace exports what happens to actions as spans of OpenTelemetry, by OTLP
// over HTTP: one for a push, and one for each delivery, from its dispatch to its
// verdict, with the first ack on the way. They join the trace of the push's
// traceparent; an action without one has a trace of its own, named by its id.
//
// It promises that exporting never slows what is told of: changes come through a
// queue that drops, and counts, rather than waits. What was not exported when the
// process ends is lost.
package trace
