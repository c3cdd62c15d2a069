package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// serviceName is the server's name with the service manager.
const serviceName = "pushd"

// windowsVerbs make the server a Windows service, and unmake it.
func windowsVerbs(sh *shell, f *settingFlags) []*cobra.Command {
	install := &cobra.Command{
		Use:   "install",
		Short: "Make the server a Windows service that starts with the system",
		Long: `Make the server a Windows service that starts with the system and is started
again when it fails. It runs with the settings file and the data directory that
are given here; both must be absolute. Its log is log\pushd.log in the data
directory. Installing again brings the service up to date.`,
		Example: `  pushd serve install --config C:\ProgramData\pushd\pushd.yaml --data-dir C:\ProgramData\pushd\data`,
		Args:    args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			line, err := f.serviceLine(sh)
			if err != nil {
				return err
			}
			if err := installService(line); err != nil {
				return err
			}
			sh.say("installed the service %s; `pushd serve start` starts it", serviceName)
			return nil
		},
	}
	f.register(install)
	verbs := []*cobra.Command{install}
	for _, v := range []struct {
		name, short string
		act         func(*mgr.Service) error
	}{
		{"uninstall", "Stop the Windows service and remove it; settings and data stay", removeService},
		{"start", "Start the Windows service", func(s *mgr.Service) error { return s.Start() }},
		{"stop", "Stop the Windows service", stopService},
	} {
		verbs = append(verbs, &cobra.Command{Use: v.name, Short: v.short, Args: args(0, 0), RunE: func(*cobra.Command, []string) error {
			return withService(v.act)
		}})
	}
	return verbs
}

// serviceLine is what the manager shall run. It starts in another folder, as
// another user and without our environment, so what is relative would be lost.
func (f *settingFlags) serviceLine(sh *shell) ([]string, error) {
	loaded, err := f.load(sh)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(loaded.DataDir) || (f.file != "" && !filepath.IsAbs(f.file)) {
		return nil, usage("give --config and --data-dir with their whole paths: a service starts elsewhere")
	}
	line := []string{"serve", "--data-dir", loaded.DataDir}
	if f.file != "" {
		line = append(line, "--config", f.file)
	}
	for _, kv := range f.set {
		line = append(line, "--set", kv)
	}
	if f.listen != "" {
		line = append(line, "--listen", f.listen)
	}
	return line, nil
}

func installService(line []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("the service manager does not answer; run this as an administrator: %w", err)
	}
	defer m.Disconnect()
	config := mgr.Config{DisplayName: "pushd", Description: "SSE push with ack-based delivery", StartType: mgr.StartAutomatic}
	s, err := m.OpenService(serviceName)
	if err == nil {
		err = updateService(s, windows.ComposeCommandLine(append([]string{self}, line...)))
	} else {
		s, err = m.CreateService(serviceName, self, config, line...)
	}
	if err != nil {
		return fmt.Errorf("the service was not installed: %w", err)
	}
	defer s.Close()
	const day = 24 * 60 * 60
	err = s.SetRecoveryActions([]mgr.RecoveryAction{
		{Type: mgr.ServiceRestart, Delay: 2 * time.Second},
		{Type: mgr.ServiceRestart, Delay: 10 * time.Second},
		{Type: mgr.ServiceRestart, Delay: time.Minute},
	}, day)
	if err != nil {
		return err
	}
	if err = s.SetRecoveryActionsOnNonCrashFailures(true); errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return nil // wine has no such flag
	}
	return err
}

// updateService changes what the service runs, and nothing else of it.
func updateService(s *mgr.Service, line string) error {
	text, err := windows.UTF16PtrFromString(line)
	if err != nil {
		return err
	}
	return windows.ChangeServiceConfig(s.Handle, windows.SERVICE_NO_CHANGE, mgr.StartAutomatic, windows.SERVICE_NO_CHANGE,
		text, nil, nil, nil, nil, nil, nil)
}

func withService(f func(*mgr.Service) error) error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("the service manager does not answer; run this as an administrator: %w", err)
	}
	defer m.Disconnect()
	s, err := m.OpenService(serviceName)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return &exitError{code: exitNotFound, text: "there is no service " + serviceName, next: "`pushd serve install` makes it"}
	}
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}

func stopService(s *mgr.Service) error {
	status, err := s.Control(svc.Stop)
	if errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
		return nil
	}
	for deadline := time.Now().Add(30 * time.Second); err == nil && status.State != svc.Stopped; status, err = s.Query() {
		if time.Now().After(deadline) {
			return &exitError{code: exitTimedOut, text: "the service is still stopping"}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return err
}

func removeService(s *mgr.Service) error {
	if err := stopService(s); err != nil {
		return err
	}
	return s.Delete()
}

// hosted runs the server under the service manager, where that has started us,
// with its log in a file: a service has no stderr that anybody reads.
func hosted(ctx context.Context, logs io.Writer, dataDir string, run func(ctx context.Context, logs io.Writer) error) error {
	if is, err := svc.IsWindowsService(); err != nil || !is {
		return run(ctx, logs)
	}
	file, err := openLog(filepath.Join(dataDir, "log", "pushd.log"))
	if err != nil {
		return err
	}
	defer file.Close()
	h := &host{run: func(ctx context.Context) error { return run(ctx, file) }}
	if err := svc.Run(serviceName, h); err != nil {
		return err
	}
	if h.err != nil {
		fmt.Fprintln(file, h.err) // the last line says why it ended
	}
	return h.err
}

type host struct {
	run func(ctx context.Context) error
	err error
}

// Execute serves the service manager.
func (h *host) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	for {
		select {
		case h.err = <-done:
			if h.err != nil {
				return true, 1 // by this the recovery actions know
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				const patience = 15_000 // ms; a graceful end takes five seconds
				status <- svc.Status{State: svc.StopPending, WaitHint: patience}
				stop()
			}
		}
	}
}
