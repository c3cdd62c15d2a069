package stream

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
)

// Heartbeats and write deadlines do not find a peer that has vanished: every
// small write succeeds, and the kernel goes on sending for a quarter of an hour.
// This bound on unacknowledged bytes does, together with a heartbeat.
const (
	tcpUserTimeout = 18 // TCP_USER_TIMEOUT, which package syscall does not name
	userTimeout    = 20 * time.Second
)

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// sendBuffer bounds what a reader that takes nothing is handed. It also makes
// the kernel tell of progress often enough for the write deadline to be about a
// reader that takes nothing, not about one that is slow.
const sendBuffer = 64 << 10

// TuneConn makes an accepted connection notice a peer that has vanished; for
// http.Server.ConnContext, and through TLS too. It is per connection, for Go's
// listeners are Multipath TCP by default and refuse it. What is not TCP is left
// as it is. The error is worth a log line: without this a dead peer is found late.
func TuneConn(c net.Conn) error {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	err := errors.Join(setUserTimeout(tcp), tcp.SetKeepAliveConfig(keepAlive), tcp.SetWriteBuffer(sendBuffer))
	if err != nil {
		return fmt.Errorf("stream: tune %v: %w", c.RemoteAddr(), err)
	}
	return nil
}

func setUserTimeout(tcp *net.TCPConn) error {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
	})
	return errors.Join(err, os.NewSyscallError("setsockopt TCP_USER_TIMEOUT", failed))
}
