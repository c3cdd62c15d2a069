package main_test

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// faultyProxy is a TCP proxy on loopback that misbehaves as networks do.
type faultyProxy struct {
	addr  string
	to    string
	mode  atomic.Value // "pass", "freeze" or "buffer"
	ended chan struct{}
	all   sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn
}

func newFaultyProxy(t *testing.T, to string) *faultyProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &faultyProxy{addr: l.Addr().String(), to: to, ended: make(chan struct{})}
	p.mode.Store("pass")
	p.all.Go(func() { p.accept(l) })
	t.Cleanup(func() {
		close(p.ended)
		l.Close()
		p.mu.Lock()
		for _, c := range p.open {
			c.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	return p
}

func (p *faultyProxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.to)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		frozen := &atomic.Bool{}
		p.all.Go(func() { p.pump(server, client, false, frozen) })
		p.all.Go(func() { p.pump(client, server, true, frozen) })
	}
}

// pump copies from one side to the other. A connection that was frozen once moves
// nothing more, and is not closed either: that is what a lost route looks like.
// While it buffers, what the server says is held until the server has ended.
func (p *faultyProxy) pump(to, from net.Conn, down bool, frozen *atomic.Bool) {
	var held []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if p.mode.Load() == "freeze" {
			frozen.Store(true)
		}
		if frozen.Load() {
			<-p.ended
			return
		}
		held = append(held, buf[:n]...)
		if err == nil && down && p.mode.Load() == "buffer" {
			continue
		}
		if _, werr := to.Write(held); werr != nil || err != nil {
			break
		}
		held = held[:0]
	}
	for _, c := range []io.Closer{to, from} {
		c.Close()
	}
}
