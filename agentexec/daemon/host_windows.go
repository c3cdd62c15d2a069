package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
)

// EventLog writes lines of JSON into the event log, by the level that stands in
// them.
type EventLog struct{ log *eventlog.Log }

// OpenEventLog opens it.
func OpenEventLog() (*EventLog, error) {
	log, err := eventlog.Open(Name)
	if err != nil {
		return nil, fmt.Errorf("daemon: event log: %w", err)
	}
	return &EventLog{log}, nil
}

// Write serves zerolog.
func (e *EventLog) Write(line []byte) (int, error) {
	const event = 1
	var err error
	switch levelOf(line) {
	case "error", "fatal", "panic":
		err = e.log.Error(event, string(line))
	case "warn":
		err = e.log.Warning(event, string(line))
	default:
		err = e.log.Info(event, string(line))
	}
	return len(line), err
}

// Host runs an agent as the service that was started: run gets a context that
// ends when the manager says stop, and its end is the service's.
func Host(run func(ctx context.Context) error) error {
	takeConsole()
	h := &handler{run: run}
	if err := svc.Run(Name, h); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	return h.err
}

// takeConsole gets the service a console, which nobody sees. The programs that it
// runs inherit that, and are asked to end by way of it. Without it each would get
// one of its own, whose host counts as a process that it has left behind. Who has
// a console also hears of every user that logs off: that is no end of ours.
func takeConsole() {
	const logoff, heard = 5, 1
	kernel32 := windows.NewLazySystemDLL("kernel32.dll")
	_, _, _ = kernel32.NewProc("AllocConsole").Call() // it may have one
	// uint32: what the other half of the register holds nobody says.
	stay := windows.NewCallback(func(event uint32) uintptr {
		if event == logoff {
			return heard
		}
		return 0
	})
	_, _, _ = kernel32.NewProc("SetConsoleCtrlHandler").Call(stay, 1)
}

type handler struct {
	run func(ctx context.Context) error
	err error
}

// Execute serves the manager.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	const accepted = svc.AcceptStop | svc.AcceptShutdown
	status <- svc.Status{State: svc.StartPending}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	status <- svc.Status{State: svc.Running, Accepts: accepted}
	var stopping svc.Status
	var tick <-chan time.Time
	for {
		select {
		case h.err = <-done:
			if h.err != nil {
				return true, 1 // an end with an error: the recovery actions hold
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				const patience = 30_000 // ms until the next word
				stopping = svc.Status{State: svc.StopPending, WaitHint: patience}
				status <- stopping
				stop()
				ticker := time.NewTicker(patience / 3 * time.Millisecond)
				defer ticker.Stop()
				tick = ticker.C
			}
		case <-tick: // a drain may take as long as it is given
			stopping.CheckPoint++
			status <- stopping
		}
	}
}

// levelOf finds the level in a line of a JSON log.
func levelOf(line []byte) string {
	var l struct {
		Level string `json:"level"`
	}
	if json.Unmarshal(line, &l) != nil {
		return "info"
	}
	return l.Level
}
