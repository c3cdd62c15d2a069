package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// ErrCertificate is a certificate, key or authority that cannot be used.
var ErrCertificate = errors.New("server: bad certificate")

// TLSFiles are where a certificate comes from. They are looked at again before a
// handshake, at most once a second, so that a renewal needs no restart.
type TLSFiles struct {
	Cert, Key string // PEM; the certificate with its chain
	ClientCA  string // PEM; empty: clients are not asked for certificates
}

// LoadTLS reads the files and returns what serves them. A renewal that cannot be
// read is said in the log once, and the certificate in force stays.
func LoadTLS(f TLSFiles, log zerolog.Logger) (*tls.Config, error) {
	k := &certificates{files: f, log: log, now: time.Now}
	k.stamp = k.stampOf()
	config, err := f.read()
	if err != nil {
		return nil, err
	}
	k.config = config
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: config.NextProtos,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return k.current(), nil
		},
	}, nil
}

func (f TLSFiles) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.ClientCA == "" {
		return config, nil
	}
	raw, err := os.ReadFile(f.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%w: %s holds no certificate", ErrCertificate, f.ClientCA)
	}
	// Optional: people and senders have none, and bear tokens.
	config.ClientAuth = tls.VerifyClientCertIfGiven
	return config, nil
}

// certificates holds what is in force.
type certificates struct {
	files TLSFiles
	log   zerolog.Logger
	now   func() time.Time

	mu     sync.Mutex
	config *tls.Config
	stamp  string    // of the files, as they were read last
	looked time.Time // when they were looked at last
}

func (k *certificates) current() *tls.Config {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	if age := now.Sub(k.looked); age >= 0 && age < time.Second {
		return k.config
	}
	k.looked = now
	stamp := k.stampOf()
	if stamp == k.stamp {
		return k.config
	}
	k.stamp = stamp
	fresh, err := k.files.read()
	if err != nil {
		k.log.Error().Err(err).Msg("the certificate has changed and cannot be used; the one before stays")
		return k.config
	}
	k.config = fresh
	k.log.Info().Msg("the certificate was read again")
	return fresh
}

// stampOf tells one state of the files from another.
func (k *certificates) stampOf() string {
	var stamp strings.Builder
	for _, path := range []string{k.files.Cert, k.files.Key, k.files.ClientCA} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			stamp.WriteString(fmt.Sprintf("%d/%d ", info.Size(), info.ModTime().UnixNano()))
		} else {
			stamp.WriteString("gone ")
		}
	}
	return stamp.String()
}

// certified is who a verified client certificate speaks for: an agent of the
// machines that its subject's common name and its DNS names are. They are taken
// as ids, never as patterns.
func certified(r *http.Request) (*caller, bool) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, false
	}
	leaf := r.TLS.VerifiedChains[0][0]
	c := &caller{name: "certificate " + leaf.Subject.CommonName}
	for _, id := range append([]string{leaf.Subject.CommonName}, leaf.DNSNames...) {
		if idForm.MatchString(id) {
			c.grants = append(c.grants, grant{mayAgent, id})
		}
	}
	return c, len(c.grants) > 0
}
