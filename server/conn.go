package server

import (
	"context"
	"encoding/hex"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"pushd/stream"
)

// connKey finds a request's connection in its context.
type connKey struct{}

// httpServer is set up against clients that are slow, silent or gone. It has no
// WriteTimeout: streams outlive any, and every other answer sets its own deadline.
func (s *Server) httpServer(base context.Context) *http.Server {
	return &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    64 << 10,
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if err := stream.TuneConn(c); err != nil {
				s.cfg.Logger.Debug().Err(err).Msg("a dead peer of this connection will be noticed late")
			}
			return context.WithValue(ctx, connKey{}, c)
		},
		TLSConfig: s.cfg.TLS,
		// The heartbeats of HTTP/2 find a peer that has vanished, as TuneConn's bound
		// does for all.
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second, MaxConcurrentStreams: 250,
		},
		ErrorLog: stdlog.New(s.cfg.Logger.With().Str("from", "net/http").Logger(), "", 0),
	}
}

// serve serves a listener, over TLS if there is a certificate.
func serve(hs *http.Server, l net.Listener) error {
	if hs.TLSConfig == nil {
		return hs.Serve(l)
	}
	return hs.ServeTLS(l, "", "") // its configuration has the certificate
}

// shrinkSendBuffer keeps a stuck reader of the feed from holding megabytes.
func shrinkSendBuffer(ctx context.Context) {
	conn := ctx.Value(connKey{})
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = c.SetWriteBuffer(64 << 10) // only a saving
	}
}

func bootID(rand io.Reader) string {
	var raw [4]byte
	_, _ = io.ReadFull(rand, raw[:]) // a request id need not be unguessable
	return hex.EncodeToString(raw[:])
}
