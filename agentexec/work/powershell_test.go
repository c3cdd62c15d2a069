package work

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPowerShellsCommandLine(t *testing.T) {
	require.Equal(t, []string{"pwsh", "-NoProfile", "-NonInteractive", "-File", "/w/a b.ps1"}, powershell("linux", "pwsh", "/w/a b.ps1"))
	require.Equal(t, []string{"p.exe", "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File", `C:\a b.ps1`},
		powershell("windows", "p.exe", `C:\a b.ps1`))
}

func FuzzASCII(f *testing.F) {
	for _, seed := range []string{`{"ü":"€ 😀 \u00e9 \\"}`, `"\ud83d"`, `[1, "a"]`, "\"\xff\""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := ascii(raw)
		for _, b := range got {
			require.Less(t, b, byte(0x80))
		}
		var was, is any
		if json.Unmarshal(raw, &was) != nil {
			return
		}
		require.NoError(t, json.Unmarshal(got, &is))
		require.Equal(t, was, is)
	})
}
