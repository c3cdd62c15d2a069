// Command pushd is both the service and the hand that people use on it.
//
// `pushd serve` wires the packages and runs them; this is the only place that
// names a store driver, and app.go the only one that knows the order in which
// things end. All other commands are a client of a running server and speak
// nothing but the HTTP contract of docs/protocol.md, except `token`, which also
// works on the data directory of a stopped one.
//
// The same binary is built as pushctl: `pushd` alone is a builtin of bash, zsh
// and cmd.exe and an alias in PowerShell, so a person who types it gets the
// shell's.
package main
