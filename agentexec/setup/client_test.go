package setup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheClientTrustsWhatItIsTold(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
	}))
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(block), 0o600))
	get := func(ca, path string) (int, error) {
		client, err := (&File{CA: ca}).httpClient()
		require.NoError(t, err)
		defer client.CloseIdleConnections()
		resp, err := client.Get(srv.URL + path)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	_, err := get("", "/")
	require.ErrorContains(t, err, "certificate")
	code, err := get(ca, "/")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	code, err = get(ca, "/away")
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, code, "the token goes nowhere else")
	require.NoError(t, os.WriteFile(ca, []byte("no certificate"), 0o600))
	_, err = (&File{CA: ca}).httpClient()
	require.ErrorContains(t, err, "no certificate")
}

// An agent with a certificate needs no token; one that was renewed is shown from
// the next connection on.
func TestTheCertificateIsShownAndReadAnew(t *testing.T) {
	dir := t.TempDir()
	f := &File{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	raw, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	made := func(template, parent *x509.Certificate) []byte {
		template.SerialNumber, template.NotAfter = big.NewInt(1), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), key)
		require.NoError(t, err)
		return der
	}
	signer := &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true}
	root, err := x509.ParseCertificate(made(signer, signer))
	require.NoError(t, err)
	authority := x509.NewCertPool()
	authority.AddCert(root)
	renew := func(name string) {
		der := made(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, root)
		require.NoError(t, os.WriteFile(f.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
		require.NoError(t, os.WriteFile(f.Key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600))
	}
	_, err = (&File{Cert: f.Cert, Key: f.Key}).httpClient()
	require.ErrorContains(t, err, "cert, key")
	renew("win-1")
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		for _, chain := range r.TLS.VerifiedChains {
			w.Header().Set("Shown", chain[0].Subject.CommonName)
		}
	}))
	srv.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: authority}
	srv.StartTLS()
	defer srv.Close()
	require.NoError(t, os.WriteFile(f.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600))
	client, err := f.httpClient()
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	shown := func() string {
		resp, err := client.Get(srv.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.Header.Get("Shown")
	}
	require.Equal(t, "win-1", shown())
	renew("win-2")
	require.Equal(t, "win-2", shown())
}

func TestATokenIsReadAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	v := &vault{file: path}
	for _, text := range []string{"one", "two"} {
		require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		got, err := v.token()
		require.NoError(t, err)
		require.Equal(t, text, got)
		require.Contains(t, v.secrets(), text)
	}
	require.NoError(t, os.WriteFile(path, []byte("\xff\xfet\x00o\x00k\x00\r\x00\n\x00"), 0o600))
	got, err := v.token()
	require.NoError(t, err)
	require.Equal(t, "tok", got, "as Windows PowerShell writes it")
	for _, bad := range []string{"", "\n", "two\nlines\n"} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := v.token()
		require.Error(t, err)
	}
}
