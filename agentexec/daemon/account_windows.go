package daemon

import (
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	advapi32            = windows.NewLazySystemDLL("advapi32.dll")
	lsaOpenPolicy       = advapi32.NewProc("LsaOpenPolicy")
	lsaAddAccountRights = advapi32.NewProc("LsaAddAccountRights")
	lsaClose            = advapi32.NewProc("LsaClose")
)

// lookUp finds an account; `.\NAME` is one of this machine.
func lookUp(user string) (*windows.SID, error) {
	sid, _, _, err := windows.LookupSID("", strings.TrimPrefix(user, `.\`))
	if err != nil {
		return nil, fmt.Errorf("daemon: user %s: %w", user, err)
	}
	return sid, nil
}

// allowService gives an account the right to log on as a service. A manager does
// not: it registers the service and then cannot start it.
func allowService(user string) error {
	sid, err := lookUp(user)
	if err != nil {
		return err
	}
	right, err := windows.NewNTUnicodeString("SeServiceLogonRight")
	if err != nil {
		return err
	}
	const lookupNames, createAccount = 0x800, 0x10
	var attributes windows.OBJECT_ATTRIBUTES
	var policy windows.Handle
	status, _, _ := lsaOpenPolicy.Call(0, uintptr(unsafe.Pointer(&attributes)), lookupNames|createAccount, uintptr(unsafe.Pointer(&policy)))
	if status == 0 {
		defer lsaClose.Call(uintptr(policy))
		status, _, _ = lsaAddAccountRights.Call(uintptr(policy), uintptr(unsafe.Pointer(sid)), uintptr(unsafe.Pointer(right)), 1)
	}
	if status != 0 {
		return fmt.Errorf("daemon: the right of %s to log on as a service: %w", user, windows.NTStatus(status).Errno())
	}
	return nil
}
