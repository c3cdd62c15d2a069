package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/inflight/ledger"
)

var (
	t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	rules = ackstore.Rules{
		OrphanTimeout: 15 * time.Second, PollOrphanTimeout: 30 * time.Second, InactivityTimeout: 10 * time.Minute, Ceiling: 4 * time.Hour,
		MaxDisconnectResends: 8, DisconnectGrace: 10 * time.Second, ReconnectGrace: time.Minute, CancelGrace: 20 * time.Second,
		ErrorDelay: time.Second, BackoffBase: 10 * time.Second, BackoffMax: 10 * time.Minute, QuotaDelay: 15 * time.Minute,
		ReleaseDelay: 250 * time.Millisecond,
	}
)

func after(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

// sent is an action whose first delivery went out at t0.
func sent(change ...func(*ackstore.Action)) *ackstore.Action {
	a := &ackstore.Action{ID: "a1", MachineID: "m1", Seq: 1, State: ackstore.Queued, MaxResends: 2, MaxAttempts: 2, TransientMaxAttempts: 5}
	for _, c := range change {
		c(a)
	}
	ledger.Dispatch(a, ledger.Flight{EventID: 7, Stamp: 1, Epoch: 1, Instance: "i1"}, rules, t0)
	return a
}

func hears(a *ackstore.Action, v ackstore.Verb, s float64) ackstore.Outcome {
	return ledger.Ack(a, ackstore.Ack{ActionID: a.ID, Verb: v}, rules, after(s)).Outcome
}

func TestDeadline(t *testing.T) {
	once := func(a *ackstore.Action) { a.Guarantee = ackstore.AtMostOnce }
	for _, c := range []struct {
		name string
		do   func(a *ackstore.Action)
		at   float64 // seconds after the dispatch
		due  ledger.Due
	}{
		{"sent and not received: its orphan timeout", func(*ackstore.Action) {}, 15, ledger.DueOrphan},
		{"received: inactivity runs from the receipt", func(a *ackstore.Action) { hears(a, ackstore.SaysReceived, 3) }, 603, ledger.DueStall},
		{"a second receipt does not start it again", func(a *ackstore.Action) {
			hears(a, ackstore.SaysReceived, 3)
			hears(a, ackstore.SaysReceived, 9)
		}, 603, ledger.DueStall},
		{"working does", func(a *ackstore.Action) {
			hears(a, ackstore.SaysReceived, 3)
			hears(a, ackstore.SaysWorking, 9)
		}, 609, ledger.DueStall},
		{"however active, the ceiling", func(a *ackstore.Action) { hears(a, ackstore.SaysWorking, 4*3600-1) }, 4 * 3600, ledger.DueCeiling},
		{"its stream has ended and nobody has named it", func(a *ackstore.Action) { a.LostSince = after(2) }, 12, ledger.DueGone},
		{"its stream has ended after a receipt", func(a *ackstore.Action) {
			hears(a, ackstore.SaysReceived, 1)
			a.LostSince = after(2)
		}, 62, ledger.DueGone},
		{"and an ack puts that off", func(a *ackstore.Action) {
			hears(a, ackstore.SaysReceived, 1)
			a.LostSince = after(2)
			hears(a, ackstore.SaysWorking, 30)
		}, 90, ledger.DueGone},
		{"told to stop: the grace of a stall", func(a *ackstore.Action) {
			hears(a, ackstore.SaysReceived, 1)
			ledger.Pass(a, ledger.DueStall, rules, false, after(601))
		}, 621, ledger.DueStallGrace},
		{"asked to cancel: its grace", func(a *ackstore.Action) { ledger.Cancel(a, "no", after(1)) }, 15, ledger.DueOrphan},
		{"asked to cancel and received: its grace", func(a *ackstore.Action) {
			hears(a, ackstore.SaysReceived, 1)
			ledger.Cancel(a, "no", after(2))
		}, 22, ledger.DueCancelGrace},
		{"what is not in flight has none", func(a *ackstore.Action) { hears(a, ackstore.SaysDone, 1) }, 0, ledger.DueNever},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := sent()
			c.do(a)
			at, due := ledger.Deadline(a, rules)
			require.Equal(t, c.due, due)
			if due != ledger.DueNever {
				require.Equal(t, after(c.at), at)
			}
		})
	}

	t.Run("without a watchdog only what an operator asked for ends by time", func(t *testing.T) {
		off := rules
		off.WatchdogOff = true
		_, due := ledger.Deadline(sent(once), off)
		require.Equal(t, ledger.DueNever, due)
		a := sent()
		ledger.Cancel(a, "no", after(1))
		at, due := ledger.Deadline(a, off)
		require.Equal(t, ledger.DueCancelGrace, due)
		require.Equal(t, after(21), at)
	})
}

func TestADeliveryOfWhichNoByteWasWrittenIsNotCounted(t *testing.T) {
	a := sent()
	require.True(t, ledger.Unsend(a, 1, after(1)))
	require.Equal(t, []any{ackstore.Queued, 1, 0}, []any{a.State, a.Delivery, a.Deliveries})
	require.True(t, a.FirstDispatchedAt.IsZero())
	require.False(t, ledger.Unsend(a, 1, after(1)), "it is not out")

	ledger.Dispatch(a, ledger.Flight{}, rules, after(2))
	ledger.Lose(a, ackstore.ByTimeout, rules, false, after(20))
	ledger.Dispatch(a, ledger.Flight{}, rules, after(21))
	require.Equal(t, []int{3, 2, 1}, []int{a.Delivery, a.Deliveries, a.Resent()})
	require.True(t, ledger.Unsend(a, 3, after(22)))
	require.Equal(t, []any{ackstore.ByTimeout, 1, 0}, []any{a.Orphan, a.Deliveries, a.Resent()}, "the resend is owed again")
}

func TestAnUnwrittenDeliveryThatWasTakenForLostGoesBackAllTheSame(t *testing.T) {
	a := sent(func(a *ackstore.Action) { a.Guarantee = ackstore.AtMostOnce })
	ledger.Lose(a, ackstore.ByDisconnect, rules, false, after(1))
	require.Equal(t, ackstore.InDoubt, a.State)
	require.True(t, ledger.Unsend(a, 1, after(2)))
	require.Equal(t, []any{ackstore.Queued, ackstore.Cause(0), 0}, []any{a.State, a.Orphan, a.Deliveries})

	a = sent()
	ledger.Lose(a, ackstore.ByDisconnect, rules, false, after(1))
	require.True(t, ledger.Unsend(a, 1, after(2)))
	require.Equal(t, []any{ackstore.Queued, ackstore.Cause(0), 0}, []any{a.State, a.Orphan, a.Deliveries}, "it was never lost")
}

func TestWhatIsRevivedHasItsInactivityTimeoutAgain(t *testing.T) {
	a := sent()
	hears(a, ackstore.SaysReceived, 1)
	a.LostSince = after(2)
	ledger.Lose(a, ackstore.ByDisconnect, rules, false, after(590))
	require.Equal(t, ackstore.Revived, hears(a, ackstore.SaysReceived, 595))
	a.LostSince = time.Time{} // its stream is back
	at, due := ledger.Deadline(a, rules)
	require.Equal(t, []any{after(1195), ledger.DueStall}, []any{at, due})
}

func TestJudge(t *testing.T) {
	id := func(n uint64) *uint64 { return &n }
	acked := func(a *ackstore.Action) { hears(a, ackstore.SaysReceived, 1) }
	unheard := func(*ackstore.Action) {}
	for _, c := range []struct {
		name   string
		to     string // instance it was sent to
		before func(*ackstore.Action)
		in     ledger.Return
		once   bool
		want   ackstore.State
		orphan ackstore.Cause
	}{
		{"same instance, past its last event: never received", "i1", unheard, ledger.Return{Instance: "i1", Last: id(6)}, false, ackstore.Queued, ackstore.ByDisconnect},
		{"the same, at most once: sent again too", "i1", unheard, ledger.Return{Instance: "i1", Last: id(6)}, true, ackstore.Queued, ackstore.ByDisconnect},
		{"same instance, covered: it has it", "i1", unheard, ledger.Return{Instance: "i1", Last: id(7)}, false, ackstore.InFlight, 0},
		{"same instance, acked, no last event: it has it", "i1", acked, ledger.Return{Instance: "i1"}, false, ackstore.InFlight, 0},
		{"same instance, nothing known: lost", "i1", unheard, ledger.Return{Instance: "i1"}, false, ackstore.Queued, ackstore.ByDisconnect},
		{"another instance, acked: lost", "i1", acked, ledger.Return{Instance: "i2", Last: id(7)}, false, ackstore.Queued, ackstore.ByDisconnect},
		{"another instance, at most once: in doubt", "i1", acked, ledger.Return{Instance: "i2", Last: id(7)}, true, ackstore.InDoubt, 0},
		{"no instance on either side, covered: for the grace", "", unheard, ledger.Return{Last: id(7)}, false, ackstore.InFlight, 0},
		{"no instance on either side, past it: lost", "", unheard, ledger.Return{Last: id(6)}, false, ackstore.Queued, ackstore.ByDisconnect},
		{"no instance then, one now: lost", "", acked, ledger.Return{Instance: "i1", Last: id(7)}, false, ackstore.Queued, ackstore.ByDisconnect},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := sent()
			a.SentTo = c.to
			if c.once {
				a.Guarantee = ackstore.AtMostOnce
			}
			c.before(a)
			ledger.Judge(a, c.in, rules, false, after(5))
			require.Equal(t, c.want, a.State)
			require.Equal(t, c.orphan, a.Orphan)
		})
	}

	t.Run("for the grace: it ends a minute after, stream or not", func(t *testing.T) {
		a := sent()
		a.SentTo = ""
		ledger.Judge(a, ledger.Return{Last: id(7)}, rules, false, after(5))
		at, due := ledger.Deadline(a, rules)
		require.Equal(t, []any{after(65), ledger.DueGone}, []any{at, due})
	})

	t.Run("a poller's last event is no receipt of what a poll brought", func(t *testing.T) {
		a := sent()
		a.Via = ackstore.ViaPoll
		ledger.Judge(a, ledger.Return{Instance: "i1", Last: id(7), Via: ackstore.ViaPoll}, rules, false, after(5))
		require.False(t, a.Acked)
		ledger.Judge(a, ledger.Return{Instance: "i1", Last: id(7), Via: ackstore.ViaStream}, rules, false, after(5))
		require.True(t, a.Acked)
	})

	t.Run("a stall's grace and the ceiling do not begin again", func(t *testing.T) {
		a := sent()
		hears(a, ackstore.SaysReceived, 1)
		ledger.Pass(a, ledger.DueStall, rules, false, after(601))
		ledger.Judge(a, ledger.Return{Instance: "i1", Last: id(7)}, rules, false, after(610))
		at, due := ledger.Deadline(a, rules)
		require.Equal(t, []any{after(621), ledger.DueStallGrace}, []any{at, due})
	})
}
