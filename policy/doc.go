// Package policy decides what follows from a failure: whether an action runs
// again, how long it waits, and what its breaker does (protocol sections 9 and
// 11). It also reads what a failed program left behind: [Classify] names the
// kind of a failure, [ParseRetryAfter] the time a service asked to wait.
//
// Everything here is a function of its arguments. There is no clock, no
// randomness and no I/O: the caller passes the instant, the jitter and the
// counters of its own transaction, and keeps what comes back. What this package
// does not know is where an action stands, who its probe is, and which reports
// are older than a breaker's last change; that is the store's business.
package policy
