// Package daemon makes the agent a service of its system: a systemd unit on
// Linux, a service of the Service Control Manager on Windows. It promises that
// install can be repeated, that uninstall leaves settings and journal alone, and
// that what fails says which step it was. Other systems answer ErrUnsupported.
package daemon
