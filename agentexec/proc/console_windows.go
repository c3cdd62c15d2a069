package proc

import (
	"sync"

	"golang.org/x/sys/windows"
)

var (
	kernel32      = windows.NewLazySystemDLL("kernel32.dll")
	attachConsole = kernel32.NewProc("AttachConsole")
	freeConsole   = kernel32.NewProc("FreeConsole")

	// console guards which one this process is attached to: it can have but one.
	console sync.Mutex
)

// askToEnd sends CTRL_BREAK to the process group of a program. The way goes
// through a console: ours, which the program has inherited, or its own where we
// have none, as a service has none.
func askToEnd(pid uint32) bool {
	console.Lock()
	defer console.Unlock()
	if windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, pid) == nil {
		return true
	}
	if ok, _, _ := attachConsole.Call(uintptr(pid)); ok == 0 {
		return false
	}
	defer freeConsole.Call()
	return windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, pid) == nil
}
