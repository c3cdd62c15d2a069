package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"pushd/ackstore"
)

// tokenPrefix lets a secret scanner, and a reader, see what a text is.
const tokenPrefix = "pushd_"

// ErrScope is a scope that is none.
var ErrScope = errors.New("server: bad scope")

// NewToken mints a token: what a store keeps, which holds only a hash, and the
// text, which nobody can see again. A zero expires is never. rand is a source of
// unguessable bytes.
func NewToken(name string, scopes []string, expires, now time.Time, rand io.Reader) (ackstore.Token, string, error) {
	for _, scope := range scopes {
		if _, wrong := parseScope(scope); wrong != "" {
			return ackstore.Token{}, "", fmt.Errorf("%w: %q %s", ErrScope, scope, wrong)
		}
	}
	if len(scopes) == 0 {
		return ackstore.Token{}, "", fmt.Errorf("%w: a token needs one at least", ErrScope)
	}
	var secret [32]byte
	var id [8]byte
	if _, err := io.ReadFull(rand, secret[:]); err != nil {
		return ackstore.Token{}, "", err
	}
	if _, err := io.ReadFull(rand, id[:]); err != nil {
		return ackstore.Token{}, "", err
	}
	text := tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	return ackstore.Token{
		ID: "tok_" + hex.EncodeToString(id[:]), Name: name, Scopes: scopes,
		Hash: sha256.Sum256([]byte(text)), CreatedAt: now.UTC(), ExpiresAt: expires,
	}, text, nil
}
