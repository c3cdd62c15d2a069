package alert

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// office is who is told, and how. It is never changed; its desks are.
type office struct {
	cfg   Config
	desks []*desk
}

// desk is one receiver's: what it is to be told, and bells for its courier.
type desk struct {
	id       string
	receiver atomic.Pointer[Receiver]
	more     chan struct{} // capacity one: a letter was posted
	renewed  chan struct{} // capacity one: the receiver may be another
	dismiss  context.CancelFunc

	mu     sync.Mutex
	ledger *ledger
}

// adoption is another configuration; taken is closed when it is in force.
type adoption struct {
	cfg   Config
	taken chan struct{}
}

// newOffice takes over the desks of receivers that were there before.
func newOffice(c Config, before *office) *office {
	o := &office{cfg: c}
	for i := range c.Receivers {
		r := &c.Receivers[i]
		d := before.desk(r.ID)
		if d == nil {
			d = &desk{
				id: r.ID, ledger: newLedger(c.Gather, c.Every),
				more: make(chan struct{}, 1), renewed: make(chan struct{}, 1),
			}
		}
		d.renew(r, &c)
		o.desks = append(o.desks, d)
	}
	return o
}

// desk is the one of a receiver, or nil.
func (o *office) desk(id string) *desk {
	for _, d := range o.desks {
		if d.id == id {
			return d
		}
	}
	return nil
}

// take is what is to be told now, or nil: at the end all of it, due or not.
func (d *desk) take(now time.Time, all bool) *Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all {
		return d.ledger.all(now)
	}
	return d.ledger.due(now)
}

// renew has a desk's courier use r from the next letter on.
func (d *desk) renew(r *Receiver, c *Config) {
	d.receiver.Store(r)
	d.mu.Lock()
	d.ledger.gather, d.ledger.every = c.Gather, c.Every
	d.mu.Unlock()
	select {
	case d.renewed <- struct{}{}:
	default:
	}
}

// Adopt tells by another configuration from now on. Nothing that a receiver which
// stays is to be told is lost: what was heard stays at its desk, its letters in the
// store. It needs Run to run.
func (b *Bureau) Adopt(ctx context.Context, c Config) error {
	a := adoption{c, make(chan struct{})}
	select {
	case b.adopting <- a:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-a.taken
	return nil
}

// move goes over to another configuration: who is no more is told nothing more.
func (b *Bureau) move(ctx context.Context, a adoption) {
	before := b.office.Load()
	now := newOffice(a.cfg, before)
	b.office.Store(now)
	b.employ(ctx)
	close(a.taken)
	for _, d := range before.desks {
		if now.desk(d.id) == nil {
			d.dismiss()
		}
	}
	b.forgetStrangers(ctx)
}

// employ gives each desk a courier that has none.
func (b *Bureau) employ(ctx context.Context) {
	for _, d := range b.office.Load().desks {
		if d.dismiss != nil {
			continue
		}
		var own context.Context
		own, d.dismiss = context.WithCancel(ctx)
		b.couriers.Go(func() { b.courier(own, d) })
	}
}
