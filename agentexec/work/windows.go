package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"pushd/agentexec/task"
	"pushd/policy"
)

// Windows are how long a run may be silent. Zero is the default.
type Windows struct {
	FirstOutput time.Duration // 120 s until the first sign of life
	Inactivity  time.Duration // 600 s from one to the next
	OpenTool    time.Duration // 45 min while a tool is open: CLIs are silent then
	Ceiling     time.Duration // 4 h in all
	StopGrace   time.Duration // 10 s from asking to killing
	Linger      time.Duration // 15 s from a reported end to an exit
}

// WithDefaults fills in what is not set.
func (w Windows) WithDefaults() Windows {
	return Windows{
		FirstOutput: cmp.Or(w.FirstOutput, 120*time.Second),
		Inactivity:  cmp.Or(w.Inactivity, serverInactivity),
		OpenTool:    cmp.Or(w.OpenTool, 45*time.Minute),
		Ceiling:     cmp.Or(w.Ceiling, 4*time.Hour),
		StopGrace:   cmp.Or(w.StopGrace, 10*time.Second),
		Linger:      cmp.Or(w.Linger, 15*time.Second),
	}
}

// serverInactivity is watchdog.inactivity_timeout where nobody changed it. A
// profile that allows more silence has to vouch for it.
const serverInactivity = 600 * time.Second

// Bounds of how often a run is looked at.
const (
	lookLeast = 20 * time.Millisecond
	lookMost  = 5 * time.Second
	napLeap   = 10 * time.Second // a look this late means that the computer slept
)

func (w Windows) every() time.Duration {
	least := min(w.FirstOutput, w.Inactivity, w.OpenTool, w.Ceiling, w.Linger)
	return min(max(least/10, lookLeast), lookMost)
}

// watch judges one run by its windows.
type watch struct {
	Windows
	begun, last, ended, prev time.Time
	activity                 uint64
	open                     bool
}

func newWatch(w Windows, now time.Time) *watch {
	return &watch{Windows: w, begun: now, last: now, prev: now}
}

// look tells whether the run is to be stopped.
func (w *watch) look(now time.Time, activity uint64, open, succeeded bool) policy.Stop {
	w.rearm(now)
	// A tool that closes without a word starts the silence anew, too.
	if activity != w.activity || open != w.open {
		w.activity, w.open, w.last = activity, open, now
	}
	if succeeded && w.ended.IsZero() {
		w.ended = now
	}
	silent := now.Sub(w.last)
	switch {
	case succeeded && now.Sub(w.ended) >= w.Linger:
		return policy.StopLinger
	case now.Sub(w.begun) >= w.Ceiling:
		return policy.StopCeiling
	case succeeded:
		return policy.NotStopped
	case activity == 0 && now.Sub(w.begun) >= w.FirstOutput:
		return policy.StopFirstOutput
	case activity > 0 && open && silent >= w.OpenTool, activity > 0 && !open && silent >= w.Inactivity:
		return policy.StopInactivity
	}
	return policy.NotStopped
}

// rearm forgives the time that the computer slept: the program slept with it.
func (w *watch) rearm(now time.Time) {
	gap := max(now.Sub(w.prev), now.Round(0).Sub(w.prev.Round(0)))
	w.prev = now
	if gap < w.every()+napLeap {
		return
	}
	w.begun, w.last = w.begun.Add(gap), w.last.Add(gap)
	if !w.ended.IsZero() {
		w.ended = w.ended.Add(gap)
	}
}

// say names the window that cut a run.
func (w *watch) say(stop policy.Stop) string {
	switch stop {
	case policy.StopFirstOutput:
		return fmt.Sprintf("no sign of life in the first %v (window first_output)", w.FirstOutput)
	case policy.StopInactivity:
		if w.open {
			return fmt.Sprintf("no sign of life for %v while a tool was open (window open_tool)", w.OpenTool)
		}
		return fmt.Sprintf("no sign of life for %v (window inactivity)", w.Inactivity)
	case policy.StopCeiling:
		return fmt.Sprintf("still running after %v (window ceiling)", w.Ceiling)
	case policy.StopLinger:
		return fmt.Sprintf("reported its end and did not exit within %v (window linger)", w.Linger)
	}
	return ""
}

// signs are what a watch looks at besides the pulse.
type signs struct {
	open, succeeded func() bool
	probe           func(toolOpen bool) bool // another sign of life; asked only in silence
}

// attend watches until over is closed, ctx ends, or a window passes, and says
// which of them it was.
func attend(ctx context.Context, over <-chan struct{}, w Windows, pulse *task.Pulse, s signs, now func() time.Time) (policy.Stop, string) {
	watch := newWatch(w, now())
	ticker := time.NewTicker(w.every())
	defer ticker.Stop()
	var seen uint64
	for {
		select {
		case <-over:
			return policy.NotStopped, ""
		case <-ctx.Done():
			return policy.StopAsked, stopText(context.Cause(ctx))
		case <-ticker.C:
		}
		open := s.open()
		pulse.Vouch(open || w.Inactivity > serverInactivity)
		beat := pulse.Read()
		if beat.Activity == seen && s.probe(open) {
			pulse.Bump(now())
			beat = pulse.Read()
		}
		seen = beat.Activity
		if stop := watch.look(now(), beat.Activity, open, s.succeeded()); stop != policy.NotStopped {
			return stop, watch.say(stop)
		}
	}
}

func stopText(cause error) string {
	if errors.Is(cause, task.ErrCancelled) {
		return "stopped on request"
	}
	return "stopped with the agent"
}
