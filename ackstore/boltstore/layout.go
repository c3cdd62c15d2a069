package boltstore

import (
	"encoding/binary"
	"time"

	"pushd/ackstore"
)

// schema is the version of the layout below; a file with a higher one is refused.
const schema = 1

// The buckets. Keys that grow (ord) are cheapest to write (research on bbolt:
// sequential keys are 2.5 to 3.8 times faster in groups), so actions, payloads
// and results are kept by ord, and the indexes point there.
var (
	bucketMeta     = []byte("meta")     // schema, ord, stamp, counts
	bucketActions  = []byte("actions")  // ord -> Action
	bucketBodies   = []byte("bodies")   // ord -> payload
	bucketResults  = []byte("results")  // ord -> result
	bucketIDs      = []byte("ids")      // action_id -> known
	bucketLanes    = []byte("lanes")    // machine 0 session 0 seq -> ord: all unsettled with a session
	bucketLoose    = []byte("loose")    // machine 0 replay 0 target 0 prio seq -> ord: queued without a session
	bucketOpen     = []byte("open")     // ord: in flight, orphan or in doubt
	bucketTimes    = []byte("times")    // at ord kind: what waits for a moment
	bucketEnded    = []byte("ended")    // class settled_at ord: for retention
	bucketTags     = []byte("tags")     // kind id 0 ord: by machine, session, replay
	bucketMachines = []byte("machines") // machine -> machineRow
	bucketLabels   = []byte("labels")   // kind id -> labelRow
	bucketHolds    = []byte("holds")    // scope 0 id 0 machine 0 cause -> Hold
	bucketBreakers = []byte("breakers") // machine 0 target -> breakerRow
	bucketTokens   = []byte("tokens")   // id -> Token
)

var buckets = [][]byte{
	bucketMeta, bucketActions, bucketBodies, bucketResults, bucketIDs, bucketLanes, bucketLoose, bucketOpen,
	bucketTimes, bucketEnded, bucketTags, bucketMachines, bucketLabels, bucketHolds, bucketBreakers, bucketTokens,
	bucketInbox, bucketInboxBodies, bucketInboxKeys, bucketInboxRoutes, bucketEnds, bucketOutbox,
}

var (
	keySchema = []byte("schema")
	keyOrd    = []byte("ord")
	keyStamp  = []byte("stamp")
	keyCounts = []byte("counts")
	keyProbe  = []byte("probe")
)

// Kinds of moments and tags.
const (
	timeAvailable = 'a'
	timeExpires   = 'e'

	tagMachine = 'm'
	tagSession = 's'
	tagReplay  = 'r'
)

func be(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func ordOf(b []byte) uint64 { return binary.BigEndian.Uint64(b) }

// join spells a key: parts with a zero byte behind each. Ids hold none.
func join(parts ...string) []byte {
	n := 0
	for _, p := range parts {
		n += len(p) + 1
	}
	key := make([]byte, 0, n+9)
	for _, p := range parts {
		key = append(append(key, p...), 0)
	}
	return key
}

func laneKey(machine, session string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(join(machine, session), seq)
}

// flow names loose actions that are alike in all that decides whether the first
// of them may go: only that one needs to be looked at.
type flow struct {
	replay, target string
	priority       int
}

func flowOf(a *ackstore.Action) flow { return flow{a.ReplayID, a.Target, a.Priority} }

func (f flow) prefix(machine string) []byte {
	return append(join(machine, f.replay, f.target), byte('9'-f.priority))
}

func (f flow) key(machine string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(f.prefix(machine), seq)
}

func timeKey(at time.Time, ord uint64, kind byte) []byte {
	key := be(uint64(max(at.UnixMilli(), 0)))
	return append(binary.BigEndian.AppendUint64(key, ord), kind)
}

func endedKey(a *ackstore.Action) []byte {
	class := byte('s')
	if a.State.DeadLetter() {
		class = 'd'
	}
	key := append([]byte{class}, be(uint64(max(a.SettledAt.UnixMilli(), 0)))...)
	return binary.BigEndian.AppendUint64(key, a.Ord)
}

func tagKey(kind byte, id string, ord uint64) []byte {
	return binary.BigEndian.AppendUint64(tagPrefix(kind, id), ord)
}

func tagPrefix(kind byte, id string) []byte {
	return append(append([]byte{kind}, id...), 0)
}

func labelKey(scope ackstore.Scope, id string) []byte {
	kind := byte(tagSession)
	if scope == ackstore.OfReplay {
		kind = tagReplay
	}
	return append([]byte{kind}, id...)
}

func holdKey(h *ackstore.Hold) []byte { return join(string(h.Scope), h.ID, h.MachineID, h.Cause) }

// upper is the first key behind all that begin with prefix. The last byte of a
// prefix here is never 0xff.
func upper(prefix []byte) []byte {
	u := append([]byte(nil), prefix...)
	u[len(u)-1]++
	return u
}
