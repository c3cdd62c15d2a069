// Package server speaks HTTP for pushd: it reads what strangers send, decides who
// may, asks the store, and writes what became of it (protocol sections 1, 3 to 6,
// 9, 10 and 12).
//
// It promises that every answer of 400 and above is a problem document and that
// errors.go alone chooses its status; that nothing misspelt is ignored; that a
// payload's text is handed on as it came; that a 2xx on a push or an ack is the
// store's word; that no query string, payload or token is ever logged; and that
// [Server.Run] returns within five seconds of its context's end, whoever hangs.
//
// It leaves to others what an action's next state is (the store), what goes over
// an event stream (stream), and which settings there are (cmd/pushd).
//
// A request's way: conn.go and log.go (the connection, its log line), guard.go
// (what no route takes), auth.go (who), routes.go (which handler), the handler's
// file, and errors.go.
package server
