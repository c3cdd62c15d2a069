package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/ackstore/boltstore"
	"pushd/server/alert"
	"pushd/server/webhook"
)

const (
	patience = 20 * time.Second
	secret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

func load(t *testing.T, receivers string) *alert.Config {
	t.Helper()
	c, err := alert.Load([]byte("alerts:\n  gather: 20ms\n  every: 20ms\n  offline_after: 50ms\n  receivers:\n"+receivers), webhook.Env{
		Getenv: func(name string) string { return map[string]string{"S": secret, "T": "123:abc"}[name] }, ReadFile: os.ReadFile,
	})
	require.NoError(t, err)
	return c
}

// told is a receiver of HTTP: what it is sent, and what it answers.
type told struct {
	*httptest.Server
	got    chan *http.Request
	bodies chan []byte
}

func receiver(t *testing.T, answers ...int) *told {
	t.Helper()
	r := &told{got: make(chan *http.Request, 100), bodies: make(chan []byte, 100)}
	n := make(chan int, 100)
	for _, status := range answers {
		n <- status
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		select {
		case status := <-n:
			w.WriteHeader(status)
		default:
		}
		r.got <- req
		r.bodies <- raw
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *told) next(t *testing.T) (*http.Request, string) {
	t.Helper()
	select {
	case req := <-r.got:
		return req, string(<-r.bodies)
	case <-time.After(patience):
		require.Fail(t, "nobody was told")
	}
	return nil, ""
}

func openStore(t *testing.T) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(boltstore.Config{Dir: t.TempDir(), Logger: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// run runs a bureau until the test ends, or stop is called.
func run(t *testing.T, c *alert.Config, s alert.Source) (b *alert.Bureau, stop func()) {
	t.Helper()
	b = alert.New(*c, alert.Deps{Rules: func() ackstore.Rules { return ackstore.Rules{} }, Logger: zerolog.Nop()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Run(ctx, s) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return b, stop
}

var gaveUp = ackstore.Change{ActionID: "a1", MachineID: "m1", State: ackstore.GaveUp, Event: "gave_up"}

func TestAWebhookIsToldAsStandardWebhooksSays(t *testing.T) {
	r := receiver(t)
	b, _ := run(t, load(t, "  - {id: ops, kind: webhook, secret: env:S, url: '"+r.URL+"'}\n"), openStore(t))
	b.Changed([]ackstore.Change{gaveUp})
	req, body := r.next(t)
	set, err := webhook.Load([]byte("webhooks: {routes: [{id: r, source: standard, secrets: [env:S], actions: [{machine_id: m, type: t}]}]}"),
		webhook.Env{Getenv: func(string) string { return secret }})
	require.NoError(t, err)
	o, err := set.Routes[0].Open(req.Header, []byte(body), time.Now())
	require.NoError(t, err)
	require.Equal(t, "alert.fired", o.Event)
	require.Contains(t, body, "a1 on m1 was given up")
}

func TestSlackTelegramAndCommands(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("its command is one of sh")
	}
	r := receiver(t)
	out := filepath.Join(t.TempDir(), "out")
	c := load(t, "  - {id: s, kind: slack, url: '"+r.URL+"/slack'}\n"+
		"  - {id: t, kind: telegram, token: env:T, chat: '-1', api: '"+r.URL+"'}\n"+
		"  - {id: c, kind: command, command: [sh, -c, 'cat > "+out+".part && mv "+out+".part "+out+"']}\n"+
		"  - {id: n, kind: slack, events: [store], url: '"+r.URL+"/never'}\n")
	for id, err := range alert.Test(t.Context(), c, "", time.Now()) {
		require.NoError(t, err, id)
	}
	paths := map[string]string{}
	for range 3 {
		req, body := r.next(t)
		paths[req.URL.Path] = body
	}
	require.Contains(t, paths["/slack"], `"text":"pushd: a test`)
	require.Contains(t, paths["/bot123:abc/sendMessage"], `"chat_id":"-1"`)
	require.Contains(t, paths["/never"], "a test")
	raw, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(raw), "alerts reach you")

	b, _ := run(t, c, openStore(t))
	b.Changed([]ackstore.Change{gaveUp})
	for range 2 {
		req, _ := r.next(t)
		require.NotEqual(t, "/never", req.URL.Path, "it hears of the store only")
	}
}

func TestALetterOutlivesTheProcess(t *testing.T) {
	r := receiver(t, 503)
	c := load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n")
	s := openStore(t)
	b, stop := run(t, c, s)
	b.Changed([]ackstore.Change{gaveUp})
	_, first := r.next(t)
	stop()
	require.Eventually(t, func() bool {
		letters, err := s.Letters(t.Context(), "ops", 10)
		return err == nil && len(letters) == 1
	}, patience, 10*time.Millisecond)
	letters, err := s.Letters(t.Context(), "ops", 10)
	require.NoError(t, err)
	if letters[0].Tries == 1 { // else it was stopped before it could note the answer
		require.Equal(t, "the receiver answered 503", letters[0].LastError)
		require.WithinDuration(t, time.Now().Add(alert.Retries[0]), letters[0].DueAt, 5*time.Second)
	}
	run(t, c, s)
	_, second := r.next(t) // five seconds later
	require.Equal(t, first, second)
}

func TestWhatWaitsForNobodyIsThrownAway(t *testing.T) {
	r := receiver(t)
	s := openStore(t)
	require.NoError(t, s.Post(t.Context(), []ackstore.Letter{{To: "former", ID: "1", Body: []byte("{}")}}))
	b, _ := run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), s)
	b.Changed([]ackstore.Change{gaveUp})
	r.next(t)
	to, err := s.Addressees(t.Context())
	require.NoError(t, err)
	require.NotContains(t, to, "former")
}

func TestAReceiverThatIsGoneIsLeftAlone(t *testing.T) {
	r := receiver(t, 410)
	s := openStore(t)
	b, _ := run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), s)
	b.Changed([]ackstore.Change{gaveUp})
	r.next(t)
	require.Eventually(t, func() bool {
		letters, err := s.Letters(t.Context(), "ops", 10)
		return err == nil && len(letters) == 0
	}, patience, 10*time.Millisecond)
}

// Another configuration is taken between two messages: what a receiver was to be
// told it is told, at its new address; who goes is told no more; who is new is.
func TestAnotherConfigurationLosesNothing(t *testing.T) {
	before, after := receiver(t, 503), receiver(t)
	s := openStore(t)
	b, _ := run(t, &alert.Config{Gather: time.Second, Every: time.Second, OfflineAfter: time.Hour}, s)
	ops := func(r *told) string { return "  - {id: ops, kind: slack, url: '" + r.URL + "'}\n" }
	require.NoError(t, b.Adopt(t.Context(), *load(t, ops(before)+"  - {id: former, kind: slack, url: '"+before.URL+"/former', events: [store]}\n")))
	b.Changed([]ackstore.Change{gaveUp})
	before.next(t) // and refuses: the letter waits five seconds
	other := gaveUp
	other.ActionID = "a2"
	b.Changed([]ackstore.Change{other})
	require.NoError(t, s.Post(t.Context(), []ackstore.Letter{{To: "former", ID: "x", Body: []byte(`{}`)}}))
	require.NoError(t, b.Adopt(t.Context(), *load(t, ops(after)+"  - {id: new, kind: slack, url: '"+after.URL+"/new'}\n")))
	texts := ""
	for strings.Count(texts, "a1 on m1") == 0 || strings.Count(texts, "a2 on m1") == 0 {
		req, body := after.next(t)
		require.Equal(t, "/", req.URL.Path)
		texts += body
	}
	require.Eventually(t, func() bool {
		to, err := s.Addressees(t.Context())
		return err == nil && len(to) == 0
	}, patience, 10*time.Millisecond)
	require.Empty(t, before.got)
	third := gaveUp
	third.ActionID = "a3"
	b.Changed([]ackstore.Change{third})
	paths := map[string]bool{}
	for range 2 {
		req, _ := after.next(t)
		paths[req.URL.Path] = true
	}
	require.Equal(t, map[string]bool{"/": true, "/new": true}, paths)
}

// A dead receiver slows nobody: not the store, and not another receiver.
func TestADeadReceiverSlowsNobody(t *testing.T) {
	block := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer dead.Close()
	defer close(block)
	r := receiver(t)
	b, _ := run(t, load(t, "  - {id: dead, kind: slack, url: '"+dead.URL+"'}\n  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), openStore(t))
	began := time.Now()
	for i := range 10_000 {
		b.Changed([]ackstore.Change{{ActionID: fmt.Sprint("a", i), MachineID: "m", State: ackstore.GaveUp, Event: "gave_up"}})
	}
	require.Less(t, time.Since(began), time.Second, "Changed never waits")
	r.next(t)
}

// brokenStore cannot write.
type brokenStore struct{ alert.Source }

func (brokenStore) Writable(context.Context) error { return ackstore.ErrUnavailable }

func (brokenStore) Post(context.Context, []ackstore.Letter) error { return ackstore.ErrUnavailable }

func TestAStoreThatCannotWriteIsToldPastTheOutbox(t *testing.T) {
	r := receiver(t)
	run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), brokenStore{openStore(t)})
	_, body := r.next(t)
	require.Contains(t, body, "the store cannot write")
}

func TestAMachineThatIsAwayForLong(t *testing.T) {
	r := receiver(t)
	s := openStore(t)
	rules := ackstore.Rules{MaxMachines: 10, MaxQueued: 10}
	attach := func() ackstore.Lease {
		at, err := s.Attach(t.Context(), rules, []ackstore.AttachReq{{MachineID: "m1", MaxInFlight: 1}})
		require.NoError(t, err)
		return at[0].Lease
	}
	require.NoError(t, s.Detach(t.Context(), rules, []ackstore.DetachReq{{Lease: attach()}}))
	run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), s)
	_, body := r.next(t)
	require.Contains(t, body, "machine m1 is offline")
	attach()
	_, body = r.next(t)
	require.Contains(t, body, "machine m1 is back")
}

// Who removes a machine that is away has seen to it.
func TestAMachineThatIsRemovedIsNotAwayAnyMore(t *testing.T) {
	r := receiver(t)
	s := openStore(t)
	rules := ackstore.Rules{MaxMachines: 10, MaxQueued: 10}
	at, err := s.Attach(t.Context(), rules, []ackstore.AttachReq{{MachineID: "m1", MaxInFlight: 1}})
	require.NoError(t, err)
	require.NoError(t, s.Detach(t.Context(), rules, []ackstore.DetachReq{{Lease: at[0].Lease}}))
	run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), s)
	_, body := r.next(t)
	require.Contains(t, body, "machine m1 is offline")
	require.NoError(t, s.DropMachine(t.Context(), rules, "m1"))
	_, body = r.next(t)
	require.Contains(t, body, "machine m1 is no more")
}

// What was heard and not yet told when the bureau ends is told by the next one.
func TestWhatWasGatheredOutlivesTheEnd(t *testing.T) {
	r := receiver(t)
	s := openStore(t)
	c := load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n")
	slow := *c
	slow.Gather = time.Hour
	b, stop := run(t, &slow, s)
	b.Changed([]ackstore.Change{gaveUp})
	stop()
	run(t, c, s)
	_, body := r.next(t)
	require.Contains(t, body, "a1 on m1 was given up")
}

// slowStore posts when it is let, if it is still waited for then.
type slowStore struct {
	alert.Source
	posting, let chan struct{}
}

func (s *slowStore) Post(ctx context.Context, letters []ackstore.Letter) error {
	s.posting <- struct{}{}
	<-s.let
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return s.Source.Post(ctx, letters)
}

// An end that comes while a message is on its way into the outbox waits for it.
func TestAnEndDoesNotTakeBackWhatIsBeingPosted(t *testing.T) {
	store := openStore(t)
	s := &slowStore{Source: store, posting: make(chan struct{}, 1), let: make(chan struct{})}
	b := alert.New(*load(t, "  - {id: ops, kind: slack, url: 'http://127.0.0.1:1'}\n"), alert.Deps{Rules: func() ackstore.Rules { return ackstore.Rules{} }, Logger: zerolog.Nop()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); _ = b.Run(ctx, s) }()
	b.Changed([]ackstore.Change{gaveUp})
	<-s.posting
	cancel()
	close(s.let)
	<-done
	letters, err := store.Letters(t.Context(), "ops", 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
}

// What was told past the outbox and not taken goes there once the store can write.
func TestWhatWasToldDirectlyOutlivesTheEnd(t *testing.T) {
	r := receiver(t, 503, 503, 503)
	store := openStore(t)
	s := &moodyStore{Source: store}
	s.broken.Store(true)
	b, stop := run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"', events: [gave_up]}\n"), s)
	b.Changed([]ackstore.Change{gaveUp})
	r.next(t)
	s.broken.Store(false)
	stop()
	letters, err := store.Letters(t.Context(), "ops", 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Contains(t, string(letters[0].Body), "a1 on m1 was given up")
}

// busyStore has other work first, to which its callers wait.
type busyStore struct{ alert.Source }

func (s *busyStore) Post(ctx context.Context, letters []ackstore.Letter) error {
	select {
	case <-time.After(2 * time.Second):
		return s.Source.Post(ctx, letters)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// At the end a store that is slow is waited for: it is loaded, not broken.
func TestAnEndWaitsForASlowStore(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store, err := boltstore.Open(boltstore.Config{Dir: dir, Logger: zerolog.Nop()})
		require.NoError(t, err)
		defer func() { require.NoError(t, store.Close()) }()
		c := load(t, "  - {id: one, kind: slack, url: 'http://127.0.0.1:1'}\n  - {id: two, kind: slack, url: 'http://127.0.0.1:1'}\n  - {id: three, kind: slack, url: 'http://127.0.0.1:1'}\n")
		c.Gather = time.Hour
		b, stop := run(t, c, &busyStore{store})
		b.Changed([]ackstore.Change{gaveUp})
		synctest.Wait()
		stop()
		for _, id := range []string{"one", "two", "three"} {
			letters, err := store.Letters(t.Context(), id, 10)
			require.NoError(t, err)
			require.Len(t, letters, 1, id)
		}
	})
}

// lateStore announces a last change behind its answer, before it answers the next call.
type lateStore struct {
	alert.Source
	announce func()
}

func (s *lateStore) Post(ctx context.Context, letters []ackstore.Letter) error {
	s.announce()
	s.announce = func() {}
	return s.Source.Post(ctx, letters)
}

func TestTheLastChangeIsHeardToo(t *testing.T) {
	store := openStore(t)
	s := &lateStore{Source: store}
	b, stop := run(t, load(t, "  - {id: ops, kind: slack, url: 'http://127.0.0.1:1'}\n"), s)
	s.announce = func() { b.Changed([]ackstore.Change{gaveUp}) }
	stop()
	letters, err := store.Letters(t.Context(), "ops", 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
}

// staleStore answers once, with what stood when it was asked, as soon as it is let.
type staleStore struct {
	alert.Source
	asked, let chan struct{}
}

func (s *staleStore) Overview(ctx context.Context, _ ackstore.Rules) (ackstore.Overview, error) {
	select {
	case s.asked <- struct{}{}:
	case <-ctx.Done():
	}
	if _, again := <-s.let; !again {
		return ackstore.Overview{}, ackstore.ErrUnavailable
	}
	return ackstore.Overview{Breakers: []ackstore.Breaker{{MachineID: "m1", Target: "claude"}}}, nil
}

// What is heard while the store is read is newer than what is read.
func TestALookDoesNotTellWhatHasPassedMeanwhile(t *testing.T) {
	r := receiver(t)
	s := &staleStore{Source: openStore(t), asked: make(chan struct{}), let: make(chan struct{})}
	b, _ := run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), s)
	b.Changed([]ackstore.Change{{MachineID: "m1", Event: "breaker_open", Detail: "claude"}})
	_, body := r.next(t)
	require.Contains(t, body, "is open")
	<-s.asked
	b.Changed([]ackstore.Change{{MachineID: "m1", Event: "breaker_closed", Detail: "claude"}})
	_, body = r.next(t)
	require.Contains(t, body, "is closed")
	s.let <- struct{}{}
	close(s.let)
	<-s.asked // that look is over
	b.Changed([]ackstore.Change{gaveUp})
	_, body = r.next(t)
	require.NotContains(t, body, "is open")
}

// moodyStore writes, or does not.
type moodyStore struct {
	alert.Source
	broken atomic.Bool
}

func (s *moodyStore) Writable(ctx context.Context) error {
	if s.broken.Load() {
		return ackstore.ErrUnavailable
	}
	return s.Source.Writable(ctx)
}

func (s *moodyStore) Post(ctx context.Context, letters []ackstore.Letter) error {
	if s.broken.Load() {
		return ackstore.ErrUnavailable
	}
	return s.Source.Post(ctx, letters)
}

// That the store cannot write is told though the receiver is not there at first, and
// that it can again.
func TestABrokenStoreIsToldUntilItIsHeard(t *testing.T) {
	r := receiver(t, 503)
	s := &moodyStore{Source: openStore(t)}
	s.broken.Store(true)
	run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), s)
	_, first := r.next(t)
	_, again := r.next(t) // five seconds later
	require.Equal(t, first, again)
	s.broken.Store(false)
	_, body := r.next(t)
	require.Contains(t, body, "the store can write again")
}

// A stranger's words mention nobody.
func TestSlackReadsNoMentionInWhatIsTold(t *testing.T) {
	r := receiver(t)
	b, _ := run(t, load(t, "  - {id: ops, kind: slack, url: '"+r.URL+"'}\n"), openStore(t))
	b.Changed([]ackstore.Change{{MachineID: "m1", Event: "breaker_open", Detail: "<!channel>&"}})
	_, body := r.next(t)
	var sent struct{ Text string }
	require.NoError(t, json.Unmarshal([]byte(body), &sent))
	require.Contains(t, sent.Text, "&lt;!channel&gt;&amp;")
}

func TestErrorsNameNoAddress(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := load(t, "  - {id: t, kind: telegram, token: env:T, chat: '1', api: '"+gone.URL+"'}\n")
	err := alert.Test(t.Context(), c, "t", time.Now())["t"]
	require.Error(t, err)
	require.NotContains(t, err.Error(), "123:abc")
	require.NotContains(t, err.Error(), "http")
}

func TestReceiversAreRead(t *testing.T) {
	for yaml, want := range map[string]string{
		"{id: x, kind: mail}":                                                            "none of",
		"{id: x, kind: webhook, url: 'http://h'}":                                        "secret is required",
		"{id: x, kind: webhook, url: 'h', secret: env:S}":                                "http or https",
		"{id: x, kind: webhook, url: 'http://h', secret: env:T}":                         "base64",
		"{id: x, kind: slack, url: env:NONE}":                                            "NONE is empty",
		"{id: x, kind: telegram, token: env:T}":                                          "chat is required",
		"{id: x, kind: command}":                                                         "command must",
		"{id: x, kind: slack, url: 'http://h', events: [oom]}":                           "none of",
		"{id: 'a b', kind: slack, url: 'http://h'}":                                      "id must",
		"{id: x, kind: slack, url: 'http://h', uri: x}":                                  "field uri not found",
		"{id: x, kind: command, command: [a]}\n  - {id: x, kind: command, command: [a]}": "twice",
	} {
		_, err := alert.Load([]byte("alerts:\n  receivers:\n  - "+yaml+"\n"), webhook.Env{
			Getenv: func(name string) string { return map[string]string{"S": secret, "T": "123:abc"}[name] },
		})
		require.ErrorContains(t, err, want, yaml)
		require.False(t, errors.Is(err, os.ErrNotExist))
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := alert.Load([]byte("alerts: {every: 5}"), webhook.Env{})
	require.ErrorContains(t, err, "no duration")
	c, err := alert.Load([]byte("webhooks: {routes: []}\n"), webhook.Env{})
	require.NoError(t, err)
	require.Empty(t, c.Receivers)
	_, err = json.Marshal(c)
	require.NoError(t, err)
	require.False(t, strings.Contains(fmt.Sprintf("%v", alert.Message{}), "secret"))
}
