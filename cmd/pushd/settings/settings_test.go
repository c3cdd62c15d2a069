package settings_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pushd/cmd/pushd/settings"
)

func TestDefaultsAreThemselvesValid(t *testing.T) {
	l, err := settings.Load(settings.Sources{})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", l.Listen)
	require.Equal(t, 15*time.Second, l.Watchdog.OrphanTimeout)
	require.Equal(t, settings.Bytes(1<<20), l.Limits.MaxPayloadBytes)
	for _, v := range l.Values {
		require.Equal(t, "default", v.Origin, v.Name)
	}
}

func TestTheLaterSourceWins(t *testing.T) {
	file := write(t, "listen: 127.0.0.1:1\nwatchdog:\n  ceiling: 1h\n  max_resends: 7\nstream.heartbeat: 1s\n")
	l, err := settings.Load(settings.Sources{
		File:    file,
		Environ: []string{"PUSHD_WATCHDOG_CEILING=2h", "PUSHD_LISTEN=127.0.0.1:2", "HOME=/nowhere", "PUSHD_LOG_LEVEL="},
		Set:     []string{"listen=127.0.0.1:3"},
	})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:3", l.Listen)
	require.Equal(t, 2*time.Hour, l.Watchdog.Ceiling)
	require.Equal(t, 7, l.Watchdog.MaxResends)
	require.Equal(t, time.Second, l.Stream.Heartbeat)
	origins := map[string]string{}
	for _, v := range l.Values {
		origins[v.Name] = v.Origin
	}
	require.Equal(t, "--set", origins["listen"])
	require.Equal(t, "environment", origins["watchdog.ceiling"])
	require.Equal(t, file+":4", origins["watchdog.max_resends"])
	require.Equal(t, "default", origins["log.level"], "an empty variable says nothing")
}

// A bare number is 30 seconds to one reader and 30 nanoseconds to another.
func TestDurationsNeedAUnit(t *testing.T) {
	raw, err := os.ReadFile("testdata/durations.tsv")
	require.NoError(t, err)
	for line := range strings.SplitSeq(strings.TrimRight(string(raw), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		text, want, _ := strings.Cut(line, "\t")
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			l, err := settings.Load(settings.Sources{Environ: []string{"PUSHD_WATCHDOG_ORPHAN_TIMEOUT=" + text}})
			switch want {
			case "error":
				require.ErrorContains(t, err, "watchdog.orphan_timeout")
				require.ErrorContains(t, err, "PUSHD_WATCHDOG_ORPHAN_TIMEOUT")
				require.ErrorContains(t, err, text)
				require.NotContains(t, err.Error(), "\n")
			case "default":
				require.NoError(t, err)
				require.Equal(t, 15*time.Second, l.Watchdog.OrphanTimeout)
			default:
				require.NoError(t, err)
				require.Equal(t, want, l.Watchdog.OrphanTimeout.String())
			}
		})
	}
}

func TestWhatASettingTakes(t *testing.T) {
	for _, kv := range []string{
		"stream.max_age=0", "policy.error_delay=0", "policy.release_delay=0s", "watchdog.max_resends=0", "limits.max_in_flight_bytes=1GiB",
		"limits.max_body_bytes=4096", "limits.max_payload_bytes=10KiB", "listen=[::1]:0", "listen=:8080", "watchdog.skip_types=pay, drop.table", "auth.insecure=1",
	} {
		_, err := settings.Load(settings.Sources{Set: []string{kv}})
		require.NoError(t, err, kv)
	}
}

func TestWhatMakesNoSenseIsOneLineThatNamesIt(t *testing.T) {
	for _, kv := range []string{
		"watchdog.max_resends=many", "watchdog.max_resends=-1", "policy.max_attempts=0", "stream.max_streams=0",
		"limits.max_payload_bytes=big", "limits.max_payload_bytes=1MB", "limits.max_in_flight_bytes=-1", "limits.max_body_bytes=9999999999GiB",
		"watchdog.repush_position=middle", "log.level=loud", "log.format=xml", "auth.insecure=perhaps",
		"listen=nowhere", "listen=127.0.0.1", "listen=127.0.0.1:99999", "listen=127.0.0.1:http",
		"policy.backoff_base=1h", "watchdog.ceiling=0",
	} {
		t.Run(kv, func(t *testing.T) {
			_, err := settings.Load(settings.Sources{Set: []string{kv}})
			key, value, _ := strings.Cut(kv, "=")
			require.ErrorContains(t, err, key)
			require.ErrorContains(t, err, strings.TrimSuffix(value, "0"))
			require.NotContains(t, err.Error(), "\n")
			var typed *settings.Error
			require.ErrorAs(t, err, &typed)
		})
	}
}

func TestAnAddressWithAPasswordIsRefusedAndNotSpelledOut(t *testing.T) {
	_, err := settings.Load(settings.Sources{Set: []string{"traces.endpoint=http://me:s3cret@127.0.0.1:4318/v1/traces"}})
	require.ErrorContains(t, err, "traces.endpoint")
	require.ErrorContains(t, err, "no user and password")
	require.NotContains(t, err.Error(), "s3cret")
}

func TestASettingThatDoesNotExistIsRefused(t *testing.T) {
	_, err := settings.Load(settings.Sources{Set: []string{"stream.orphan_timeout=3s"}})
	require.ErrorContains(t, err, "perhaps watchdog.orphan_timeout")
	_, err = settings.Load(settings.Sources{Set: []string{"listen"}})
	require.ErrorContains(t, err, "key=value")
	l, err := settings.Load(settings.Sources{Environ: []string{"PUSHD_WATCHDOG_ORPHAN_TIMOUT=3s", "PUSHD_URL=x"}})
	require.NoError(t, err, "a variable may belong to something else")
	require.Equal(t, []string{"PUSHD_WATCHDOG_ORPHAN_TIMOUT"}, l.Unknown)
}

func TestASettingsFileIsReadStrictly(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"an unknown key":             {"watchdog:\n  orphan_timout: 3s\n", ":2: unknown key watchdog.orphan_timout"},
		"an unknown section":         {"watchdogs:\n  ceiling: 3s\n", ":1: unknown key watchdogs"},
		"a key twice":                {"listen: a:1\nlisten: a:2\n", "listen"},
		"a key twice by two names":   {"log:\n  level: info\nlog.level: warn\n", "stands in line 2 already"},
		"a list where one is due":    {"listen: {a: 1}\n", "single value"},
		"a list of lists":            {"watchdog:\n  skip_types: [[a]]\n", "plain list"},
		"a section that is a value":  {"watchdog: 3s\n", "watchdog must hold keys"},
		"no map at all":              {"- a\n- b\n", "the file must hold keys"},
		"no YAML":                    {"a: b: c\n\t", "settings file"},
		"a duration without a unit":  {"watchdog:\n  ceiling: 30\n", ":2: \"30\" is no duration"},
		"a number where text is due": {"listen: 8080\n", "is no address"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := settings.Load(settings.Sources{File: write(t, c.body)})
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), "\n")
		})
	}
	for _, body := range []string{"", "# nothing\n", "watchdog:\n", "watchdog:\n  ceiling:\n", "watchdog:\n  skip_types: [pay, drop]\n"} {
		_, err := settings.Load(settings.Sources{File: write(t, body)})
		require.NoError(t, err, body)
	}
	_, err := settings.Load(settings.Sources{File: filepath.Join(t.TempDir(), "none.yaml")})
	require.ErrorContains(t, err, "none.yaml")
}

func TestSizesAreWrittenAsTheyAreRead(t *testing.T) {
	for text, want := range map[string]string{"1048576": "1MiB", "10KiB": "10KiB", "1GiB": "1GiB", "1025": "1025", "7B": "7"} {
		b, err := settings.ParseBytes(text)
		require.NoError(t, err)
		require.Equal(t, want, b.String())
	}
}

func TestRulesSayWhatTheSettingsSay(t *testing.T) {
	l, err := settings.Load(settings.Sources{Set: []string{
		"watchdog.enabled=false", "watchdog.repush_position=tail", "watchdog.orphan_timeout=2s", "limits.max_queued_per_machine=9", "retention.dead=1h",
	}})
	require.NoError(t, err)
	r := l.Rules()
	require.True(t, r.WatchdogOff)
	require.True(t, r.RepushTail)
	require.Equal(t, 2*time.Second, r.OrphanTimeout)
	require.Equal(t, 9, r.MaxQueued)
	require.Equal(t, time.Hour, r.KeepDead)
	require.EqualValues(t, 8<<20, r.MaxInFlightBytes)
}

// docs/settings.md is the table that people read; the struct is the one that
// runs. Both ways: no key, default or word in one that is not in the other.
func TestTheDocumentedTableIsTheStruct(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/settings.md")
	require.NoError(t, err)
	var documented []string
	for line := range strings.SplitSeq(string(raw), "\n") {
		if strings.HasPrefix(line, "| `") {
			documented = append(documented, line)
		}
	}
	var coded []string
	for _, k := range settings.Keys() {
		coded = append(coded, fmt.Sprintf("| `%s` | `%s` | %s | %s |", k.Name, k.Env, code(k.Default), k.Doc))
	}
	require.Equal(t, coded, documented)
}

// What the document says a reload takes is what it takes.
func TestWhatReloadsIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/settings.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(raw), "has a running server read all three again. It takes ")
	require.True(t, found)
	taken, rest, _ := strings.Cut(rest, "but not ")
	except, _, _ := strings.Cut(rest, ",")
	names := regexp.MustCompile("`([a-z_.]+)(\\*?)`")
	for _, k := range settings.Keys() {
		documented := false
		for _, m := range names.FindAllStringSubmatch(taken, -1) {
			documented = documented || k.Name == m[1] || m[2] != "" && strings.HasPrefix(k.Name, m[1])
		}
		documented = documented && !strings.Contains(except, "`"+k.Name+"`")
		require.Equal(t, settings.Reloads(k.Name), documented, k.Name)
	}
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func write(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pushd.yaml")
	require.NoError(t, os.WriteFile(path, []byte(body), 0o600))
	return path
}
