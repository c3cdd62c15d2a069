package server

import (
	"time"

	"pushd/ackstore"
)

// Explain says why an action waits.
func Explain(w ackstore.Waiting, machineID string, now time.Time) string {
	return explain(predicament{waiting: w, machine: machineID, now: now})
}

// ExplainMachine says why a machine's queue stands.
func ExplainMachine(m ackstore.Machine, draining bool, now time.Time) string {
	return explainMachine(&m, draining, now)
}
