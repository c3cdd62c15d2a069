package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// systemd is who started us, if it wants to know how we are: the protocol of
// sd_notify(3), a datagram per message. Nil says nothing.
type systemd struct {
	socket string
	every  time.Duration // within which it wants a sign of life; 0: it does not
	log    zerolog.Logger
}

// newSystemd reads what systemd has put into our environment, and takes it away:
// what we start is not us.
func newSystemd(log zerolog.Logger) *systemd {
	s := &systemd{socket: os.Getenv("NOTIFY_SOCKET"), log: log}
	if usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		if pid := os.Getenv("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
			s.every = time.Duration(usec) * time.Microsecond
		}
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name) // it only fails for names that are none
	}
	if s.socket == "" {
		return nil
	}
	if rest, abstract := strings.CutPrefix(s.socket, "@"); abstract {
		s.socket = "\x00" + rest
	}
	return s
}

func (s *systemd) ready()    { s.tell("READY=1") }
func (s *systemd) stopping() { s.tell("STOPPING=1") }

// reloading comes before a ready. The clock is the one that systemd compares with.
func (s *systemd) reloading() {
	s.tell(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic().Microseconds()))
}

func (s *systemd) tell(message string) {
	if s == nil {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(message))
		_ = conn.Close() // a datagram needs no farewell
	}
	if err != nil {
		s.log.Warn().Err(err).Str("message", message).Msg("systemd was not told")
	}
}

// run tells that the service is there, and that it lives as long as scans, the
// watchdog's count of its rounds, goes on: a service whose store hangs is started
// anew. It says that the service stops when ctx ends.
func (s *systemd) run(ctx context.Context, scans func() int64) error {
	if s == nil {
		<-ctx.Done()
		return nil
	}
	s.ready()
	defer s.stopping()
	if s.every == 0 {
		<-ctx.Done()
		return nil
	}
	look := time.NewTicker(max(s.every/8, 10*time.Millisecond))
	defer look.Stop()
	for last := scans(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if now := scans(); now != last {
				last = now
				s.tell("WATCHDOG=1")
			}
		}
	}
}

// outlasts warns of a unit that would end a healthy service: signs of life come
// once in a scan.
func (s *systemd) outlasts(scan time.Duration) {
	if s != nil && s.every > 0 && s.every < 2*scan {
		s.log.Warn().Dur("watchdog_sec", s.every).Dur("scan_interval", scan).
			Msg("WatchdogSec of the unit should be at least twice watchdog.scan_interval")
	}
}
