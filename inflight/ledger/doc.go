// Package ledger holds the rules of the in-flight table as pure functions on one
// action: what a dispatch, an ack, a loss, a stall, a subscription and an
// operator do to it (the tables of protocol sections 7 to 9, 11 and 12).
//
// Every driver runs them inside its own transaction, on the counters it has just
// read, and writes what they changed. The package reads no clock, draws no
// random number and keeps nothing; which actions are due, and when, is the
// business of the driver and of package inflight.
package ledger
