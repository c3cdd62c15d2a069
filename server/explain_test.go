package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/ackstore"
	"pushd/server"
	"pushd/server/api"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func TestEachReasonToWaitIsOneSentence(t *testing.T) {
	t.Parallel()
	held := func(h ackstore.Hold) ackstore.Waiting {
		return ackstore.Waiting{Reason: "paused", Hold: &h, Until: h.Until}
	}
	for name, c := range map[string]struct {
		waiting ackstore.Waiting
		want    string
	}{
		"draining": {ackstore.Waiting{Reason: "draining"}, "The server is stopping; it goes on when the server is started again."},
		"paused by an operator": {
			held(ackstore.Hold{Scope: ackstore.OfMachine, ID: "m1", MachineID: "m1", Cause: "operator", By: "ann", Since: noon.Add(-time.Hour), Note: "disk\nswap"}),
			"Machine m1 is paused, by ann, since 2026-12-01 11:00:00Z (disk swap); `pushctl resume machine m1` lets it go on.",
		},
		"paused until": {
			held(ackstore.Hold{Scope: ackstore.OfReplay, ID: "r1", Cause: "operator", Until: noon.Add(90 * time.Minute)}),
			"Replay r1 is paused; it goes on by itself at 2026-12-01 13:30:00Z, in 1h30m, or by `pushctl resume replay r1`.",
		},
		"paused on a machine by a dead action": {
			held(ackstore.Hold{Scope: ackstore.OfSession, ID: "s1", MachineID: "m1", Cause: "on_dead", ActionID: "a9"}),
			"Session s1 on machine m1 is paused because action a9 ended badly; `pushctl resume session s1` lets it go on.",
		},
		"paused for help": {
			held(ackstore.Hold{Scope: ackstore.OfSession, ID: "s1", MachineID: "m1", Cause: "need_help"}),
			"Session s1 on machine m1 is paused because its actions are taken and never answered: somebody must look; `pushctl resume session s1` lets it go on.",
		},
		"lane":         {ackstore.Waiting{Reason: "lane", ActionID: "a1"}, "Action a1 is in front of it in its session, and a session goes in order."},
		"available_at": {ackstore.Waiting{Reason: "available_at", Until: noon.Add(2500 * time.Millisecond)}, "It is not due before 2026-12-01 12:00:02Z, in 2.5s."},
		"available_at in days": {
			ackstore.Waiting{Reason: "available_at", Until: noon.Add(80 * time.Hour)}, "It is not due before 2026-12-04 20:00:00Z, in 3 days.",
		},
		"available_at that is past": {ackstore.Waiting{Reason: "available_at", Until: noon}, "It is not due before 2026-12-01 12:00:00Z, which is now."},
		"breaker_open": {
			ackstore.Waiting{Reason: "breaker_open", MachineID: "m1", Target: "claude/a", Until: noon.Add(5 * time.Minute)},
			"The breaker of claude/a on machine m1 is open after failures until 2026-12-01 12:05:00Z, in 5m; `pushctl breaker close m1 claude/a` closes it now.",
		},
		"breaker_open until somebody acts": {
			ackstore.Waiting{Reason: "breaker_open", MachineID: "m1"},
			"The breaker of machine m1 is open, for such work cannot be done there as things are; it closes when the agent starts anew, or by `pushctl breaker close m1`.",
		},
		"breaker_open with a probe": {
			ackstore.Waiting{Reason: "breaker_open", Target: "shared/x", ActionID: "p1"},
			"The breaker of shared/x lets one action through as a probe, and action p1 is that one.",
		},
		"machine_offline": {ackstore.Waiting{Reason: "machine_offline"}, "Machine m1 has no stream open and no poll waiting; it is sent when the machine's agent connects."},
		"machine_suspect": {
			ackstore.Waiting{Reason: "machine_suspect"},
			"Machine m1 has a stream, and its agent has stopped beating; it is sent at the next beat, ack or subscription.",
		},
		"credit":          {ackstore.Waiting{Reason: "credit", InFlight: []string{"a1"}}, "Machine m1 has all it takes at a time: action a1 is in flight."},
		"credit for many": {ackstore.Waiting{Reason: "credit", InFlight: []string{"a1", "a2", "a3", "a4"}}, "Machine m1 has all it takes at a time: actions a1, a2, a3 and 1 more are in flight."},
		"no credit":       {ackstore.Waiting{Reason: "credit"}, "Machine m1 takes nothing now: its max_in_flight is 0."},
		"a resend": {
			ackstore.Waiting{Reason: "machine_offline", Resend: true},
			"It was lost on the way and is to be sent again. Machine m1 has no stream open and no poll waiting; it is sent when the machine's agent connects.",
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, server.Explain(c.waiting, "m1", noon)) })
	}
}

// The reasons that the wire may bear are those that have a sentence of their own.
func TestEveryReasonOfTheContractHasItsSentence(t *testing.T) {
	t.Parallel()
	doc := description(t, start(t, options{}))
	reasons := resolve(doc, "#/components/schemas/Waiting").(map[string]any)["properties"].(map[string]any)["reason"].(map[string]any)["enum"].([]any)
	require.Len(t, reasons, 8)
	for _, reason := range reasons {
		text := server.Explain(ackstore.Waiting{Reason: reason.(string)}, "m1", noon)
		require.NotContains(t, text, "waits for "+reason.(string))
	}
}

func TestAMachineSaysWhyItsQueueStands(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		machine  ackstore.Machine
		draining bool
	}{
		"Nothing waits for machine m1, which is online.":                       {machine: ackstore.Machine{Presence: ackstore.Online}},
		"Nothing waits for machine m1; 1 of 2 are in flight.":                  {machine: ackstore.Machine{Presence: ackstore.Online, InFlight: 1, Credit: 2}},
		"The server is stopping; it goes on when the server is started again.": {machine: ackstore.Machine{Queued: 1}, draining: true},
		"Machine m1 is paused; `pushctl resume machine m1` lets it go on.": {machine: ackstore.Machine{
			Queued: 1, Holds: []ackstore.Hold{{Scope: ackstore.OfMachine, ID: "m1", Cause: "operator"}},
		}},
		"The breaker of machine m1 is open after failures until 2026-12-01 12:05:00Z, in 5m; `pushctl breaker close m1` closes it now.": {
			machine: ackstore.Machine{Queued: 1, Breakers: []ackstore.Breaker{{MachineID: "m1", Target: "x"}, {MachineID: "m1", Until: noon.Add(5 * time.Minute)}}},
		},
		"2 actions wait for machine m1, which has no stream open and no poll waiting since 2026-12-01 11:00:00Z; they are sent when its agent connects.": {
			machine: ackstore.Machine{Queued: 2, Presence: ackstore.Offline, Since: noon.Add(-time.Hour)},
		},
		"1 action waits for machine m1, whose agent has stopped beating; they are sent at its next beat, ack or subscription.": {
			machine: ackstore.Machine{Queued: 1, Presence: ackstore.Suspect},
		},
		"1 action waits for machine m1, which takes nothing now: its max_in_flight is 0.": {machine: ackstore.Machine{Queued: 1, Presence: ackstore.Online}},
		"1 action waits for machine m1, which takes nothing now: its max_in_flight is 0 (preflight failed).": {
			machine: ackstore.Machine{Queued: 1, Presence: ackstore.Online, CreditReason: "preflight failed"},
		},
		"3 actions wait for machine m1, which has all it takes at a time; 2 of 2 are in flight.": {
			machine: ackstore.Machine{Queued: 3, InFlight: 2, Credit: 2, Presence: ackstore.Online},
		},
		"3 actions wait for machine m1, each for its time, its session or its target; 1 of 2 are in flight.": {
			machine: ackstore.Machine{Queued: 3, InFlight: 1, Credit: 2, Presence: ackstore.Online},
		},
	} {
		t.Run(want, func(t *testing.T) {
			c.machine.ID = "m1"
			require.Equal(t, want, server.ExplainMachine(c.machine, c.draining, noon))
		})
	}
}

func TestTheWireExplains(t *testing.T) {
	t.Parallel()
	r := start(t, options{})
	r.want(201, "POST", "/v1/actions", push("a1", "m1"), nil)
	var record api.Record
	r.want(200, "GET", "/v1/actions/a1", nil, &record)
	require.Equal(t, "machine_offline", record.WaitingFor.Reason)
	require.True(t, strings.HasPrefix(record.WaitingFor.Explanation, "Machine m1 has no stream"), record.WaitingFor.Explanation)
	var machine api.Machine
	r.want(200, "GET", "/v1/machines/m1", nil, &machine)
	require.True(t, strings.HasPrefix(machine.Explanation, "1 action waits for machine m1"), machine.Explanation)
	r.inFlight("a2", "m2")
	r.want(200, "GET", "/v1/actions/a2", nil, &record)
}
