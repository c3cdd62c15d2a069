package journal_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/agentexec/journal"
	"pushd/agentexec/task"
	"pushd/server/api"
)

type book struct {
	*journal.Journal
	t    *testing.T
	path string
}

func open(t *testing.T) *book {
	b := &book{t: t, path: filepath.Join(t.TempDir(), "agent.db")}
	b.start()
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func (b *book) start() {
	j, err := journal.Open(b.path)
	require.NoError(b.t, err)
	b.Journal = j
}

// again is what a crash leaves, and a new agent finds.
func (b *book) again() journal.Recovered {
	require.NoError(b.t, b.Close())
	b.start()
	r, err := b.Recover()
	require.NoError(b.t, err)
	return r
}

func (b *book) receive(a task.Action) journal.Standing {
	s, err := b.Receive(a, fmt.Sprint(a.Delivery))
	require.NoError(b.t, err)
	return s
}

func (b *book) finish(id, status, kind string) journal.Owed {
	ack := api.Ack{ActionID: id, Status: status, Result: []byte(`"r"`)}
	if kind != "" {
		ack.Error = &api.Failure{Kind: kind}
	}
	require.NoError(b.t, b.Finish(ack))
	list := b.owed()
	return list[len(list)-1]
}

func (b *book) owed() []journal.Owed {
	list, err := b.Owed(1000, 1<<20)
	require.NoError(b.t, err)
	return list
}

func action(id string, delivery int) task.Action {
	return task.Action{ActionID: id, Delivery: delivery, MachineID: "m", Type: "t"}
}

func resent(a task.Action) task.Action {
	a.Delivery++
	a.ResentCount++
	return a
}

func TestAnActionInWorkIsNotNew(t *testing.T) {
	b := open(t)
	a := action("a", 1)
	require.Equal(t, journal.New, b.receive(a))
	require.Equal(t, journal.InWork, b.receive(resent(a)))
	require.NoError(t, b.Begin("a", "r1", time.Now()))
	require.Equal(t, 2, b.finish("a", "done", "").Ack.Delivery, "the verdict speaks of the newest delivery")
	_, last, err := b.Position()
	require.NoError(t, err)
	require.Equal(t, "2", last)
}

func TestARepeatOfWhatIsFinished(t *testing.T) {
	retried := action("a", 2)
	retried.Attempts = 1
	for name, c := range map[string]struct {
		status, kind string
		fate         *journal.Fate
		comes        task.Action
		want         journal.Standing
	}{
		"done and owed":                             {"done", "", nil, resent(action("a", 1)), journal.Finished},
		"done and taken":                            {"done", "", new(journal.Taken), action("a", 2), journal.Finished},
		"failed and owed, sent again":               {"failed", "error", nil, resent(action("a", 1)), journal.Finished},
		"failed and stale, sent again":              {"failed", "error", new(journal.NotTaken), resent(action("a", 1)), journal.Finished},
		"failed and taken, a retry":                 {"failed", "error", new(journal.Taken), retried, journal.New},
		"failed and taken, a retry sent again":      {"failed", "error", new(journal.Taken), resent(retried), journal.New},
		"failed, the answer lost, a retry":          {"failed", "error", nil, retried, journal.New},
		"failed, the answer lost, its retry resent": {"failed", "error", nil, resent(retried), journal.New},
		"failed and taken, the same delivery":       {"failed", "error", new(journal.Taken), action("a", 1), journal.Finished},
		"released and owed":                         {"released", "", nil, resent(action("a", 1)), journal.New},
		"released and taken":                        {"released", "", new(journal.Taken), action("a", 2), journal.New},
		"cancelled and taken, redriven":             {"cancelled", "", new(journal.Taken), action("a", 2), journal.New},
		"forbidden":                                 {"done", "", new(journal.Refused), resent(action("a", 1)), journal.Finished},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			b.receive(action("a", 1))
			o := b.finish("a", c.status, c.kind)
			if c.fate != nil {
				require.NoError(t, b.Answered(o, *c.fate))
				require.Empty(t, b.owed())
			}
			require.Equal(t, c.want, b.receive(c.comes))
			switch list := b.owed(); {
			case c.fate != nil && *c.fate == journal.Refused, c.want == journal.New:
				require.Empty(t, list)
			default:
				require.Len(t, list, 1)
				require.Equal(t, c.comes.Delivery, list[0].Ack.Delivery)
			}
		})
	}
}

func TestAnAnswerToAnOlderDeliverySettlesNothing(t *testing.T) {
	b := open(t)
	b.receive(action("a", 1))
	o := b.finish("a", "done", "")
	require.Equal(t, journal.Finished, b.receive(resent(action("a", 1))))
	require.NoError(t, b.Answered(o, journal.Taken))
	require.Len(t, b.owed(), 1)
}

func TestACrashIsReportedForWhatItInterrupted(t *testing.T) {
	b := open(t)
	instance, _, _ := b.Position()
	for _, id := range []string{"waits", "runs", "ran"} {
		b.receive(action(id, 1))
	}
	require.NoError(t, b.Begin("runs", "r1", time.Now()))
	require.NoError(t, b.Begin("ran", "r2", time.Now()))
	b.finish("ran", "done", "")
	require.Equal(t, journal.Recovered{Released: 1, Interrupted: 1, Owed: 3}, b.again())
	require.Equal(t, journal.Recovered{Owed: 3}, b.again(), "once")
	verdicts := map[string]string{}
	for _, o := range b.owed() {
		verdicts[o.Ack.ActionID] = o.Ack.Status
		if o.Ack.ActionID == "runs" {
			require.Equal(t, "transient", o.Ack.Error.Kind)
			require.Equal(t, "agent_restarted", o.Ack.Error.Code)
		}
	}
	require.Equal(t, map[string]string{"waits": "released", "runs": "failed", "ran": "done"}, verdicts)
	now, last, _ := b.Position()
	require.Equal(t, instance, now, "nothing was forgotten")
	require.Equal(t, "1", last)
}

func TestAStartAfterAConfigFailureIsANewInstance(t *testing.T) {
	b := open(t)
	was, _, _ := b.Position()
	b.receive(action("a", 1))
	o := b.finish("a", "failed", "config")
	b.again()
	now, _, _ := b.Position()
	require.Equal(t, was, now, "what is owed is owed under the old one")
	require.NoError(t, b.Answered(o, journal.Taken))
	b.again()
	now, last, _ := b.Position()
	require.NotEqual(t, was, now)
	require.Empty(t, last)
	was = now
	b.again()
	now, _, _ = b.Position()
	require.Equal(t, was, now)
}

func TestTheLastFinishedIDsAreRemembered(t *testing.T) {
	b := open(t)
	require.Equal(t, journal.New, b.receive(action("first", 1)))
	owed := b.finish("first", "done", "")
	for i := range journal.Remembered + 20 {
		id := fmt.Sprintf("a%04d", i)
		b.receive(action(id, 1))
		require.NoError(t, b.Finish(api.Ack{ActionID: id, Status: "done"}))
		list := b.owed()
		require.NoError(t, b.Answered(list[len(list)-1], journal.Taken))
	}
	require.Equal(t, journal.Finished, b.receive(action("first", 2)), "what is owed is never forgotten")
	_ = owed
	require.Equal(t, journal.New, b.receive(action("a0010", 2)))
	require.Equal(t, journal.Finished, b.receive(action("a0100", 2)))
}

func TestWhatIsRefusedIsKeptAside(t *testing.T) {
	b := open(t)
	b.receive(action("a", 1))
	require.NoError(t, b.Answered(b.finish("a", "done", ""), journal.Refused))
	require.Empty(t, b.owed())
	require.NoError(t, b.Unaside())
	require.Len(t, b.owed(), 1)
}

func TestADirectoryHasOneAgent(t *testing.T) {
	b := open(t)
	_, err := journal.Open(b.path)
	require.ErrorIs(t, err, journal.ErrInUse)
}

func TestReportLeavesWhatIsKnownAlone(t *testing.T) {
	b := open(t)
	b.receive(action("a", 1))
	require.NoError(t, b.Report(action("a", 1), api.Ack{Status: "failed"}))
	require.Empty(t, b.owed())
	require.NoError(t, b.Report(action("b", 1), api.Ack{Status: "failed"}))
	require.Len(t, b.owed(), 1)
}
