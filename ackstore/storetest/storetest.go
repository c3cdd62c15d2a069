// Package storetest proves that a driver keeps the promise of ackstore.Store.
//
// [Run] holds every verb against the protocol's tables, one sentence a case.
// [Simulate] drives a store at random and checks the invariants of design
// section 7 after each step. [Faults] plants wrong behaviour at the port and
// shows that the two above catch it. [Bench] measures the cycle of an action.
//
// The suite is black-box and owns time: nothing in it sleeps, and what time
// brings happens when it calls Sweep. It does not test speed, several nodes, or
// what stands above the port.
package storetest

import (
	"testing"
	"time"

	"pushd/ackstore"
)

// Factory opens a store on dir; the same dir again is a new start on what a
// store before it left there. The store takes its time from now alone.
type Factory func(t testing.TB, dir string, now func() time.Time, l ackstore.Listener) ackstore.Store

// Crash drops a store as a crash would: without a clean close where the driver
// has Abandon, with one where it has not.
func Crash(s ackstore.Store) error {
	if a, ok := s.(interface{ Abandon() error }); ok {
		return a.Abandon()
	}
	return s.Close()
}

// check is one sentence that holds of every store.
type check struct {
	name string
	run  func(r *rig)
}

// suite is the checks of one part of the port.
type suite struct {
	name   string
	checks []check
}

func suites() []suite {
	return []suite{
		{"push", pushChecks},
		{"order", orderChecks},
		{"claim", claimChecks},
		{"credit", creditChecks},
		{"load", loadChecks},
		{"reconnect", reconnectChecks()},
		{"stream end", streamEndChecks},
		{"poll", pollChecks},
		{"ack", ackChecks},
		{"ack matrix", matrixChecks()},
		{"watchdog", watchdogChecks},
		{"stall", stallChecks},
		{"dead client", deadClientChecks},
		{"schedule and expiry", timeChecks},
		{"policy", policyChecks},
		{"release", releaseChecks},
		{"breaker", breakerChecks},
		{"cancel", cancelChecks},
		{"operator table", operatorChecks()},
		{"redrive", redriveChecks},
		{"bulk", bulkChecks},
		{"pause", pauseChecks},
		{"closed labels", labelChecks},
		{"read", readChecks},
		{"machines", machineChecks},
		{"restart", restartChecks},
		{"retention", retentionChecks},
	}
}

// Run holds a driver against the port's promise, verb by verb.
func Run(t *testing.T, open Factory) {
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			for _, c := range s.checks {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newRig(t, t, open))
				})
			}
		})
	}
}
