package alert

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"pushd/ackstore"
)

// Source is what alerts ask of a store.
type Source interface {
	Machines(ctx context.Context, r ackstore.Rules, after string, limit int) ([]ackstore.Machine, error)
	Overview(ctx context.Context, r ackstore.Rules) (ackstore.Overview, error)
	Writable(ctx context.Context) error
	ackstore.Outbox
}

// Deps are what a bureau stands on.
type Deps struct {
	Rules  func() ackstore.Rules
	Now    func() time.Time // nil: time.Now
	Logger zerolog.Logger
}

// Bureau hears of changes and tells its receivers. Its zero value is none; see New.
type Bureau struct {
	deps     Deps
	store    Source
	client   *http.Client
	heard    chan []ackstore.Change
	missed   atomic.Uint64
	office   atomic.Pointer[office]
	adopting chan adoption // to the goroutine that listens
	couriers sync.WaitGroup

	hearing sync.Mutex
	newer   map[string]bool // keys of what was heard since look began to read the store; nil: it does not
}

// New returns a bureau that does nothing yet.
func New(c Config, d Deps) *Bureau {
	if d.Now == nil {
		d.Now = time.Now
	}
	b := &Bureau{deps: d, client: newClient(), heard: make(chan []ackstore.Change, 256), adopting: make(chan adoption)}
	b.office.Store(newOffice(c, &office{}))
	return b
}

// Changed takes what the store says has happened. It never blocks: what the bureau
// is too slow for is counted, and told as such.
func (b *Bureau) Changed(changes []ackstore.Change) {
	if len(b.office.Load().desks) == 0 {
		return
	}
	var told []ackstore.Change // the caller may use its slice again
	for i := range changes {
		if _, is := eventOf(&changes[i]); is {
			told = append(told, changes[i])
		}
	}
	if told == nil {
		return
	}
	select {
	case b.heard <- told:
	default:
		b.missed.Add(uint64(len(told)))
	}
}

// Run tells until ctx ends. What was heard and not told then is in the store's
// outbox: the next one tells it.
func (b *Bureau) Run(ctx context.Context, store Source) error {
	b.store = store
	b.forgetStrangers(ctx)
	b.employ(ctx)
	b.couriers.Go(func() { b.look(ctx) })
	b.listen(ctx)
	b.couriers.Wait()
	b.close(context.WithoutCancel(ctx))
	return nil
}

// close puts what waits for its time into the outbox, all at once.
func (b *Bureau) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	// A commit is announced after its answer, and before the next one: what was
	// committed until now has been heard when this returns.
	_ = b.store.Post(ctx, nil) // one that fails fails below too
	for len(b.heard) > 0 {
		b.enter(<-b.heard)
	}
	var letters []ackstore.Letter
	lost := 0
	for _, d := range b.office.Load().desks {
		if m := d.take(b.deps.Now(), true); m != nil {
			letters, lost = append(letters, m.letter(d.id)), lost+m.Count
		}
	}
	if len(letters) == 0 {
		return
	}
	if err := b.store.Post(ctx, letters); err != nil {
		b.deps.Logger.Error().AnErr("cause", err).Int("alerts", lost).Msg("alerts are lost: the store cannot write")
	}
}

// forgetStrangers throws away what waits for receivers that are no more.
func (b *Bureau) forgetStrangers(ctx context.Context) {
	to, err := b.store.Addressees(ctx)
	if err != nil {
		return // the next start tries again
	}
	for _, id := range to {
		if b.office.Load().desk(id) != nil {
			continue
		}
		letters, err := b.store.Letters(ctx, id, keptMost)
		if err != nil {
			return
		}
		tries := make([]ackstore.Tried, len(letters))
		for i := range letters {
			tries[i] = ackstore.Tried{Serial: letters[i].Serial, Gone: true}
		}
		err = b.store.Answer(ctx, tries)
		b.deps.Logger.Warn().Str("receiver", id).Int("alerts", len(letters)).AnErr("cause", err).
			Msg("the receiver is no more; what waited for it is thrown away")
	}
}

func (b *Bureau) listen(ctx context.Context) {
	tick := time.NewTicker(b.pulse())
	defer tick.Stop()
	for {
		select {
		case changes := <-b.heard:
			b.enter(changes)
		case <-tick.C:
			b.postDue(ctx)
		case a := <-b.adopting:
			b.move(ctx, a)
			tick.Reset(b.pulse())
		case <-ctx.Done():
			return
		}
	}
}

// pulse is how often it is looked at what is due.
func (b *Bureau) pulse() time.Duration {
	c := &b.office.Load().cfg
	return min(max(min(c.Gather, c.Every)/4, 10*time.Millisecond), time.Second)
}

// enter adds what changes say to people.
func (b *Bureau) enter(changes []ackstore.Change) {
	b.hearing.Lock()
	defer b.hearing.Unlock()
	for i := range changes {
		if e, is := eventOf(&changes[i]); is {
			if b.newer != nil {
				b.newer[e.Key] = true
			}
			b.add(e)
		}
	}
}

// add enters an event at each desk that wants it. What has passed was another
// kind before, so everybody's ledger is asked.
func (b *Bureau) add(e Event) {
	now := b.deps.Now()
	for _, d := range b.office.Load().desks {
		if !e.Passed && !d.receiver.Load().wants(e.Kind) {
			continue
		}
		d.mu.Lock()
		d.ledger.add(e, now)
		d.mu.Unlock()
	}
}

// postDue puts what is due into the outbox.
func (b *Bureau) postDue(ctx context.Context) {
	if n := b.missed.Swap(0); n > 0 {
		b.deps.Logger.Warn().Uint64("changes", n).Msg("too much happened at once to tell of all of it")
	}
	for _, d := range b.office.Load().desks {
		if m := d.take(b.deps.Now(), false); m != nil {
			l := m.letter(d.id)
			// Where the store cannot write, that itself is the news: it is told at
			// once and without the outbox. An end that comes now is no such trouble.
			if b.put(context.WithoutCancel(ctx), d, l) != nil {
				b.couriers.Go(func() { b.tellDirectly(ctx, d, l) })
			}
		}
	}
}

// storePatience is how long a store that is slow is waited for, not taken for one
// that cannot write.
const storePatience = 5 * time.Second

// put puts a letter into the outbox.
func (b *Bureau) put(ctx context.Context, d *desk, l ackstore.Letter) error {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	if err := b.store.Post(ctx, []ackstore.Letter{l}); err != nil {
		return err
	}
	select {
	case d.more <- struct{}{}:
	default:
	}
	return nil
}

// tellDirectly tells a letter that is nowhere but here, as often as a courier would,
// until the store takes it after all.
func (b *Bureau) tellDirectly(ctx context.Context, d *desk, l ackstore.Letter) {
	for ctx.Err() == nil {
		tried, wait := b.try(ctx, d.receiver.Load(), &l)
		if tried.Gone && tried.Error == "" {
			return
		}
		if tried.Gone {
			break
		}
		l.Tries++
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if b.put(context.WithoutCancel(ctx), d, l) == nil {
			return
		}
	}
	b.deps.Logger.Error().Str("receiver", d.id).Msg("an alert is lost: the store cannot write and its receiver does not take it")
}

// retries are those of Standard Webhooks: the first try is at once.
var retries = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// courier tells one receiver its letters, oldest first. It waits for nobody else,
// and nobody for it.
func (b *Bureau) courier(ctx context.Context, d *desk) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.more:
		case <-d.renewed:
		case <-timer.C:
		}
		next, gone := b.round(ctx, d)
		if gone {
			b.deps.Logger.Warn().Str("receiver", d.id).Msg("the receiver wants no more alerts (410); it gets none until the next start or reload")
			select {
			case <-ctx.Done():
				return
			case <-d.renewed:
			}
		}
		timer.Reset(next)
	}
}

// round tries the letters that are due, and says when the next one is.
func (b *Bureau) round(ctx context.Context, d *desk) (next time.Duration, gone bool) {
	const idle = time.Minute
	letters, err := b.store.Letters(ctx, d.id, 100)
	if err != nil {
		return idle, false
	}
	next = idle
	for i := range letters {
		l := &letters[i]
		if wait := l.DueAt.Sub(b.deps.Now()); wait > 0 {
			next = min(next, wait)
			continue
		}
		tried, wait := b.try(ctx, d.receiver.Load(), l)
		if ctx.Err() != nil {
			return idle, false
		}
		if err := b.store.Answer(ctx, []ackstore.Tried{tried}); err != nil {
			return idle, false
		}
		if tried.Gone && tried.Error == errGone.Error() {
			return 0, true
		}
		if wait > 0 { // the receiver has trouble: the rest would have it too
			return min(wait, idle), false
		}
	}
	return next, false
}

// try tells a letter once, and says after how long to try again; 0 is never.
func (b *Bureau) try(ctx context.Context, r *Receiver, l *ackstore.Letter) (ackstore.Tried, time.Duration) {
	err := r.send(ctx, b.client, l.ID, l.Body, b.deps.Now())
	tried := ackstore.Tried{Serial: l.Serial}
	if err == nil {
		tried.Gone = true
		return tried, 0
	}
	tried.Error = err.Error()
	b.deps.Logger.Warn().Str("receiver", r.ID).Int("try", l.Tries+1).AnErr("cause", err).Msg("an alert was not taken")
	if errors.Is(err, errGone) || l.Tries >= len(retries) {
		tried.Gone = true
		return tried, 0
	}
	tried.After = retries[l.Tries]
	var later *laterError
	if errors.As(err, &later) {
		tried.After = max(tried.After, later.after)
	}
	return tried, tried.After
}

// Test sends every receiver, or the one named, a message at once and past all
// grouping. It answers per receiver.
func Test(ctx context.Context, c *Config, id string, now time.Time) map[string]error {
	m := Message{
		Title: "pushd: a test", Text: "If you can read this, alerts reach you.", At: now, Count: 1,
		Events: []Event{{Kind: "test", Key: "test", Text: "If you can read this, alerts reach you.", At: now}},
	}
	body, err := json.Marshal(m)
	out := map[string]error{}
	for i := range c.Receivers {
		r := &c.Receivers[i]
		if id != "" && r.ID != id {
			continue
		}
		if err == nil {
			out[r.ID] = r.send(ctx, newClient(), "msg_"+uuid.NewString(), body, now)
		} else {
			out[r.ID] = err
		}
	}
	return out
}
