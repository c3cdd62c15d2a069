package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Systemd installs units.
type Systemd struct {
	Dir string // /etc/systemd/system
	// Ctl runs systemctl and gives its output; nil runs it.
	Ctl func(ctx context.Context, args ...string) (string, error)
}

// System is the service manager of this system.
func System() *Systemd { return &Systemd{Dir: "/etc/systemd/system"} }

// DefaultConfig is where the settings file is, if nothing else is said.
func DefaultConfig() string { return "/etc/pushd/agent.yaml" }

func (s *Systemd) path() string { return filepath.Join(s.Dir, Name+".service") }

func (s *Systemd) ctl(ctx context.Context, args ...string) (string, error) {
	if s.Ctl != nil {
		return s.Ctl(ctx, args...)
	}
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("daemon: systemctl %s: %w: %s", strings.Join(args, " "), err, text)
	}
	return text, nil
}

// Text is the unit's file. The agent ends its children itself, and gets the time
// for it; what it leaves behind, systemd ends.
func (u Unit) Text() (string, error) {
	for _, value := range []string{u.Program, u.Config, u.User} {
		if strings.ContainsAny(value, "\n\r\"\\") {
			return "", fmt.Errorf("daemon: %q cannot stand in a unit", value)
		}
	}
	user := ""
	if u.User != "" {
		user = "User=" + u.User + "\n"
	}
	escape := strings.NewReplacer("%", "%%", "$", "$$")
	return `[Unit]
Description=pushd agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=simple
` + user + `ExecStart="` + escape.Replace(u.Program) + `" agent --config "` + escape.Replace(u.Config) + `"
Restart=always
RestartSec=2
KillMode=mixed
TimeoutStopSec=10min
UMask=0077

[Install]
WantedBy=multi-user.target
`, nil
}

// Install writes the unit and has it start with the system.
func (s *Systemd) Install(ctx context.Context, u Unit) error {
	text, err := u.Text()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	if err := os.WriteFile(s.path(), []byte(text), 0o644); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	if _, err := s.ctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	_, err = s.ctl(ctx, "enable", Name)
	return err
}

// Uninstall stops the service and removes the unit.
func (s *Systemd) Uninstall(ctx context.Context) error {
	if _, err := os.Stat(s.path()); errors.Is(err, fs.ErrNotExist) {
		return ErrNotInstalled
	}
	if _, err := s.ctl(ctx, "disable", "--now", Name); err != nil {
		return err
	}
	if err := os.Remove(s.path()); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	_, err := s.ctl(ctx, "daemon-reload")
	return err
}

// Start starts the service.
func (s *Systemd) Start(ctx context.Context) error { return s.verb(ctx, "start") }

// Stop stops it and waits for its end.
func (s *Systemd) Stop(ctx context.Context) error { return s.verb(ctx, "stop") }

func (s *Systemd) verb(ctx context.Context, verb string) error {
	if _, err := os.Stat(s.path()); errors.Is(err, fs.ErrNotExist) {
		return ErrNotInstalled
	}
	_, err := s.ctl(ctx, verb, Name)
	return err
}

// Status is the service's state in a word: active, inactive, failed.
func (s *Systemd) Status(ctx context.Context) (string, error) {
	if _, err := os.Stat(s.path()); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotInstalled
	}
	text, err := s.ctl(ctx, "is-active", Name)
	if text != "" {
		return text, nil // an inactive one is no error, though systemctl exits with 3
	}
	return "", err
}

// Secure makes a settings folder that only its owner reads.
func Secure(dir, _ string) error { return os.MkdirAll(dir, 0o700) }
