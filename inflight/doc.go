// Package inflight finds what is in flight and will never be acked, and sends it
// back: the watchdog of protocol section 8, with the graces of section 7.
//
// The watchdog wakes at the very moment at which the store says that something
// is due, and scans at an interval besides, as a net under its timers. What a
// deadline, a lost stream, a returning agent or an ack does to an action is in
// package ledger below; the store applies it in its own transaction. The package
// therefore keeps no table of its own, and a restart loses nothing of it.
package inflight
