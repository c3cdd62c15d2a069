//go:build !linux

package stream

import (
	"fmt"
	"net"
	"time"
)

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

const sendBuffer = 64 << 10

// TuneConn makes an accepted connection notice a peer that has vanished while it
// is idle. Only Linux can bound how long unacknowledged bytes may be out; here a
// peer that vanishes with bytes on their way is found when beats stop coming.
func TuneConn(c net.Conn) error {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	if err := setKeepAlive(tcp); err != nil {
		return fmt.Errorf("stream: tune %v: %w", c.RemoteAddr(), err)
	}
	if err := tcp.SetWriteBuffer(sendBuffer); err != nil {
		return fmt.Errorf("stream: tune %v: %w", c.RemoteAddr(), err)
	}
	return nil
}

// setKeepAlive leaves the number of probes to a system that does not let it be
// chosen, as Windows before 10 version 1703 (where it is ten).
func setKeepAlive(tcp *net.TCPConn) error {
	if tcp.SetKeepAliveConfig(keepAlive) == nil {
		return nil
	}
	uncounted := keepAlive
	uncounted.Count = -1
	return tcp.SetKeepAliveConfig(uncounted)
}
