package boltstore

import (
	"bytes"
	"context"
	"time"

	bolt "go.etcd.io/bbolt"

	"pushd/ackstore"
)

// The buckets of what comes in from outside and goes out again. Their serials are
// stamps of the store's logical time, so that none is ever given twice.
var (
	bucketInbox       = []byte("inbox")        // serial -> Delivery
	bucketInboxBodies = []byte("inbox_bodies") // serial -> JSON text
	bucketInboxKeys   = []byte("inbox_keys")   // route 0 key 0 -> serial
	bucketInboxRoutes = []byte("inbox_routes") // route 0 serial
	bucketEnds        = []byte("ends")         // serial -> End
	bucketOutbox      = []byte("outbox")       // to 0 serial -> Letter
)

var (
	_ ackstore.Inbox  = (*Store)(nil)
	_ ackstore.Ends   = (*Store)(nil)
	_ ackstore.Outbox = (*Store)(nil)
)

// Receive records deliveries with the actions they make.
func (s *Store) Receive(ctx context.Context, r ackstore.Rules, keep time.Duration, in []ackstore.Receipt) ([]ackstore.Received, error) {
	answers := make([]ackstore.Received, len(in))
	err := s.submit(ctx, r, func(t *tx) {
		for i := range in {
			answers[i] = t.receive(&in[i])
		}
		t.trimInbox(keep, 2*len(in)+2)
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (t *tx) receive(in *ackstore.Receipt) ackstore.Received {
	if in.End != 0 && t.bucket(bucketEnds).Get(be(in.End)) == nil {
		return ackstore.Received{Answered: true}
	}
	d := in.Delivery
	actions, ids := in.Actions, idsOf(in.Actions)
	if first, ok := t.firstOf(in); ok {
		if actions, ids = t.repeat(in, first.ActionIDs); len(actions) == 0 {
			return t.repeated(in, first)
		}
	}
	if len(actions) > 0 {
		if pushed := t.push(actions); pushed.Err != nil {
			return ackstore.Received{Err: pushed.Err}
		}
	}
	d.Serial, d.At, d.ActionIDs = t.stamp(), t.now, ids
	d.BodyBytes = len(d.Body)
	d.Cut = int64(len(d.Body)) > in.KeepBody
	t.keepDelivery(&d)
	t.answerEnd(in.End)
	return ackstore.Received{Delivery: d}
}

func idsOf(actions []ackstore.NewAction) []string {
	var ids []string
	for i := range actions {
		ids = append(ids, actions[i].ActionID)
	}
	return ids
}

func (t *tx) answerEnd(serial uint64) {
	if serial != 0 {
		t.del(bucketEnds, be(serial))
	}
}

// firstOf is the earlier delivery with the same key.
func (t *tx) firstOf(in *ackstore.Receipt) (ackstore.Delivery, bool) {
	if in.Delivery.Key == "" {
		return ackstore.Delivery{}, false
	}
	d, ok, err := knownDelivery(t.bt, in.Delivery.Route, in.Delivery.Key, t.now.Add(-in.Window))
	t.fail(err)
	return d, ok
}

// repeat is what is pushed anew of a delivery that is known, and the ids that the
// delivery has then; no actions where the first one stands.
func (t *tx) repeat(in *ackstore.Receipt, had []string) (actions []ackstore.NewAction, ids []string) {
	switch in.Repeat {
	case ackstore.RepeatAll:
		return in.Actions, idsOf(in.Actions)
	case ackstore.RepeatFailed:
	default:
		return nil, nil
	}
	dead := make([]bool, len(had))
	all := true
	for i, id := range had {
		dead[i] = t.endedBadly(id)
		all = all && dead[i]
	}
	if all {
		return in.Actions, idsOf(in.Actions)
	}
	if len(had) != len(in.Actions) {
		return nil, nil // which of them is which nobody knows
	}
	ids = append([]string(nil), had...)
	for i := range in.Actions {
		if dead[i] {
			actions, ids[i] = append(actions, in.Actions[i]), in.Actions[i].ActionID
		}
	}
	return actions, ids
}

func (t *tx) endedBadly(id string) bool {
	r, k, ok := t.find(id)
	if !ok {
		return true
	}
	state := k.State
	if r != nil {
		state = r.a.State
	}
	return state.DeadLetter() || state == ackstore.Cancelled
}

// repeated counts a delivery that came again.
func (t *tx) repeated(in *ackstore.Receipt, first ackstore.Delivery) ackstore.Received {
	first.Repeats++
	first.RepeatAt = t.now
	t.put(bucketInbox, be(first.Serial), encode(&first))
	t.answerEnd(in.End)
	return ackstore.Received{Delivery: first, Duplicate: true}
}

func (t *tx) keepDelivery(d *ackstore.Delivery) {
	key := be(d.Serial)
	t.put(bucketInbox, key, encode(d))
	t.put(bucketInboxRoutes, append(join(d.Route), key...), nil)
	if d.Body != nil && !d.Cut {
		t.put(bucketInboxBodies, key, d.Body)
	}
	if d.Key != "" && len(d.ActionIDs) > 0 {
		t.put(bucketInboxKeys, join(d.Route, d.Key), key)
	}
}

// trimInbox throws away records that are older than keep, a few at a time: more
// than came in, so that it keeps up.
func (t *tx) trimInbox(keep time.Duration, most int) {
	for ; keep > 0 && most > 0 && t.err == nil; most-- {
		key, v := t.bucket(bucketInbox).Cursor().First()
		if key == nil {
			return
		}
		d, err := deliveryOf(v)
		if err != nil {
			t.fail(err)
			return
		}
		if d.At.After(t.now.Add(-keep)) {
			return
		}
		t.dropDelivery(clone(key), &d)
	}
}

func (t *tx) dropDelivery(key []byte, d *ackstore.Delivery) {
	t.del(bucketInbox, key)
	t.del(bucketInboxBodies, key)
	t.del(bucketInboxRoutes, append(join(d.Route), key...))
	if known := join(d.Route, d.Key); bytes.Equal(t.bucket(bucketInboxKeys).Get(known), key) {
		t.del(bucketInboxKeys, known)
	}
}

func deliveryOf(v []byte) (ackstore.Delivery, error) {
	var d ackstore.Delivery
	err := decode(v, &d)
	d.At, d.RepeatAt = d.At.Round(time.Microsecond), d.RepeatAt.Round(time.Microsecond)
	return d, err
}

// knownDelivery finds a delivery by its key, if it is not older than since.
func knownDelivery(bt *bolt.Tx, route, key string, since time.Time) (ackstore.Delivery, bool, error) {
	serial := bt.Bucket(bucketInboxKeys).Get(join(route, key))
	if serial == nil {
		return ackstore.Delivery{}, false, nil
	}
	v := bt.Bucket(bucketInbox).Get(serial)
	if v == nil {
		return ackstore.Delivery{}, false, nil
	}
	d, err := deliveryOf(v)
	return d, err == nil && d.At.After(since), err
}

// Known is the delivery of a route that a key leads to. What it reads is on disk.
func (s *Store) Known(_ context.Context, route, key string, window time.Duration) (ackstore.Delivery, error) {
	var d ackstore.Delivery
	err := s.db.View(func(bt *bolt.Tx) error {
		found, ok, err := knownDelivery(bt, route, key, s.cfg.Now().Add(-window))
		if err == nil && !ok {
			err = ackstore.ErrUnknown
		}
		d = found
		return err
	})
	return d, err
}

// Delivery is a record with its body.
func (s *Store) Delivery(_ context.Context, serial uint64) (ackstore.Delivery, error) {
	var d ackstore.Delivery
	err := s.db.View(func(bt *bolt.Tx) (err error) {
		v := bt.Bucket(bucketInbox).Get(be(serial))
		if v == nil {
			return ackstore.ErrUnknown
		}
		if d, err = deliveryOf(v); err == nil {
			d.Body = clone(bt.Bucket(bucketInboxBodies).Get(be(serial)))
		}
		return err
	})
	return d, err
}

// Deliveries pages through the records, newest first.
func (s *Store) Deliveries(_ context.Context, route, cursor string, limit int) (items []ackstore.Delivery, next string, err error) {
	from, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	err = s.db.View(func(bt *bolt.Tx) error {
		inbox, w := bt.Bucket(bucketInbox), &walk{}
		w.c = inbox.Cursor()
		if route != "" {
			w.prefix, w.c = join(route), bt.Bucket(bucketInboxRoutes).Cursor()
		}
		w.begin(from)
		for serial, ok := w.next(); ok; serial, ok = w.next() {
			if len(items) == limit {
				next = cursorOf(serial + 1)
				return nil
			}
			d, err := deliveryOf(inbox.Get(be(serial)))
			if err != nil {
				return err
			}
			items = append(items, d)
		}
		return nil
	})
	return items, next, err
}

// begin goes to what is below from; 0 is the newest.
func (w *walk) begin(from uint64) {
	if from == 0 {
		from = ^uint64(0)
	}
	w.key, _ = w.c.Seek(append(clone(w.prefix), be(from)...))
	if w.key == nil {
		w.key, _ = w.c.Last()
		return
	}
	w.key, _ = w.c.Prev()
}
