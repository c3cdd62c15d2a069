package server_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/r3labs/sse/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"pushd/server"
	"pushd/server/api"
)

// authority is a CA made for a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{t, cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue signs a certificate for a name; it serves on loopback and to clients.
func (a *authority) issue(name string, dns ...string) (cert, key []byte) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: dns,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	require.NoError(a.t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// secured is a rig that speaks TLS, with the files of its certificate.
type secured struct {
	*rig
	ca    *authority
	files server.TLSFiles
}

func startTLS(t *testing.T, o options) *secured {
	t.Helper()
	ca := newAuthority(t)
	dir := t.TempDir()
	s := &secured{ca: ca, files: server.TLSFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientCA: filepath.Join(dir, "ca.pem")}}
	s.renew(ca, "first")
	require.NoError(t, os.WriteFile(s.files.ClientCA, ca.pem, 0o600))
	config, err := server.LoadTLS(s.files, zerolog.Nop())
	require.NoError(t, err)
	o.config = func(c *server.Config) { c.TLS = config }
	s.rig = start(t, o)
	return s
}

func (s *secured) renew(ca *authority, name string) {
	cert, key := ca.issue(name)
	require.NoError(ca.t, os.WriteFile(s.files.Cert, cert, 0o600))
	require.NoError(ca.t, os.WriteFile(s.files.Key, key, 0o600))
}

// transport trusts the authority; with a name it bears that one's certificate.
func (s *secured) transport(h2 bool, names ...string) *http.Transport {
	pool := x509.NewCertPool()
	pool.AddCert(s.ca.cert)
	config := &tls.Config{RootCAs: pool}
	if len(names) > 0 {
		cert, key := s.ca.issue(names[0], names[1:]...)
		pair, err := tls.X509KeyPair(cert, key)
		require.NoError(s.t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: h2}
	s.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func (s *secured) as(h2 bool, token string, names ...string) *api.Client {
	return &api.Client{Base: "https://" + s.addr, Token: s.tokens[token], HTTP: &http.Client{Transport: s.transport(h2, names...)}}
}

func TestEventsAndAcksWorkOverTLSInBothVersionsOfHTTP(t *testing.T) {
	t.Parallel()
	s := startTLS(t, options{tokens: scopes})
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			machine := fmt.Sprintf("win-%v", h2)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := s.as(h2, "admin")
			resp, err := c.Subscribe(ctx, api.Subscription{MachineID: machine})
			require.NoError(t, err)
			want := 1
			if h2 {
				want = 2
			}
			require.Equal(t, want, resp.ProtoMajor)
			e := &events{t: t, got: make(chan event, 100), cancel: cancel}
			go e.read(resp.Body)
			e.await("hello")
			_, err = c.Push(ctx, api.Push{ActionID: "on-" + machine, MachineID: machine, Type: "job"})
			require.NoError(t, err)
			require.Contains(t, e.await("action"), "on-"+machine)
			acked, err := c.Ack(ctx, api.Ack{ActionID: "on-" + machine, Status: "done"})
			require.NoError(t, err)
			require.Equal(t, "settled", acked.Outcome)
			e.await("hb")
			cancel()
			e.end()
			require.Eventually(t, func() bool { return sumOf(s.metricsOver(t)) == 0 }, patience, 10*time.Millisecond, "the stream is noticed to be gone")
		})
	}
}

func (s *secured) metricsOver(t *testing.T) []byte {
	req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+s.addr+"/metrics", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.tokens["admin"])
	resp, err := s.transport(false).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var buf bytes.Buffer
	_, err = buf.ReadFrom(resp.Body)
	require.NoError(t, err)
	return buf.Bytes()
}

func sumOf(page []byte) int {
	var n int
	_, rest, _ := strings.Cut(string(page), "\npushd_streams_open ")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

func TestADrainEndsStreamsOverTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, options{tokens: scopes})
	for i, h2 := range []bool{false, true} {
		resp, err := s.as(h2, "admin").Subscribe(t.Context(), api.Subscription{MachineID: fmt.Sprintf("m%d", i)})
		require.NoError(t, err)
		e := &events{t: t, got: make(chan event, 100), cancel: func() {}}
		go e.read(resp.Body)
		e.await("hello")
		defer func() {
			require.Contains(t, e.await("bye"), `"shutdown"`)
			e.end()
		}()
	}
	s.stop()
}

// A certificate's names are machine ids, and nothing more than that.
func TestAClientCertificateIsAnAgentOfTheMachinesItNames(t *testing.T) {
	t.Parallel()
	s := startTLS(t, options{tokens: scopes})
	ctx := t.Context()
	agent := s.as(true, "", "win-7", "lin-7")
	for machine, allowed := range map[string]bool{"win-7": true, "lin-7": true, "win-8": false} {
		resp, err := agent.Next(ctx, api.Subscription{MachineID: machine}, 0)
		if allowed {
			require.NoError(t, err, machine)
			require.NoError(t, resp.Body.Close())
		} else {
			require.True(t, api.IsStatus(err, 403), "%s: %v", machine, err)
		}
	}
	_, err := agent.Queue(ctx)
	require.True(t, api.IsStatus(err, 403))
	for _, name := range []string{"*", "win-?", "[a-z]"} { // no pattern is taken from a name
		_, err := s.as(true, "", name).Next(ctx, api.Subscription{MachineID: "win-7"}, 0)
		require.True(t, api.IsStatus(err, 401), "%s: %v", name, err)
	}
	_, err = s.as(true, "").Queue(ctx)
	require.True(t, api.IsStatus(err, 401), "none is needed, and none gives nothing")
	_, err = s.as(true, "read", "win-7").Queue(ctx)
	require.NoError(t, err, "a token says more than a certificate")
	// One that another authority signed is refused in the handshake.
	stranger := s.as(true, "")
	cert, key := newAuthority(t).issue("win-7")
	pair, err := tls.X509KeyPair(cert, key)
	require.NoError(t, err)
	stranger.HTTP.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	_, err = stranger.Next(ctx, api.Subscription{MachineID: "win-7"}, 0)
	var answered *api.Error
	require.Error(t, err)
	require.False(t, errors.As(err, &answered), "it comes to no answer: %v", err)
}

func TestACertificateIsRenewedWithoutARestart(t *testing.T) {
	t.Parallel()
	s := startTLS(t, options{})
	served := func() string {
		pool := x509.NewCertPool()
		pool.AddCert(s.ca.cert)
		conn, err := tls.Dial("tcp", s.addr, &tls.Config{RootCAs: pool})
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "first", served())
	s.renew(s.ca, "second")
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for began := time.Now(); served() != "second"; <-look.C {
		require.Less(t, time.Since(began), patience, "the new certificate is not served")
	}
	require.NoError(t, os.WriteFile(s.files.Key, []byte("half a key"), 0o600))
	for range 30 { // longer than the second after which a change is seen
		<-look.C
		require.Equal(t, "second", served(), "what cannot be read changes nothing")
	}
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	t.Parallel()
	s := startTLS(t, options{})
	conn, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}) //nolint:gosec // it is to be refused
	if err == nil {
		conn.Close()
	}
	require.Error(t, err)
}

func TestIndependentClientsSpeakTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, options{tokens: scopes})
	client := sse.NewClient("https://"+s.addr+"/events?machine_id=win-1", func(c *sse.Client) { c.Connection.Transport = s.transport(false) })
	client.Headers["Authorization"] = "Bearer " + s.tokens["admin"]
	got := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_ = client.SubscribeRawWithContext(ctx, func(m *sse.Event) { got <- string(m.Event) })
	}()
	require.Equal(t, "hello", <-got)
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl here")
	}
	cert, key := s.ca.issue("win-2")
	dir := t.TempDir()
	for name, text := range map[string][]byte{"cert": cert, "key": key, "ca": s.ca.pem} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	for _, version := range []string{"--http1.1", "--http2"} {
		out, err := exec.CommandContext(t.Context(), curl, "-sS", "-N", "--max-time", "1", version, "--cacert", filepath.Join(dir, "ca"), "--cert", filepath.Join(dir, "cert"),
			"--key", filepath.Join(dir, "key"), "-H", "Accept: text/event-stream", "https://"+s.addr+"/events?machine_id=win-2").CombinedOutput()
		require.Error(t, err, "it is cut off while the stream goes on")
		require.Contains(t, string(out), "event: hello", version)
	}
}

func TestFilesThatAreNoCertificateAreRefused(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	dir := t.TempDir()
	f := server.TLSFiles{Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key")}
	_, err := server.LoadTLS(f, zerolog.Nop())
	require.ErrorIs(t, err, server.ErrCertificate)
	cert, key := ca.issue("x")
	require.NoError(t, os.WriteFile(f.Cert, cert, 0o600))
	require.NoError(t, os.WriteFile(f.Key, key, 0o600))
	_, err = server.LoadTLS(f, zerolog.Nop())
	require.NoError(t, err)
	f.ClientCA = f.Key
	_, err = server.LoadTLS(f, zerolog.Nop())
	require.ErrorIs(t, err, server.ErrCertificate)
	require.NotContains(t, err.Error(), "PRIVATE")
}
