package main_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxied is a server behind a proxy that real people use.
type proxied struct {
	*daemon
	token string
	dir   string // certificate and configuration of the proxy
	port  string // where the proxy listens
}

// behind starts a server with a token of scope admin, and a place for its proxy.
func behind(t *testing.T, set ...string) *proxied {
	t.Helper()
	data := t.TempDir()
	out, talk, code := run(t, "pushd", "token", "create", "--name", "boss", "--scope", "admin", "--data-dir", data)
	require.Equal(t, 0, code, talk)
	p := &proxied{daemon: serve(t, data, set...), token: strings.TrimSpace(out), dir: t.TempDir()}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, p.port, _ = net.SplitHostPort(l.Addr().String())
	require.NoError(t, l.Close())
	certify(t, p.dir)
	return p
}

// upstream is the server as a proxy calls it.
func (p *proxied) upstream() string { return strings.TrimPrefix(p.base, "http://") }

// certify makes a certificate for 127.0.0.1 and pushd.test: cert.pem, key.pem and both.pem.
func certify(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "pushd test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"pushd.test"},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	raw, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
	for name, content := range map[string][]byte{"cert.pem": certPEM, "key.pem": keyPEM, "both.pem": append(bytes.Clone(certPEM), keyPEM...)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

// program finds a proxy, or skips the test with a line that says so.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if _, err := os.Stat("/usr/sbin/" + name); err == nil {
			return "/usr/sbin/" + name
		}
		t.Skipf("%s is not to be had here: `make test` installs it where that is allowed", name)
	}
	return path
}

// front starts the proxy and waits until it takes connections.
func (p *proxied) front(t *testing.T, line ...string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, p.dir
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is ended by us
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it is in the foreground, and without children of its own
		<-ended
	})
	require.Eventually(t, func() bool {
		select {
		case <-ended:
			t.Errorf("%s ended: %s", line[0], out.String())
			return true
		default:
		}
		conn, err := net.Dial("tcp", "127.0.0.1:"+p.port)
		if err == nil {
			_ = conn.Close() // only a question
		}
		return err == nil
	}, patience, 10*time.Millisecond)
}

// nginx starts nginx with a server block; {…} is where the upstream and files go.
func (p *proxied) nginx(t *testing.T, block string) {
	t.Helper()
	path := program(t, "nginx")
	conf := `daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
` + block + "\n}\n"
	file := filepath.Join(p.dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(p.fill(conf)), 0o600))
	p.front(t, path, "-p", p.dir, "-c", file)
}

// haproxy starts HAProxy with a frontend and a backend.
func (p *proxied) haproxy(t *testing.T, body string) {
	t.Helper()
	path := program(t, "haproxy")
	file := filepath.Join(p.dir, "haproxy.cfg")
	require.NoError(t, os.WriteFile(file, []byte(p.fill(body)), 0o600))
	p.front(t, path, "-db", "-f", file)
}

func (p *proxied) fill(text string) string {
	return strings.NewReplacer("{port}", p.port, "{upstream}", p.upstream(), "{dir}", p.dir).Replace(text)
}

// diagnosis is what doctor says in JSON.
type diagnosis struct {
	Items []struct {
		Check, Level, Says string
		Cures              []string
	}
	Bad int
}

func (d diagnosis) String() string { return fmt.Sprintf("%+v", d.Items) }

// level is the level of a check, empty if it was not made.
func (d diagnosis) level(check string) string {
	for _, f := range d.Items {
		if f.Check == check {
			return f.Level
		}
	}
	return ""
}

func (d diagnosis) cures(check string) string {
	for _, f := range d.Items {
		if f.Check == check {
			return strings.Join(f.Cures, "\n")
		}
	}
	return ""
}

// doctor examines the way through the proxy.
func (p *proxied) doctor(t *testing.T, base string, more ...string) (d diagnosis, code int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "pushctl"), append([]string{"doctor", "--url", p.fill(base), "-o", "json"}, more...)...)
	cmd.Env = append(clean(os.Environ()), "PUSHD_TOKEN="+p.token, "SSL_CERT_FILE="+filepath.Join(p.dir, "cert.pem"))
	var talk bytes.Buffer
	cmd.Stderr = &talk
	out, err := cmd.Output()
	if err != nil {
		require.NotNil(t, cmd.ProcessState, "%v", err)
	}
	require.NoError(t, json.Unmarshal(out, &d), "%s %s", out, talk.String())
	return d, cmd.ProcessState.ExitCode()
}
