package work

import (
	"path"
	"runtime"
	"strings"
)

// passed are the variables that any program may see. All others have to be named
// by a profile or an adapter: an agent's environment holds secrets of others.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "TMPDIR", "TEMP", "TMP",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS",
}

// passedWindows are those without which little starts there.
var passedWindows = []string{
	"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "USERPROFILE", "USERNAME", "USERDOMAIN", "HOMEDRIVE",
	"HOMEPATH", "APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)", "ProgramW6432",
	"CommonProgramFiles", "CommonProgramFiles(x86)", "PUBLIC", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS",
	"PSModulePath", "COMPUTERNAME",
}

// childEnv is the environment of a child: what may pass of the agent's, then what
// is set. What is the agent's own (PUSHD_…) never passes, whatever a pattern says,
// nor does a variable that holds one of the secrets.
func childEnv(agents, patterns, unset, secrets []string, set map[string]string) []string {
	patterns = append(append([]string(nil), passed...), patterns...)
	if runtime.GOOS == "windows" {
		patterns = append(patterns, passedWindows...)
	}
	var env []string
	for _, kv := range agents {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.HasPrefix(strings.ToUpper(name), "PUSHD_") {
			continue
		}
		if _, replaced := set[name]; replaced || matches(unset, name) || !matches(patterns, name) || holdsSecret(value, secrets) {
			continue
		}
		env = append(env, kv)
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

func matches(patterns []string, name string) bool {
	for _, p := range patterns {
		if runtime.GOOS == "windows" {
			p, name = strings.ToUpper(p), strings.ToUpper(name)
		}
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}

func holdsSecret(value string, secrets []string) bool {
	for _, s := range secrets {
		if s != "" && strings.Contains(value, s) {
			return true
		}
	}
	return false
}
