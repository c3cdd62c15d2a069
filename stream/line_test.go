package stream_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/stream"
)

// Streams that have the connection to themselves: in a bubble first, over a pipe
// that a request could have come by; then over sockets.

// hijackable is the response writer of a connection that may be taken.
type hijackable struct {
	header http.Header
	conn   net.Conn
}

func (h hijackable) Header() http.Header                          { return h.header }
func (h hijackable) WriteHeader(int)                              { panic("net/http shall not answer") }
func (h hijackable) Write([]byte) (int, error)                    { panic("net/http shall not answer") }
func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return h.conn, nil, nil }

// taken is a stream that was taken over.
type taken struct {
	*stage
	seat   *stream.Seat
	client net.Conn
	in     *bufio.Reader
	cancel context.CancelFunc // of the request
	ended  chan stream.Ending
}

func (s *stage) take(req ackstore.AttachReq, proto string) *taken {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	seat, err := s.registry.Admit(ctx, ackstore.Rules{}, req, "token-"+req.InstanceID)
	require.NoError(s, err)
	client, conn := net.Pipe()
	l := &taken{stage: s, seat: seat, client: client, in: bufio.NewReader(client), cancel: cancel, ended: make(chan stream.Ending, 1)}
	w := hijackable{http.Header{"X-Request-Id": {"r1"}}, conn}
	stream.SetHeaders(w.header)
	r := httptest.NewRequestWithContext(ctx, "GET", "/events", nil)
	r.Proto = proto
	r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(proto)
	err = stream.NewSource(s.config, s.store, s.store.notifier).Take(seat, w, r, func(e stream.Ending) { l.ended <- e })
	require.NoError(s, err)
	cancel() // as net/http does when the handler returns
	return l
}

func (l *taken) response() *http.Response {
	l.Helper()
	resp, err := http.ReadResponse(l.in, nil)
	require.NoError(l, err)
	return resp
}

// names reads so many events.
func names(t *testing.T, d *stream.Decoder, n int) (all []string) {
	t.Helper()
	for range n {
		e, err := d.Next()
		require.NoError(t, err)
		all = append(all, e.Name)
	}
	return all
}

func TestATakenStreamIsAnsweredAsNetHTTPWould(t *testing.T) {
	for proto, chunked := range map[string][]string{"HTTP/1.1": {"chunked"}, "HTTP/1.0": nil} {
		t.Run(proto, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.store.put("m1", "a1", "a2")
				l := s.take(streamReq("i1", "10.0.0.1:1"), proto)
				resp := l.response()
				require.Equal(t, proto+" 200 OK", resp.Proto+" "+resp.Status)
				require.Equal(t, chunked, resp.TransferEncoding)
				require.True(t, resp.Close)
				require.EqualValues(t, -1, resp.ContentLength)
				require.Equal(t, http.Header{
					"Cache-Control": {"no-store, no-transform"}, "Connection": {"close"}, "Content-Type": {"text/event-stream"},
					"Date": {"Sat, 01 Jan 2000 00:00:00 GMT"}, "X-Accel-Buffering": {"no"}, "X-Request-Id": {"r1"},
				}, withConnection(resp.Header))
				d := stream.NewDecoder(resp.Body)
				require.Equal(t, []string{"hello", "action", "action", "hb"}, names(t, d, 4))
				go s.registry.CloseTokens(func(string) bool { return true })
				require.Equal(t, []string{"bye"}, names(t, d, 1))
				_, err := d.Next()
				require.ErrorIs(t, err, io.EOF, "it ends whole")
				end := <-l.ended
				require.NoError(t, end.Err)
				require.Greater(t, end.Bytes, int64(s.config.Tally.Bytes.Load()), "the head counts too")
				require.Len(t, s.store.detached, 1)
			})
		})
	}
}

// withConnection puts back what http.ReadResponse takes away.
func withConnection(h http.Header) http.Header {
	h.Set("Connection", "close")
	return h
}

func TestATakenStreamOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.take(streamReq("i1", "10.0.0.1:1"), "HTTP/1.1")
		d := stream.NewDecoder(l.response().Body)
		require.Equal(t, []string{"hello", "hb", "hb"}, names(t, d, 3))
		_, standing := s.registry.Standing("m1", l.seat.StreamID())
		require.Equal(t, stream.Live, standing)
		s.store.put("m1", "a1")
		require.Equal(t, []string{"action"}, names(t, d, 1))
		synctest.Wait()
		l.client.Close()
		require.NoError(t, (<-l.ended).Err)
		_, standing = s.registry.Standing("m1", l.seat.StreamID())
		require.Equal(t, stream.Gone, standing)
		require.Zero(t, s.registry.Counts().Streams)
	})
}

// As over net/http: only that counts as written of which a byte was taken. The
// size of a chunk is no byte of an action.
func TestATakenStreamReturnsExactlyTheUnwritten(t *testing.T) {
	ids := []string{"a1", "a2", "a3"}
	var starts []int
	total := 0
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", ids...)
		for _, d := range s.store.due["m1"] {
			starts = append(starts, total)
			total += len(stream.AppendAction(nil, d))
		}
	})
	head := len(fmt.Sprintf("%x\r\n", total))
	for cut := range head + total {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.store.put("m1", ids...)
			l := s.take(streamReq("i1", "10.0.0.1:1"), "HTTP/1.1")
			skipTo(t, l.client, "\n\n\r\n")
			_, err := io.ReadFull(l.client, make([]byte, cut))
			require.NoError(t, err)
			synctest.Wait()
			l.client.Close()
			require.ErrorIs(t, (<-l.ended).Err, io.ErrClosedPipe)
			var want []string
			for i, start := range starts {
				if cut-head <= start {
					want = append(want, ids[i])
				}
			}
			require.Equal(t, refs(want...), s.store.lastDetach(t).Unwritten, "after %d bytes", cut)
		})
	}
}

func TestATakenStreamThatIsNotReadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.store.put("m1", "a1")
		old := s.take(streamReq("i1", "10.0.0.1:1"), "HTTP/1.1")
		skipTo(t, old.client, "\n\n\r\n")
		synctest.Wait() // it hangs in a1
		start := time.Now()
		fresh := s.take(streamReq("i1", "10.0.0.2:2"), "HTTP/1.1")
		require.Equal(t, 150*time.Millisecond, time.Since(start))
		require.Error(t, (<-old.ended).Err)
		require.Equal(t, refs("a1"), s.store.lastDetach(t).Unwritten)
		skipTo(t, fresh.client, "\n\n\r\n")
		require.Equal(t, 5*time.Second, fresh.untilGone())
	})
}

// untilGone reads nothing.
func (l *taken) untilGone() time.Duration {
	l.store.put("m1", "a2")
	start := time.Now()
	<-l.ended
	return time.Since(start)
}

func TestWhatAClientSaysOnItsStreamIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		l := s.take(streamReq("i1", "10.0.0.1:1"), "HTTP/1.1")
		d := stream.NewDecoder(l.response().Body)
		require.Equal(t, []string{"hello"}, names(t, d, 1))
		for _, size := range []int{1, 16, 17, 100_000} {
			_, err := l.client.Write(make([]byte, size))
			require.NoError(t, err)
		}
		s.store.put("m1", "a1")
		require.Equal(t, []string{"action"}, names(t, d, 1))
		l.client.Close()
		<-l.ended
	})
}

// skipTo reads, byte by byte so as to take no more, up to an end.
func skipTo(t *testing.T, r io.Reader, end string) {
	t.Helper()
	var seen strings.Builder
	for b := make([]byte, 1); !strings.HasSuffix(seen.String(), end); seen.Write(b) {
		_, err := io.ReadFull(r, b)
		require.NoError(t, err)
	}
}

// A panic in work that has a goroutine of its own must end that stream only.
func TestAPanicEndsOneStream(t *testing.T) {
	for name, c := range map[string]func(t *testing.T, s *stage) error{
		"taken": func(_ *testing.T, s *stage) error {
			l := s.take(streamReq("i1", "10.0.0.1:1"), "HTTP/1.1")
			go io.Copy(io.Discard, l.client)
			return (<-l.ended).Err
		},
		"run": func(t *testing.T, s *stage) (err error) {
			seat, admitErr := s.registry.Admit(t.Context(), ackstore.Rules{}, streamReq("i1", "10.0.0.1:1"), "")
			require.NoError(t, admitErr)
			w, client := newWire()
			go io.Copy(io.Discard, client)
			defer client.Close()
			defer func() { err = recover().(error) }()
			return stream.NewSource(s.config, s.store, s.store.notifier).Run(t.Context(), seat, w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.store.onClaim = func(bool) { panic("ouch") }
				var p *stream.PanicError
				require.ErrorAs(t, c(t, s), &p)
				require.Equal(t, "ouch", p.Value)
				require.Contains(t, string(p.Stack), "(*fakeStore).Claim")
				require.Len(t, s.store.detached, 1)
				require.Zero(t, s.registry.Counts().Streams)
			})
		})
	}
}
