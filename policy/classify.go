package policy

import (
	"cmp"
	"time"
)

// Stop is why the agent itself stopped a run.
type Stop uint8

// The reasons. A run that has already reported success is done, whatever
// stopped it then.
const (
	NotStopped      Stop = iota
	StopAsked            // by a cancel, or because the agent ends
	StopFirstOutput      // nothing came in the first window
	StopInactivity       // nothing came any more
	StopCeiling          // it ran too long
	StopLinger           // it reported its end and did not exit
)

// Run is what is left of a run when it is over.
type Run struct {
	Terminal   Terminal
	NotStarted string    // the program was never begun: not_found, not_executable, or another code
	Exit       int       // exit code; a negative one is the signal that killed it
	Stopped    Stop      // by us
	Stderr     string    // its tail
	Stdout     string    // its tail; read only where Terminal.Format is Plain
	Ended      time.Time // its zone is the one in which clock times without a zone are read
	Transients int       // transient failures of this action so far (transient_attempts)
}

// Status is an ack's verdict.
type Status string

// The verdicts a run can lead to.
const (
	Done      Status = "done"
	Failed    Status = "failed"
	Cancelled Status = "cancelled"
)

// Outcome is what the agent reports of a run.
type Outcome struct {
	Status     Status
	Kind       Kind          // with Failed
	Code       string        // error.code: a word of our own, or the program's
	RetryAfter time.Duration // what the service asked for, 0 is nothing; with Failed
}

// Tries after which a failure that a lack of service explains badly is taken
// for one of the work: its own bug repeats, and then neither five attempts nor
// an open breaker help.
const (
	triesOnce  = 1
	triesTwice = 2
)

// Classify says how a run ended. The order is the point: what we did ourselves,
// a program that never began, the program's own terminal event, an exit code
// that leaves no doubt, and only then text, by anchored rules, and only of a
// Plain program that failed. Nothing a program prints while it works decides:
// its tools and its model talk about status 429 all day.
func Classify(r Run) Outcome {
	succeeded := r.Terminal.Seen && r.Terminal.OK
	switch {
	case succeeded && (r.Exit == 0 || r.Stopped != NotStopped):
		return Outcome{Status: Done}
	case r.Stopped == StopAsked:
		return Outcome{Status: Cancelled, Code: "stopped"}
	case r.NotStarted != "":
		return notStarted(r.NotStarted)
	case r.Terminal.Seen && !r.Terminal.OK:
		return r.failure()
	case r.Stopped != NotStopped:
		return failed(Error, stopCodes[r.Stopped])
	}
	if out, found := r.plainExit(); found {
		return out
	}
	switch {
	case crashed(r.Stderr):
		return failed(Error, "crash")
	case succeeded: // and yet it exited with a failure
		return failed(Error, "exit")
	case r.Terminal.Format == Plain:
		return r.fromText()
	}
	return r.noTerminal()
}

var stopCodes = map[Stop]string{
	StopFirstOutput: "first_output",
	StopInactivity:  "inactivity",
	StopCeiling:     "ceiling",
	StopLinger:      "linger",
}

func failed(kind Kind, code string) Outcome {
	return Outcome{Status: Failed, Kind: kind, Code: code}
}

// transient is a failure of a service for the first tries of an action, and
// then one of the work.
func (r Run) transient(code string, tries int) Outcome {
	if r.Transients >= tries {
		return failed(Error, code)
	}
	return failed(Transient, code)
}

// notStarted: without its program a machine can do nothing of the kind.
func notStarted(code string) Outcome {
	if code == "not_found" || code == "not_executable" {
		return failed(Config, code)
	}
	return failed(Error, code)
}

// Exit statuses of Windows (NTSTATUS) that say how a program died.
const (
	statusControlC       = 0xC000013A
	statusAccessViolated = 0xC0000005
	statusIllegal        = 0xC000001D
	statusStackOverflow  = 0xC00000FD
	statusHeapCorrupted  = 0xC0000374
	statusFailFast       = 0xC0000409
	statusDLLNotFound    = 0xC0000135
)

// signalBase is what a shell adds to the signal that killed its child.
const signalBase = 128

// plainExit judges the exit codes that leave no doubt.
func (r Run) plainExit() (Outcome, bool) {
	code := int64(r.Exit)
	if code <= -1<<16 {
		code += 1 << 32 // an NTSTATUS as a negative number
	}
	switch code {
	case 0:
		if r.Terminal.Format == Plain {
			return Outcome{Status: Done}, true
		}
		return Outcome{}, false
	case 126: // sh: found, and not executable
		return failed(Config, "not_executable"), true
	case 127, 9009, statusDLLNotFound: // sh; cmd.exe; the Windows loader
		return failed(Config, "not_found"), true
	case -2, -15, signalBase + 2, signalBase + 15, statusControlC: // INT, TERM; not by us
		return r.transient("stopped", triesOnce), true
	case -9, signalBase + 9: // KILL, not by us: most often out of memory
		return r.transient("killed", triesOnce), true
	case -4, -6, -7, -8, -11, // ILL, ABRT, BUS, FPE, SEGV
		signalBase + 4, signalBase + 6, signalBase + 7, signalBase + 8, signalBase + 11,
		statusAccessViolated, statusIllegal, statusStackOverflow, statusHeapCorrupted, statusFailFast:
		return failed(Error, "crash"), true
	}
	return Outcome{}, false
}

// tempFail is EX_TEMPFAIL of sysexits.h: a program's way to ask for another try.
const tempFail = 75

// fromText judges a Plain program that failed, standard error first.
func (r Run) fromText() Outcome {
	stderr, stdout := lastLines(r.Stderr), lastLines(r.Stdout)
	for _, lines := range [][]string{stderr, stdout} {
		if out, found := r.fromLines(lines); found {
			return out
		}
	}
	if r.Exit == tempFail {
		out := failed(Transient, "tempfail")
		out.RetryAfter = cmp.Or(r.waitIn(stderr), r.waitIn(stdout))
		return out
	}
	return failed(Error, "exit")
}

// noTerminal judges a program that owes a terminal event and ended without one.
func (r Run) noTerminal() Outcome {
	switch {
	case sessionLost.MatchString(r.Stderr):
		return failed(Permanent, "session_not_found")
	case r.Terminal.Format == HTTP: // the answer broke off
		return failed(Transient, "network")
	case r.Exit == 0:
		return r.transient("protocol", triesOnce)
	}
	return failed(Error, "exit")
}

// failure judges a terminal event that says failure: usage limits and other
// names that say it all, then the status, then names that say less, then its text.
func (r Run) failure() Outcome {
	t := r.Terminal
	status := t.Status
	if status == 0 {
		status = statusIn(t.Message)
	}
	if status == 0 {
		status = t.Hint.Status // 529 stands nowhere else
	}
	out := failed(Error, "failed")
	if len(t.Codes) > 0 {
		out.Code = t.Codes[0]
	}
	if t.Hint.Limited {
		out = failed(Quota, "usage_limit")
	} else if sign, found := firstOf(
		func() (told, bool) { return byCode(tellingCodes, t.Codes) },
		func() (told, bool) { return byText(tellingTexts, t.Message) },
		func() (told, bool) { return byStatus(status) },
		func() (told, bool) { return byCode(generalCodes, t.Codes) },
		func() (told, bool) { return byText(generalTexts, t.Message) },
		func() (told, bool) { return told{Transient, "retryable"}, t.Retryable },
	); found {
		out = failed(sign.kind, sign.code)
	}
	out.RetryAfter = r.waitFor(out.Kind)
	return out
}

func firstOf(rules ...func() (told, bool)) (told, bool) {
	for _, rule := range rules {
		if t, found := rule(); found {
			return t, true
		}
	}
	return told{}, false
}

// waitFor is what the service asked for: the end of its usage limit, its
// headers, its text and body, and last the delay the program itself was using.
func (r Run) waitFor(kind Kind) time.Duration {
	if kind != Transient && kind != Quota {
		return 0
	}
	t := r.Terminal
	if kind == Quota && t.Hint.Limited {
		if wait, ok := ParseRetryAfter(t.Hint.ResetsAt, r.Ended); ok {
			return wait
		}
	}
	if wait, ok := HeaderWait(t.Headers, r.Ended); ok {
		return wait
	}
	for _, text := range []string{t.Message, t.Body} {
		if !marker.MatchString(text) {
			continue // a text that is nothing but a number asks for nothing
		}
		if wait, ok := ParseRetryAfter(text, r.Ended); ok {
			return wait
		}
	}
	if kind == Transient && t.Hint.Delay > 0 {
		return min(max(t.Hint.Delay, MinRetryAfter), MaxRetryAfter)
	}
	return 0
}
