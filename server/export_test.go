package server

import (
	"time"

	"pushd/ackstore"
)

// RouteList is the route table as "METHOD /path/:id".
func RouteList() []string {
	var list []string
	for _, r := range new(Server).routes() {
		list = append(list, r.method+" "+r.path)
	}
	return list
}

// ReadPushes is what a body of POST /v1/actions is read as.
func ReadPushes(body []byte, now time.Time) ([]ackstore.NewAction, error) {
	d := &pushDecoder{defaults: Defaults{MaxResends: 2, MaxAttempts: 2, TransientMaxAttempts: 5}, maxPayload: 1 << 20, now: now}
	items, _, err := d.array(body)
	var all []ackstore.NewAction
	for _, item := range items {
		all = append(all, item.action)
	}
	return all, err
}

// ReadAcks is what a body of POST /acks is read as.
func ReadAcks(body []byte) ([]ackstore.Ack, error) {
	acks, _, err := readAcks(body, 1<<20)
	return acks, err
}

// StatusOf is the status that an error is answered with.
func StatusOf(err error) int { return judge(err).problem().Status }

// ParseQueryOf reads a query string of GET /v1/actions.
func ParseQueryOf(raw string) error {
	q, err := parseQuery(raw, listParams)
	if err != nil {
		return err
	}
	q.states()
	q.labels()
	q.limit()
	q.id("machine_id")
	return q.faults.err()
}

// ThrottleForTest counts failures of addresses.
type ThrottleForTest struct{ *throttle }

// NewThrottleForTest returns one.
func NewThrottleForTest(most int, window time.Duration, now func() time.Time) ThrottleForTest {
	return ThrottleForTest{newThrottle(most, window, now)}
}

// Strike counts a failure.
func (t ThrottleForTest) Strike(address string) { t.strike(address) }

// Size is how many addresses are remembered.
func (t ThrottleForTest) Size() int { return len(t.byHost) }
