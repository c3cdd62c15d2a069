package daemon

import "errors"

// Name is the service's name.
const Name = "pushd-agent"

// ErrUnsupported: this system has no service manager that we know.
var ErrUnsupported = errors.New("daemon: not supported on this system; run `pushd agent` under what starts services here")

// ErrNotInstalled: there is no such service.
var ErrNotInstalled = errors.New("daemon: not installed")

// Unit is what is installed.
type Unit struct {
	Program  string // absolute path of this program
	Config   string // absolute path of the agent's settings file
	User     string // who runs it; empty: root, LocalSystem
	Password string // of User, on Windows; empty: it has none, or is known
}
