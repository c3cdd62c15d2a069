package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"
)

// SCM installs services.
type SCM struct{}

// System is the service manager of this system.
func System() SCM { return SCM{} }

// DefaultConfig is where the settings file is, if nothing else is said.
func DefaultConfig() string {
	base := os.Getenv("ProgramData")
	if base == "" {
		base = `C:\ProgramData`
	}
	return filepath.Join(base, "pushd", "agent.yaml")
}

// with opens the service and its manager for f.
func with(f func(*mgr.Service) error) error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("daemon: manager: %w", err)
	}
	defer m.Disconnect()
	s, err := m.OpenService(Name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return ErrNotInstalled
	}
	if err != nil {
		return fmt.Errorf("daemon: open: %w", err)
	}
	defer s.Close()
	return f(s)
}

// Install registers the service, its recovery and its source in the event log.
// What is there already is brought up to date.
func (SCM) Install(_ context.Context, u Unit) error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("daemon: manager: %w", err)
	}
	defer m.Disconnect()
	config := mgr.Config{
		DisplayName: "pushd agent", Description: "Does the work that a pushd server dispatches to this machine.",
		StartType: mgr.StartAutomatic, ServiceStartName: u.User,
	}
	s, err := m.OpenService(Name)
	if err == nil {
		config.BinaryPathName = windows.ComposeCommandLine([]string{u.Program, "agent", "service", "--config", u.Config})
		err = s.UpdateConfig(config)
	} else {
		s, err = m.CreateService(Name, u.Program, config, "agent", "service", "--config", u.Config)
	}
	if err != nil {
		return fmt.Errorf("daemon: register: %w", err)
	}
	defer s.Close()
	actions := []mgr.RecoveryAction{
		{Type: mgr.ServiceRestart, Delay: 2 * time.Second},
		{Type: mgr.ServiceRestart, Delay: 10 * time.Second},
		{Type: mgr.ServiceRestart, Delay: time.Minute},
	}
	const day = 24 * 60 * 60
	if err := s.SetRecoveryActions(actions, day); err != nil {
		return fmt.Errorf("daemon: recovery: %w", err)
	}
	if err := eventlog.InstallAsEventCreate(Name, eventlog.Error|eventlog.Warning|eventlog.Info); err != nil {
		if !errors.Is(err, windows.ERROR_ALREADY_EXISTS) && !sourceExists() {
			return fmt.Errorf("daemon: event log: %w", err)
		}
	}
	return nil
}

// sourceExists tells whether the event log knows us: installing twice is an
// error of text only.
func sourceExists() bool {
	log, err := eventlog.Open(Name)
	if err != nil {
		return false
	}
	return log.Close() == nil
}

// Uninstall stops the service and removes it.
func (s SCM) Uninstall(ctx context.Context) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	return with(func(s *mgr.Service) error {
		if err := s.Delete(); err != nil {
			return fmt.Errorf("daemon: delete: %w", err)
		}
		_ = eventlog.Remove(Name) // a source that is not there is removed
		return nil
	})
}

// Start starts the service.
func (SCM) Start(context.Context) error {
	return with(func(s *mgr.Service) error {
		err := s.Start()
		if err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return fmt.Errorf("daemon: start: %w", err)
		}
		return nil
	})
}

// Stop stops it and waits for its end.
func (SCM) Stop(ctx context.Context) error {
	return with(func(s *mgr.Service) error {
		status, err := s.Control(svc.Stop)
		if errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
			return nil
		}
		for err == nil && status.State != svc.Stopped {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
			status, err = s.Query()
		}
		if err != nil {
			return fmt.Errorf("daemon: stop: %w", err)
		}
		return nil
	})
}

// Status is the service's state in a word.
func (SCM) Status(context.Context) (state string, err error) {
	err = with(func(s *mgr.Service) error {
		status, err := s.Query()
		if err != nil {
			return fmt.Errorf("daemon: query: %w", err)
		}
		state = map[svc.State]string{
			svc.Stopped: "inactive", svc.StartPending: "starting", svc.StopPending: "stopping", svc.Running: "active",
			svc.Paused: "paused", svc.PausePending: "paused", svc.ContinuePending: "starting",
		}[status.State]
		return nil
	})
	return state, err
}

// Secure makes a settings folder that only administrators and the system read.
func Secure(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	const onlySystemAndAdministrators = "D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
	sd, err := windows.SecurityDescriptorFromString(onlySystemAndAdministrators)
	if err != nil {
		return fmt.Errorf("daemon: access list: %w", err)
	}
	acl, _, err := sd.DACL()
	if err != nil {
		return fmt.Errorf("daemon: access list: %w", err)
	}
	return windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, nil, nil, acl, nil)
}
