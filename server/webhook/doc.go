// Package webhook knows the senders of webhooks: what each of them signs, how it
// names a delivery and an event, how it greets, and what a route of the settings
// file makes of what it sends.
//
// It is pure: it opens no socket, keeps no state and touches no store. It promises
// that a signature is checked over the bytes as they came, before anything in them
// is read, in a time that does not depend on the secret; that no error, answer or
// text of it holds anything worked out from a secret; and that what a template
// renders stands in one JSON string, wherever its value came from. Its work is
// bounded by the size of the body and of the route.
//
// It leaves to others what is remembered of a delivery (the inbox of a store) and
// what is answered for it (package server).
package webhook
