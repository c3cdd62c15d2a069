package stream_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/stream"
)

const patience = 20 * time.Second

// ending waits for the end of a stream that was taken.
func (s *house) ending() stream.Ending {
	s.Helper()
	select {
	case e := <-s.ended:
		return e
	case <-time.After(patience):
		s.Fatal("the stream has not ended")
		return stream.Ending{}
	}
}

// ask opens a stream by hand and reads its hello.
func (s *house) ask(request string) (end func() error, close, halfClose, reset func(), d *stream.Decoder) {
	s.Helper()
	c := s.dial()
	_, err := io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n"))
	require.NoError(s, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(s, err)
	d = stream.NewDecoder(resp.Body)
	require.Equal(s, []string{"hello"}, names(s.T, d, 1))
	end = func() error { _, err := d.Next(); return err }
	return end, func() { c.Close() }, func() { _ = c.CloseWrite() }, func() { _ = c.SetLinger(0); c.Close() }, d
}

const askEvents = "GET /events?machine_id=m1&instance_id=i1 HTTP/1.1\nHost: x\n\n"

func TestATakenStreamSeesItsClientGo(t *testing.T) {
	for name, go_ := range map[string]func(close, halfClose, reset func()){
		"close":      func(close, _, _ func()) { close() },
		"half-close": func(_, halfClose, _ func()) { halfClose() },
		"reset":      func(_, _, reset func()) { reset() },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, true)
			end, hangUp, halfClose, reset, _ := s.ask(askEvents)
			go_(hangUp, halfClose, reset)
			require.NoError(t, s.ending().Err)
			require.Zero(t, s.registry.Counts().Streams)
			require.Error(t, end(), "gone for both")
		})
	}
}

func TestATakenStreamIgnoresRequestsBehindItsOwn(t *testing.T) {
	s := serve(t, true)
	next := "POST /next?machine_id=m2 HTTP/1.1\nHost: x\nContent-Length: 0\n\n"
	end, hangUp, _, _, d := s.ask(askEvents + strings.Repeat(next, 2000))
	s.store.put("m1", "a1")
	require.Equal(t, []string{"action"}, names(t, d, 1))
	require.Empty(t, s.ended)
	s.registry.CloseTokens(func(string) bool { return true })
	require.Equal(t, []string{"bye"}, names(t, d, 1))
	require.ErrorIs(t, end(), io.EOF)
	hangUp()
	require.NoError(t, s.ending().Err)
	require.Len(t, s.store.attached, 1)
}

func TestATakenStreamSaysByeToClientsOfHTTP10(t *testing.T) {
	s := serve(t, true)
	end, _, _, _, d := s.ask(strings.Replace(askEvents, "HTTP/1.1", "HTTP/1.0", 1))
	require.NoError(t, s.registry.CloseAll(t.Context(), stream.ByeShutdown))
	require.Equal(t, []string{"bye"}, names(t, d, 1))
	require.ErrorIs(t, end(), io.EOF)
	require.NoError(t, s.ending().Err)
}

func TestATakenStreamOfLargeFramesReadsBack(t *testing.T) {
	s := serve(t, true)
	s.config.WriteTimeout = patience
	payload := `"` + strings.Repeat("x", 300_000) + `"`
	_, hangUp, _, _, d := s.ask(askEvents)
	s.store.mu.Lock()
	for i := range 20 {
		small := dispatchOf("m1", fmt.Sprint("a", i), uint64(i))
		if i%3 == 0 {
			small.Payload = []byte(payload)
		}
		s.store.due["m1"] = append(s.store.due["m1"], small)
	}
	s.store.mu.Unlock()
	s.store.notifier.Wake("m1")
	for i := range 20 {
		e, err := d.Next()
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), e.ID)
		require.Equal(t, i%3 == 0, strings.Contains(string(e.Data), payload))
	}
	hangUp()
	require.NoError(t, s.ending().Err)
	require.Empty(t, s.store.lastDetach(t).Unwritten)
}

func TestANewcomerTakesOverATakenStream(t *testing.T) {
	s := serve(t, true)
	end, _, _, _, old := s.ask(askEvents)
	_, hangUp, _, _, fresh := s.ask(askEvents)
	require.Equal(t, []string{"bye"}, names(t, old, 1))
	require.ErrorIs(t, end(), io.EOF)
	require.NoError(t, s.ending().Err)
	s.store.put("m1", "a1")
	require.Equal(t, []string{"action"}, names(t, fresh, 1))
	hangUp()
	require.NoError(t, s.ending().Err)
}

func TestStreamsOverTLS(t *testing.T) {
	for proto, taken := range map[string]bool{"HTTP/1.1": true, "HTTP/2.0": false} {
		t.Run(proto, func(t *testing.T) {
			h, srv := newHouse(t, true)
			secured := httptest.NewUnstartedServer(srv.Handler)
			secured.Config.ConnContext = srv.ConnContext
			secured.EnableHTTP2 = true
			secured.StartTLS()
			defer secured.Close()
			client := secured.Client()
			if taken {
				client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
				client.Transport.(*http.Transport).TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
			}
			resp, err := client.Get(secured.URL + "/events?machine_id=m1")
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, proto, resp.Proto)
			d := stream.NewDecoder(resp.Body)
			require.Equal(t, []string{"hello"}, names(t, d, 1))
			h.store.put("m1", "a1", "a2")
			require.Equal(t, []string{"action", "action"}, names(t, d, 2))
			go h.registry.CloseTokens(func(string) bool { return true })
			require.Equal(t, []string{"bye"}, names(t, d, 1))
			_, err = d.Next()
			require.ErrorIs(t, err, io.EOF)
			if taken {
				require.NoError(t, h.ending().Err)
			}
			require.Empty(t, h.ended)
			require.Eventually(t, func() bool { return h.registry.Counts().Streams == 0 }, patience, time.Millisecond)
		})
	}
}

func TestATakenStreamOverTLSThatIsNotReadIsCutOff(t *testing.T) {
	h, srv := newHouse(t, true)
	secured := httptest.NewUnstartedServer(srv.Handler)
	secured.Config.ConnContext = srv.ConnContext
	secured.StartTLS()
	defer secured.Close()
	c, err := tls.Dial("tcp", secured.Listener.Addr().String(), secured.Client().Transport.(*http.Transport).TLSClientConfig)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, strings.ReplaceAll(askEvents, "\n", "\r\n"))
	require.NoError(t, err)
	h.store.mu.Lock()
	for i := range 24 {
		large := dispatchOf("m1", fmt.Sprint("a", i), uint64(i))
		large.Payload = []byte(`"` + strings.Repeat("x", 900_000) + `"`)
		h.store.due["m1"] = append(h.store.due["m1"], large)
	}
	h.store.mu.Unlock()
	h.store.notifier.Wake("m1")
	require.Error(t, h.ending().Err)
	require.NotEmpty(t, h.store.lastDetach(t).Unwritten)
}

func TestAWriterThatCannotBeTakenIsLeftAlone(t *testing.T) {
	s := newStage(t)
	w := httptest.NewRecorder()
	err := stream.NewSource(s.config, s.store, s.store.notifier).Take(nil, w, httptest.NewRequest("GET", "/events", nil), nil)
	require.True(t, errors.Is(err, http.ErrNotSupported))
	require.False(t, w.Flushed)
}
