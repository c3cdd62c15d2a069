// Package api holds what goes over pushd's wire as Go types, and a small client
// that speaks it.
//
// The types promise that an unset field is left out and that what is read was
// understood: a time is RFC 3339 in UTC with milliseconds, a duration is seconds
// with a fraction, a payload is the JSON text that was pushed. The package knows
// nothing of how a server decides; docs/protocol.md is the contract. The event
// stream itself is read with the codec of package stream: [Client.Subscribe]
// only opens it.
package api
