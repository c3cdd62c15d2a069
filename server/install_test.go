package server_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pushd/server"
)

// fakeAgent notes how it is called, and knows whether it is installed.
const fakeAgent = `#!/bin/sh
here=$(dirname "$0")
echo "$*" >>"$here/calls"
case "$2" in
install) : >"$here/unit" ;;
uninstall) rm "$here/unit" ;;
status) [ -e "$here/unit" ] || exit 1 ;;
esac
`

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// release makes a folder as `make dist` does, with what is in files.
func release(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	var sums strings.Builder
	for name, raw := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), raw, 0o644))
		sums.WriteString(digestOf(raw) + "  " + name + "\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644))
	return dir
}

func archive(t *testing.T, name, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, packed.Close())
	return out.Bytes()
}

func installs(dir string) options {
	return options{config: func(c *server.Config) { c.InstallDir = dir }}
}

// script runs what the server hands out, under sh.
func (r *rig) script(args ...string) (output string, err error) {
	r.t.Helper()
	script := r.want(200, "GET", "/install.sh", nil, nil)
	cmd := exec.CommandContext(r.t.Context(), "sh", append([]string{"-s", "--"}, args...)...)
	cmd.Stdin = bytes.NewReader(script.body)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func needsSh(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("install.sh is for Linux")
	}
	if _, err := exec.LookPath("curl"); err != nil {
		if _, err := exec.LookPath("wget"); err != nil {
			t.Skip("neither curl nor wget is here")
		}
	}
}

func TestInstallShInstallsAndRemoves(t *testing.T) {
	t.Parallel()
	needsSh(t)
	system := "linux-" + runtime.GOARCH
	for name, files := range map[string]map[string][]byte{
		"archive": {"pushd-1.2.3-" + system + ".tar.gz": archive(t, "pushd-1.2.3-"+system+"/pushd", fakeAgent)},
		"program": {"pushd-1.2.3-" + system: []byte(fakeAgent)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, installs(release(t, files)))
			prefix, token := t.TempDir(), filepath.Join(t.TempDir(), "a file's name")
			require.NoError(t, os.WriteFile(token, []byte("the-token\n"), 0o600))
			home, etc := filepath.Join(prefix, "usr/local/lib/pushd-agent"), filepath.Join(prefix, "etc/pushd")
			out, err := r.script("--prefix", prefix, "--machine", "lin-1", "--token-file", token)
			require.NoError(t, err, out)
			require.NotContains(t, out, "the-token")

			program, config := filepath.Join(home, "pushd"), filepath.Join(etc, "agent.yaml")
			raw, err := os.ReadFile(program)
			require.NoError(t, err)
			require.Equal(t, fakeAgent, string(raw))
			raw, err = os.ReadFile(config)
			require.NoError(t, err)
			settings := "server: 'http://" + r.addr + "'\nmachine_id: 'lin-1'\ntoken_file: token\n" +
				"handlers: # by action type; docs/agents.md has them all\n  ping: {kind: exec, command: ['" + program + "', version]}\n"
			require.Equal(t, settings, string(raw))
			raw, err = os.ReadFile(filepath.Join(etc, "token"))
			require.NoError(t, err)
			require.Equal(t, "the-token\n", string(raw))
			for path, mode := range map[string]os.FileMode{etc: 0o700, filepath.Join(etc, "token"): 0o600, config: 0o600, home: 0o755, program: 0o755} {
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.Equal(t, mode, info.Mode().Perm(), path)
			}
			calls := func() string {
				raw, err := os.ReadFile(filepath.Join(home, "calls"))
				require.NoError(t, err)
				require.NoError(t, os.Remove(filepath.Join(home, "calls")))
				return string(raw)
			}
			require.Equal(t, "agent install --config "+config+"\nagent start\n", calls())

			// Again: the settings stay, the service is stopped for its new program.
			out, err = r.script("--prefix", prefix, "--machine", "other")
			require.NoError(t, err, out)
			raw, err = os.ReadFile(config)
			require.NoError(t, err)
			require.Equal(t, settings, string(raw))
			require.Equal(t, "agent status\nagent stop\nagent install --config "+config+"\nagent start\n", calls())

			out, err = r.script("--prefix", prefix, "--uninstall")
			require.NoError(t, err, out)
			require.Equal(t, "agent status\nagent uninstall\n", calls())
			require.NoFileExists(t, program)
			require.FileExists(t, config)
			out, err = r.script("--prefix", prefix, "--uninstall")
			require.Error(t, err)
			require.Contains(t, out, "no agent is installed")
		})
	}
}

func TestInstallShTakesNothingThatIsNotWhatItShouldBe(t *testing.T) {
	t.Parallel()
	needsSh(t)
	name := "pushd-1.2.3-linux-" + runtime.GOARCH
	dir := release(t, map[string][]byte{name: []byte(fakeAgent)})
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ntouch /tmp/evil\n"), 0o644))
	r := start(t, installs(dir))
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "its SHA-256 is"},
		{[]string{"--machine", "a'; touch x; '"}, "--machine cannot hold"},
		{[]string{"--machine", "a\n"}, "--machine cannot hold"},
		{[]string{"--machine", ""}, "its SHA-256 is"}, // the host's name
		{[]string{"--server", "http://x/$(id)"}, "--server cannot hold"},
		{[]string{"--server", "file:///etc/passwd"}, "must begin with http"},
		{[]string{"--user", "a b"}, "--user cannot hold"},
		{[]string{"--token-file", "/nowhere"}, "cannot be read"},
		{[]string{"--token", "secret"}, "there is no --token"},
		{[]string{"--machine"}, "needs a value"},
	} {
		prefix := t.TempDir()
		out, err := r.script(append([]string{"--prefix", prefix}, c.args...)...)
		require.Error(t, err, out)
		require.Contains(t, out, c.says)
		left, err := os.ReadDir(prefix)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	// Cut anywhere, the script does nothing.
	script := string(r.want(200, "GET", "/install.sh", nil, nil).body)
	body, _, found := strings.Cut(script, "\nmain \"$@\"\n")
	require.True(t, found)
	prefix := t.TempDir()
	for cut := 0; cut <= len(body); cut += 97 {
		cmd := exec.CommandContext(t.Context(), "sh", "-s", "--", "--prefix", prefix)
		cmd.Stdin = strings.NewReader(body[:cut])
		out, _ := cmd.CombinedOutput()
		require.NotContains(t, string(out), "Downloading")
	}
}

// What comes from a request, or from a file of the operator's, is in a script
// either as it must be or not at all.
func TestNothingIsInjectedIntoAScript(t *testing.T) {
	t.Parallel()
	dir := release(t, map[string][]byte{"pushd-1-linux-amd64.tar.gz": []byte("l"), "pushd-1-windows-amd64.zip": []byte("w"), "pushd-1-windows-arm64.zip": []byte("a")})
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	evil := strings.Repeat("0", 64)
	sums = append([]byte(evil+"  pushd-'; id; '-linux-amd64.tar.gz\n"+evil+"  ../pushd-x-windows-amd64.zip\n$(id)  pushd-x-windows-amd64.zip\n"), sums...)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums, 0o644))
	r := start(t, options{tokens: scopes, config: func(c *server.Config) {
		c.InstallDir, c.TrustedProxies = dir, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	}})
	for _, host := range []string{
		"a'b", "a$(id)", "a`id`", "a;id", "a\"b", "a b", "a/b", "a:b", "a:123456", "-a", ".a", "[::1", "[:::::]", "[zz]", "a|b", "a\\b", "a%0ab", "a@b", "{a}", "@FILES@",
	} {
		for _, path := range []string{"/install.sh", "/install.ps1"} {
			a := r.call("GET", path, nil, "Host: "+host)
			require.Equal(t, 400, a.status, "%s: %s", host, a.body)
		}
	}
	for host, line := range map[string]string{
		"push.example": "http://push.example", "push.example:8443": "http://push.example:8443", "[2001:db8::1]:80": "http://[2001:db8::1]:80", "192.0.2.7": "http://192.0.2.7",
	} {
		for _, path := range []string{"/install.sh", "/install.ps1"} {
			script := string(r.want(200, "GET", path, nil, nil, "Host: "+host).body)
			require.Contains(t, script, "'"+line+"'")
			require.NotContains(t, script, evil)
			require.NotContains(t, script, "@SERVER@")
			require.NotContains(t, script, "@FILES@")
			for _, secret := range r.tokens {
				require.NotContains(t, script, secret)
			}
			script = string(r.want(200, "GET", path, nil, nil, "Host: "+host, "X-Forwarded-Proto: https").body)
			require.Contains(t, script, "'https"+strings.TrimPrefix(line, "http")+"'")
			r.want(200, "GET", path, nil, nil, "Host: "+host, "X-Forwarded-Proto: https'; id; '")
		}
	}
	script := r.want(200, "GET", "/install.ps1", nil, nil, "Host: push.example:8443")
	template, err := os.ReadFile("install/install.ps1")
	require.NoError(t, err)
	require.Equal(t, strings.NewReplacer("@SERVER@", "http://push.example:8443", "@FILES@",
		"    'windows-amd64' = @('pushd-1-windows-amd64.zip', '"+digestOf([]byte("w"))+"')\n"+
			"    'windows-arm64' = @('pushd-1-windows-arm64.zip', '"+digestOf([]byte("a"))+"')").Replace(string(template)), string(script.body))
	require.Contains(t, string(r.want(200, "GET", "/install.sh", nil, nil).body), "\tlinux-amd64) echo 'pushd-1-linux-amd64.tar.gz "+digestOf([]byte("l"))+"' ;;\n")
}

func TestOnlyWhatAReleaseNamesIsHandedOut(t *testing.T) {
	t.Parallel()
	dir := release(t, map[string][]byte{"pushd-1-linux-amd64": []byte("program")})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "private"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "out")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	f, err := os.OpenFile(filepath.Join(dir, "SHA256SUMS"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	for _, name := range []string{"out", "folder", "gone"} {
		_, err = f.WriteString(strings.Repeat("0", 64) + "  " + name + "\n")
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	r := start(t, installs(dir))
	a := r.want(200, "GET", "/download/pushd-1-linux-amd64", nil, nil)
	require.Equal(t, "program", string(a.body))
	require.Contains(t, string(r.want(200, "GET", "/download/SHA256SUMS", nil, nil).body), "pushd-1-linux-amd64\n")
	for _, name := range []string{"private", "folder", "gone", "..", "%2e%2e%2fprivate", "..%2f..%2fetc%2fpasswd", "out"} {
		a := r.call("GET", "/download/"+name, nil)
		require.Equal(t, 404, a.status, "%s: %s", name, a.body)
	}
}

func TestWithoutAReleaseThereIsNothingToInstall(t *testing.T) {
	t.Parallel()
	for dir, says := range map[string]string{"": "set install.dir", t.TempDir(): "install.dir has no SHA256SUMS", "/nowhere/at/all": "install.dir has no SHA256SUMS"} {
		r := start(t, installs(dir))
		for _, path := range []string{"/install.sh", "/install.ps1", "/download/pushd"} {
			require.Contains(t, r.problem(r.want(404, "GET", path, nil, nil)).Detail, says)
		}
	}
}
