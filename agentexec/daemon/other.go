//go:build !linux && !windows

package daemon

import (
	"context"
	"os"
)

// None is the service manager of a system that has none.
type None struct{}

// System is the service manager of this system.
func System() None { return None{} }

// DefaultConfig is where the settings file is, if nothing else is said.
func DefaultConfig() string { return "/etc/pushd/agent.yaml" }

// Install cannot.
func (None) Install(context.Context, Unit) error { return ErrUnsupported }

// Uninstall cannot.
func (None) Uninstall(context.Context) error { return ErrUnsupported }

// Start cannot.
func (None) Start(context.Context) error { return ErrUnsupported }

// Stop cannot.
func (None) Stop(context.Context) error { return ErrUnsupported }

// Status cannot.
func (None) Status(context.Context) (string, error) { return "", ErrUnsupported }

// Secure makes a settings folder that only its owner reads.
func Secure(dir, _ string) error { return os.MkdirAll(dir, 0o700) }
