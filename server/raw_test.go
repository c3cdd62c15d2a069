package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
)

// raw is a connection for clients that misbehave.
type raw struct {
	r    *rig
	conn *net.TCPConn
	in   *bufio.Reader
}

func (r *rig) dial() *raw {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.addr)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { conn.Close() })
	require.NoError(r.t, conn.SetDeadline(time.Now().Add(2*patience)))
	return &raw{r, conn.(*net.TCPConn), bufio.NewReader(conn)}
}

func (c *raw) send(text string) {
	c.r.t.Helper()
	_, err := io.WriteString(c.conn, text)
	require.NoError(c.r.t, err)
}

func (c *raw) response() *http.Response {
	c.r.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	require.NoError(c.r.t, err)
	return resp
}
