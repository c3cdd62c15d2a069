package daemon_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"

	"pushd/agentexec/daemon"
)

func TestASettingsFolderIsForFew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pushd")
	for user, want := range map[string]string{
		"":                          "D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)",
		`NT AUTHORITY\LocalService`: "D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1301bf;;;LS)",
	} {
		require.NoError(t, daemon.Secure(dir, user))
		sd, err := windows.GetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
		require.NoError(t, err)
		if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil { // it keeps modes of Unix
			require.Equal(t, want, sd.String())
		}
	}
	require.ErrorContains(t, daemon.Secure(dir, "nobody-of-this-name"), "nobody-of-this-name")
}
