//go:build !linux

package stream

import "net"

// TuneConn makes an accepted connection notice a peer that has vanished; for
// http.Server.ConnContext.
func TuneConn(c net.Conn) error { panic("soon") }
