// Package ackstore names the things pushd keeps (Action, Dispatch, Ack, Lease,
// State) and states what a store promises about them.
//
// A store keeps queue, in-flight table and ack ledger together: every verb of
// [Store] is one transaction per item, and when it returns without an error what
// it did is on disk. Verbs take slices; a call error means that nothing of the
// call was applied, an item's own Err that this item was not. Callers pass
// durations, and only such instants as a client sent: a store has one clock.
//
// The package does not decide anything: the tables of protocol sections 7 to 12
// live in inflight/ledger, which every driver runs inside its transaction. It
// does not promise delivery either; that is the business of stream and inflight.
package ackstore
