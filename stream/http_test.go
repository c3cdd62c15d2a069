package stream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/stretchr/testify/require"
	"gopkg.in/cenkalti/backoff.v1"

	"pushd/ackstore"
	"pushd/stream"
)

// These few run over real sockets and in real time: the seams to net/http, and a
// client that is not ours.

// house is a stage behind net/http.
type house struct {
	*stage
	base  string
	ended chan stream.Ending // of streams that were taken
}

// serve answers /events and /next the way package server does, but that streams
// stay with net/http unless they are to be taken.
func serve(t *testing.T, take bool) (s *house) {
	t.Helper()
	h, srv := newHouse(t, take)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close() })
	h.base = "http://" + ln.Addr().String()
	return h
}

func newHouse(t *testing.T, take bool) (*house, *http.Server) {
	t.Helper()
	s := newStage(t)
	h := &house{stage: s, ended: make(chan stream.Ending, 100)}
	s.config.WriteTimeout = 300 * time.Millisecond
	refused := func(w http.ResponseWriter, err error) {
		w.WriteHeader(map[bool]int{true: http.StatusConflict, false: http.StatusInternalServerError}[errors.As(err, new(*stream.RefusedError))])
	}
	req := func(r *http.Request, via ackstore.Via) ackstore.AttachReq {
		return ackstore.AttachReq{MachineID: r.FormValue("machine_id"), InstanceID: r.FormValue("instance_id"), Address: r.RemoteAddr, Via: via}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		seat, err := s.registry.Admit(r.Context(), ackstore.Rules{}, req(r, ackstore.ViaStream), "")
		if err != nil {
			refused(w, err)
			return
		}
		stream.SetHeaders(w.Header())
		source := stream.NewSource(s.config, s.store, s.store.notifier)
		if take {
			err := source.Take(seat, w, r, func(e stream.Ending) { h.ended <- e })
			if !errors.Is(err, http.ErrNotSupported) {
				return
			}
		}
		_ = source.Run(r.Context(), seat, w)
	})
	mux.HandleFunc("/next", func(w http.ResponseWriter, r *http.Request) {
		seat, err := s.registry.Admit(r.Context(), ackstore.Rules{}, req(r, ackstore.ViaPoll), "")
		if err != nil {
			refused(w, err)
			return
		}
		defer seat.Leave()
		d, ok, err := stream.Poll(r.Context(), seat, s.store, s.store.notifier, 10*time.Second)
		if err != nil || !ok {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_ = stream.Answer(w, seat, d, s.config.WriteTimeout)
	})
	srv := &http.Server{Handler: mux, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
		if err := stream.TuneConn(c); err != nil {
			t.Error(err)
		}
		return ctx
	}}
	return h, srv
}

func TestAStrangersClientReadsOurStream(t *testing.T) {
	for _, take := range []bool{false, true} {
		t.Run(fmt.Sprint("taken ", take), func(t *testing.T) { aStrangerReads(t, serve(t, take)) })
	}
}

func aStrangerReads(t *testing.T, s *house) {
	s.store.put("m1", "a1", "a2")
	c := sse.NewClient(s.base+"/events?machine_id=m1", sse.ClientMaxBufferSize(4<<20))
	c.ReconnectStrategy = &backoff.StopBackOff{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var names []string
	err := c.SubscribeRawWithContext(ctx, func(e *sse.Event) {
		names = append(names, fmt.Sprintf("%s %s", e.Event, e.ID))
		switch len(names) {
		case 3:
			s.store.put("m1", "a3")
		case 4:
			go s.registry.CloseTokens(func(string) bool { return true })
		}
	})
	require.NoError(t, err)
	require.Equal(t, []string{"hello ", "action 1", "action 2", "action 3", "bye 3"}, names, "an event without an id inherits the last one")
}

func TestAConnectionServesOnAfterAStreamAndAPoll(t *testing.T) {
	s := serve(t, false)
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for range 2 {
		resp, err := client.Get(s.base + "/events?machine_id=m1")
		require.NoError(t, err)
		d := stream.NewDecoder(resp.Body)
		hello, err := d.Next()
		require.NoError(t, err)
		require.Equal(t, "hello", hello.Name)
		s.registry.CloseTokens(func(string) bool { return true })
		last, err := d.Next()
		require.NoError(t, err)
		require.Equal(t, "bye", last.Name)
		_, err = d.Next()
		require.ErrorContains(t, err, "EOF")
		require.NoError(t, resp.Body.Close())

		// Longer than the write timeout: a deadline that stayed would break this.
		time.AfterFunc(2*s.config.WriteTimeout, func() { s.store.put("m1", "a1") })
		resp, err = client.Post(s.base+"/next?machine_id=m1", "", nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		require.NoError(t, resp.Body.Close())
	}
}

func TestASocketThatIsNotReadIsFreedByWriteTimeoutAndByANewcomer(t *testing.T) {
	for name, free := range map[string]func(s *house){
		"write timeout": func(*house) {},
		"a newcomer": func(s *house) {
			resp, err := http.Get(s.base + "/events?machine_id=m1")
			require.NoError(s, err)
			s.Cleanup(func() { resp.Body.Close() })
			_, err = stream.NewDecoder(resp.Body).Next()
			require.NoError(s, err)
		},
	} {
		for _, take := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", taken ", take), func(t *testing.T) {
				s := serve(t, take)
				if name == "a newcomer" {
					s.config.WriteTimeout = time.Hour
				}
				isFreed(s, free)
			})
		}
	}
}

func isFreed(s *house, free func(*house)) {
	c := s.dial()
	ids := make([]string, 24)
	for i := range ids {
		ids[i] = fmt.Sprint("a", i)
	}
	s.store.put("m1", ids...)
	for i := range s.store.due["m1"] {
		s.store.due["m1"][i].Payload = []byte(`"` + strings.Repeat("x", 900_000) + `"`)
	}
	claimed, detached := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(claimed) })
	s.store.onClaim = func(bool) { once() }
	s.store.onDetach = func() { close(detached) }
	_, err := fmt.Fprintf(c, "GET /events?machine_id=m1 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(s, err)
	<-claimed
	free(s)
	select {
	case <-detached:
	case <-time.After(20 * time.Second):
		s.Fatal("the stream still hangs")
	}
	require.NotEmpty(s, s.store.lastDetach(s.T).Unwritten, "what was not begun goes back")
}

// dial is a client's end of a connection.
func (s *house) dial() *net.TCPConn {
	s.Helper()
	u, err := url.Parse(s.base)
	require.NoError(s, err)
	c, err := net.Dial("tcp", u.Host)
	require.NoError(s, err)
	s.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}
