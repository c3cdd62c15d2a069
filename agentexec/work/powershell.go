package work

import (
	"fmt"
	"runtime"
	"unicode/utf16"
	"unicode/utf8"

	"pushd/agentexec/proc"
)

// PowerShell runs a script file for each action, as Program runs a program. Its
// payload is JSON in ASCII: Windows PowerShell reads its standard input by the
// code page of the console, and a file by that of the system.
func PowerShell(r *Runner, script string, p Program) *Program {
	p.Runner, p.Script, p.ASCII = r, script, true
	p.Command = powershell(runtime.GOOS, interpreter(r.Environ), script)
	return &p
}

// powershell is the command line; a Windows that lets no script run by itself
// lets this one.
func powershell(system, program, script string) []string {
	line := []string{program, "-NoProfile", "-NonInteractive"}
	if system == "windows" {
		line = append(line, "-ExecutionPolicy", "Bypass")
	}
	return append(line, "-File", script)
}

// interpreter is PowerShell 7 where it is installed, on Windows else the one that
// came with it.
func interpreter(env []string) string {
	for _, name := range []string{"pwsh", "powershell"} {
		if path, code, _ := proc.Find(name, "", env); code == "" {
			return path
		}
	}
	return "pwsh"
}

// ascii spells JSON without any sign beyond ASCII. Those stand in strings only,
// where an escape means the same.
func ascii(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		switch high, low := utf16.EncodeRune(r); {
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r >= 0x10000:
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
