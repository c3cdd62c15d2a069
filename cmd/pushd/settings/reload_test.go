package settings_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/cmd/pushd/settings"
)

func TestWhatIsTakenAnewAndWhatStays(t *testing.T) {
	before, err := settings.Load(settings.Sources{Set: []string{"listen=127.0.0.1:1", "watchdog.max_resends=7"}})
	require.NoError(t, err)
	next, err := settings.Load(settings.Sources{Set: []string{
		"listen=127.0.0.1:2", "watchdog.orphan_timeout=3s", "watchdog.scan_interval=1s", "limits.max_body_bytes=2MiB", "log.level=debug", "stream.max_age=2h", "watchdog.skip_types=a,b",
	}})
	require.NoError(t, err)
	merged, changed, stays, err := before.Adopt(next)
	require.NoError(t, err)
	names := func(all []settings.Change) (out []string) {
		for _, c := range all {
			out = append(out, c.Name+" "+c.From+" "+c.To)
		}
		return out
	}
	require.Equal(t, []string{
		"log.level info debug", "watchdog.orphan_timeout 15s 3s", "watchdog.max_resends 7 2", "watchdog.skip_types  a,b", "limits.max_body_bytes 16MiB 2MiB",
	}, names(changed))
	require.Equal(t, []string{"listen 127.0.0.1:1 127.0.0.1:2", "stream.max_age 1h 2h", "watchdog.scan_interval 10s 1s"}, names(stays))
	require.Equal(t, "127.0.0.1:1", merged.Listen)
	require.Equal(t, time.Hour, merged.Stream.MaxAge)
	require.Equal(t, 3*time.Second, merged.Rules().OrphanTimeout)
	require.Equal(t, []string{"a", "b"}, merged.Watchdog.SkipTypes)
	again, changed, stays, err := merged.Adopt(next)
	require.NoError(t, err)
	require.Empty(t, changed)
	require.Len(t, stays, 3, "what needs a restart is told each time")
	require.Equal(t, merged.Settings, again.Settings)
}
