package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// minSecret is the least length of a secret, in bytes, unless its route allows
// short ones.
const minSecret = 16

// Env is where secrets are looked up.
type Env struct {
	Getenv   func(name string) string
	ReadFile func(path string) ([]byte, error)
}

// secret is a key. Nothing prints it.
type secret struct {
	text []byte // as it was given
	key  []byte // what signs
}

// String keeps a secret out of logs and errors.
func (secret) String() string { return "[secret]" }

// GoString keeps it out of %#v.
func (secret) GoString() string { return "[secret]" }

// equal compares a text with the secret in a time that depends on neither.
func (s secret) equal(text string) int {
	a, b := sha256.Sum256(s.text), sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(a[:], b[:])
}

// lookUp reads a secret from where the settings say it is: env:NAME or file:PATH.
// The newline at the end of a file made by hand is no part of it.
func (e Env) lookUp(ref string) ([]byte, error) {
	kind, rest, _ := strings.Cut(ref, ":")
	switch kind {
	case "env":
		text := strings.TrimRight(e.Getenv(rest), "\r\n")
		if text == "" {
			return nil, fmt.Errorf("the variable %s is empty or not set", rest)
		}
		return []byte(text), nil
	case "file":
		raw, err := e.ReadFile(rest)
		if err != nil {
			return nil, err
		}
		text := strings.TrimRight(string(raw), "\r\n")
		if text == "" {
			return nil, fmt.Errorf("%s is empty", rest)
		}
		return []byte(text), nil
	}
	// The text itself is not shown: it may be a secret put into the wrong place.
	return nil, errors.New("a secret must be env:NAME or file:PATH; it is never in the settings file itself")
}

// Secret reads a secret from where the settings say it is.
func (e Env) Secret(ref string) ([]byte, error) { return e.lookUp(ref) }

// StandardKey is the key of a secret of Standard Webhooks, base64 behind whsec_.
func StandardKey(text []byte) ([]byte, error) {
	s, err := newSecret("standard", text, false)
	return s.key, err
}

// newSecret makes the key that a source signs with of a secret's text.
func newSecret(source string, text []byte, short bool) (secret, error) {
	s := secret{text: text, key: text}
	if len(text) == 0 {
		return secret{}, errors.New("is empty")
	}
	if source == "standard" || (source == "gitlab" && strings.HasPrefix(string(text), "whsec_")) {
		if strings.HasPrefix(string(text), "v1,") {
			return secret{}, errors.New("begins with v1, which is no part of it")
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(text), "whsec_"))
		if err != nil {
			return secret{}, errors.New("must be base64 behind whsec_")
		}
		s.key = key
	}
	if len(s.key) < minSecret && !short {
		return secret{}, fmt.Errorf("is shorter than %d bytes; make a longer one, or say short_secrets: true", minSecret)
	}
	if len(s.key) == 0 {
		return secret{}, errors.New("is empty")
	}
	return s, nil
}
