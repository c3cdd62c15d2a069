package stream_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/stream"
)

// acceptOne returns the server's end of a real connection. The listener is Go's
// default, which is Multipath TCP.
func acceptOne(t *testing.T) *net.TCPConn {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	c, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func option(t *testing.T, c *net.TCPConn, level, name int) (value int) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	var failed error
	require.NoError(t, raw.Control(func(fd uintptr) { value, failed = syscall.GetsockoptInt(int(fd), level, name) }))
	require.NoError(t, failed)
	return value
}

func TestTuneConnBoundsWhatStaysUnacknowledged(t *testing.T) {
	const tcpUserTimeout = 18
	cert := selfSigned(t)
	for name, wrap := range map[string]func(*net.TCPConn) net.Conn{
		"plain": func(c *net.TCPConn) net.Conn { return c },
		"TLS": func(c *net.TCPConn) net.Conn {
			return tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := acceptOne(t)
			require.Zero(t, option(t, c, syscall.IPPROTO_TCP, tcpUserTimeout))
			require.NoError(t, stream.TuneConn(wrap(c)))
			require.Equal(t, 20_000, option(t, c, syscall.IPPROTO_TCP, tcpUserTimeout))
			require.Equal(t, 1, option(t, c, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE))
			require.Equal(t, 15, option(t, c, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE))
			require.Equal(t, 5, option(t, c, syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL))
			require.Equal(t, 3, option(t, c, syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT))
			require.Equal(t, 128<<10, option(t, c, syscall.SOL_SOCKET, syscall.SO_SNDBUF), "the kernel doubles it")
		})
	}
}

func TestTuneConnTellsOfItsFailure(t *testing.T) {
	c := acceptOne(t)
	require.NoError(t, c.Close())
	require.Error(t, stream.TuneConn(c))
}

func TestTuneConnLeavesAloneWhatIsNotTCP(t *testing.T) {
	one, two := net.Pipe()
	defer one.Close()
	defer two.Close()
	require.NoError(t, stream.TuneConn(one))
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
