package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
// What is there already is brought up to date; without a user it keeps the one
// that it has.
func (SCM) Install(_ context.Context, u Unit) error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("daemon: manager: %w", err)
	}
	defer m.Disconnect()
	line := []string{"agent", "service", "--config", u.Config}
	s, err := m.OpenService(Name)
	if err == nil {
		err = update(s, windows.ComposeCommandLine(append([]string{u.Program}, line...)), u)
	} else {
		s, err = m.CreateService(Name, u.Program, mgr.Config{
			DisplayName: "pushd agent", Description: "Does the work that a pushd server dispatches to this machine.",
			StartType: mgr.StartAutomatic, ServiceStartName: u.User, Password: u.Password,
		}, line...)
	}
	if err != nil {
		return fmt.Errorf("daemon: register: %w", err)
	}
	defer s.Close()
	if err := setRecovery(s); err != nil {
		return fmt.Errorf("daemon: recovery: %w", err)
	}
	if err := eventlog.InstallAsEventCreate(Name, eventlog.Error|eventlog.Warning|eventlog.Info); err != nil {
		if !errors.Is(err, windows.ERROR_ALREADY_EXISTS) && !sourceExists() {
			return fmt.Errorf("daemon: event log: %w", err)
		}
	}
	if u.User != "" {
		return allowService(u.User)
	}
	return nil
}

func update(s *mgr.Service, line string, u Unit) error {
	var text [3]*uint16
	for i, value := range []string{line, u.User, u.Password} {
		if value == "" {
			continue // as it is
		}
		var err error
		if text[i], err = windows.UTF16PtrFromString(value); err != nil {
			return err
		}
	}
	return windows.ChangeServiceConfig(s.Handle, windows.SERVICE_NO_CHANGE, mgr.StartAutomatic, windows.SERVICE_NO_CHANGE,
		text[0], nil, nil, nil, text[1], text[2], nil)
}

// setRecovery has the manager start the service again, also when it ends by itself
// with an error.
func setRecovery(s *mgr.Service) error {
	actions := []mgr.RecoveryAction{
		{Type: mgr.ServiceRestart, Delay: 2 * time.Second},
		{Type: mgr.ServiceRestart, Delay: 10 * time.Second},
		{Type: mgr.ServiceRestart, Delay: time.Minute},
	}
	const day = 24 * 60 * 60
	if err := s.SetRecoveryActions(actions, day); err != nil {
		return err
	}
	err := s.SetRecoveryActionsOnNonCrashFailures(true)
	if errors.Is(err, windows.ERROR_INVALID_LEVEL) {
		return nil // wine has no such flag
	}
	return err
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

// Stop stops it and waits for the end of its process, which holds the program's
// file until then.
func (SCM) Stop(ctx context.Context) error {
	return with(func(s *mgr.Service) error {
		before, err := s.Query()
		if err != nil {
			return fmt.Errorf("daemon: query: %w", err)
		}
		process, err := windows.OpenProcess(windows.SYNCHRONIZE, false, before.ProcessId)
		if err == nil {
			defer windows.CloseHandle(process)
		}
		status, err := s.Control(svc.Stop)
		switch {
		case errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE):
			return nil
		case errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL) && status.State == svc.StopPending:
			err = nil // another one has asked, and it drains
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
		if process != 0 {
			const patience = 10_000 // ms; it has said that it is done
			_, _ = windows.WaitForSingleObject(process, patience)
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

// account is the user that the service runs as, if there is one.
func account() (user string) {
	_ = with(func(s *mgr.Service) error { // none is installed: nobody
		config, err := s.Config()
		if err == nil && !strings.EqualFold(config.ServiceStartName, "LocalSystem") {
			user = config.ServiceStartName
		}
		return err
	})
	return user
}

// Secure makes a settings folder that only administrators and the system read,
// and the service's user: the one given, else the one it has.
func Secure(dir, user string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if user == "" {
		user = account()
	}
	list := "D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
	if user != "" {
		sid, err := lookUp(user)
		if err != nil {
			return err
		}
		const modify = "0x1301bf" // all but to change the list itself
		list += "(A;OICI;" + modify + ";;;" + sid.String() + ")"
	}
	sd, err := windows.SecurityDescriptorFromString(list)
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
