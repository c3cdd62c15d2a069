package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// spareFiles are descriptors that a process needs besides its streams: the
// store, the log, the runtime's own.
const spareFiles = 200

// benchIdle opens streams that only wait and weighs the server with and without.
func benchIdle(ctx context.Context, dir string, n int) (*idleScore, error) {
	score := &idleScore{Streams: n}
	if limit := fileLimit(); limit > 0 && n > limit-spareFiles {
		score.Streams = limit - spareFiles
		score.Note = fmt.Sprintf("asked for %d, but ulimit -n is %d", n, limit)
	}
	server, err := startChild(ctx, dir, "stream.max_age=0")
	if err != nil {
		return nil, err
	}
	defer server.stop()
	host := strings.TrimPrefix(server.base, "http://")
	// A first few, so that what the server allots once is not counted.
	warm, err := holdStreams(ctx, host, "warm", 50)
	defer closeAll(warm)
	if err != nil {
		return nil, err
	}
	before, err := server.resident()
	if err != nil {
		return nil, err
	}
	held, err := holdStreams(ctx, host, "idle", score.Streams-len(warm))
	defer closeAll(held)
	if err != nil {
		return nil, err
	}
	after, err := server.settled(ctx)
	if err != nil {
		return nil, err
	}
	score.PerStream = (after - before) / float64(len(held))
	return score, nil
}

// settled is the resident memory once it has stopped to shrink: the garbage of
// opening so many streams is given back within a few seconds.
func (c *child) settled(ctx context.Context) (float64, error) {
	least, err := c.resident()
	for quiet := 0; err == nil && quiet < 5; {
		if !wait(ctx, time.Second) {
			return 0, ctx.Err()
		}
		var now float64
		now, err = c.resident()
		if quiet++; now < least*0.99 {
			least, quiet = now, 0
		}
	}
	return least, err
}

// holdStreams opens n streams and returns once each has said hello. They are
// bare connections: what is weighed is the server, not this client.
func holdStreams(ctx context.Context, host, prefix string, n int) ([]net.Conn, error) {
	conns := make([]net.Conn, n)
	errs := make(chan error, 1)
	next := make(chan int)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range next {
				conn, err := openStream(ctx, host, fmt.Sprintf("%s-%d", prefix, i))
				conns[i] = conn
				if err != nil {
					select {
					case errs <- err:
					default:
					}
					cancel()
				}
			}
		})
	}
	for i := range n {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	select {
	case err := <-errs:
		return conns, err
	default:
		return conns, ctx.Err()
	}
}

func openStream(ctx context.Context, host, machine string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(60 * time.Second)) // a connection just made takes one
	if _, err := fmt.Fprintf(conn, "GET /events?machine_id=%s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n\r\n", machine, host); err != nil {
		return conn, err
	}
	lines := bufio.NewReaderSize(conn, 512)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return conn, fmt.Errorf("bench: stream of %s: %w", machine, err)
		}
		if strings.HasPrefix(line, "HTTP/1.1") && !strings.Contains(line, " 200 ") {
			return conn, fmt.Errorf("bench: stream of %s: %s", machine, strings.TrimSpace(line))
		}
		if strings.HasPrefix(line, "event: hello") {
			return conn, nil
		}
	}
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close() // they held nothing
		}
	}
}
