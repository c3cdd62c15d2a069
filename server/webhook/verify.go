package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Why a delivery is not taken. The words say nothing that was worked out from a
// secret.
var (
	ErrMissing   = errors.New("webhook: the signature is missing")
	ErrMismatch  = errors.New("webhook: the signature is not right")
	ErrTimestamp = errors.New("webhook: the time that was signed is too far from now")
)

// maxSignatures bounds how many signatures of one header are looked at.
const maxSignatures = 16

// signed is one delivery as its signature is checked.
type signed struct {
	header http.Header
	body   []byte
	json   func() ([]byte, error) // the JSON text, which a form has in a field
}

// claim is what a header claims: signatures over parts, by a hash.
type claim struct {
	sums  [][]byte // decoded; any of them may be the right one
	parts [][]byte
	hash  func() hash.Hash
	at    time.Time // that was signed; zero: none was
}

// match finds the secret that made one of the sums: all are tried, whichever fits.
func (c *claim) match(secrets []secret) int {
	found := -1
	for i := len(secrets) - 1; i >= 0; i-- {
		mac := hmac.New(c.hash, secrets[i].key)
		for _, p := range c.parts {
			_, _ = mac.Write(p) // a hash takes everything
		}
		want := mac.Sum(nil)
		hit := 0
		for _, sum := range c.sums {
			if hmac.Equal(sum, want) {
				hit = 1
			}
		}
		if hit == 1 {
			found = i
		}
	}
	return found
}

// verify checks a claim: first the signature, then the time in it, so that only
// who knows a secret learns anything of the clock.
func (c *claim) verify(secrets []secret, now time.Time, tolerance time.Duration) (int, error) {
	i := c.match(secrets)
	if i < 0 {
		return -1, ErrMismatch
	}
	if c.at.IsZero() {
		return i, nil
	}
	if away := now.Sub(c.at).Abs(); away > tolerance {
		return -1, ErrTimestamp
	}
	return i, nil
}

// encodings of a signature.
var encodings = map[string]func(string) ([]byte, error){
	"hex":    hex.DecodeString, // either case
	"base64": base64.StdEncoding.DecodeString,
}

// hashes of a signature.
var hashes = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// sumOf decodes one signature behind its prefix. What cannot be decoded is no
// signature, and fits nothing.
func sumOf(text, prefix, encoding string) ([]byte, error) {
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, ErrMismatch
	}
	sum, err := encodings[encoding](rest)
	if err != nil || len(sum) == 0 {
		return nil, ErrMismatch
	}
	return sum, nil
}

// overBody is the common form: a header, a prefix, hex, over the bytes as they came.
func overBody(header, prefix string) func(*signed) (*claim, error) {
	return func(d *signed) (*claim, error) { return simple(d, header, prefix, sha256.New, d.body) }
}

func simple(d *signed, header, prefix string, h func() hash.Hash, over []byte) (*claim, error) {
	text := d.header.Get(header)
	if text == "" {
		return nil, ErrMissing
	}
	sum, err := sumOf(text, prefix, "hex")
	if err != nil {
		return nil, err
	}
	return &claim{sums: [][]byte{sum}, parts: [][]byte{over}, hash: h}, nil
}

// overJSON is Gitea's form: over the JSON text, also when a form carries it.
func overJSON(headers ...string) func(*signed) (*claim, error) {
	return func(d *signed) (*claim, error) {
		for _, h := range headers {
			if d.header.Get(h) == "" {
				continue
			}
			text, err := d.json()
			if err != nil {
				return nil, ErrMismatch
			}
			return simple(d, h, "", sha256.New, text)
		}
		return nil, ErrMissing
	}
}

// standardClaim is the form of Standard Webhooks; svix names its headers otherwise.
func standardClaim(d *signed) (*claim, error) {
	prefix := "webhook-"
	if d.header.Get(prefix+"signature") == "" {
		prefix = "svix-"
	}
	id, stamp := d.header.Get(prefix+"id"), d.header.Get(prefix+"timestamp")
	var sums [][]byte
	for i, text := range strings.Fields(d.header.Get(prefix + "signature")) {
		if i == maxSignatures {
			break
		}
		if rest, ok := strings.CutPrefix(text, "v1,"); ok {
			if sum, err := base64.StdEncoding.DecodeString(rest); err == nil {
				sums = append(sums, sum)
			}
		}
	}
	if len(sums) == 0 || id == "" {
		return nil, ErrMissing
	}
	return timed(sums, stamp, [][]byte{[]byte(id), dot, []byte(stamp), dot, d.body})
}

var dot = []byte(".")

// stripeClaim reads t=…,v1=…,v1=….
func stripeClaim(d *signed) (*claim, error) {
	stamp := ""
	var sums [][]byte
	for i, item := range strings.Split(d.header.Get("Stripe-Signature"), ",") {
		if i == maxSignatures {
			break
		}
		name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
		switch name {
		case "t":
			stamp = value
		case "v1":
			if sum, err := hex.DecodeString(value); err == nil {
				sums = append(sums, sum)
			}
		}
	}
	if len(sums) == 0 {
		return nil, ErrMissing
	}
	return timed(sums, stamp, [][]byte{[]byte(stamp), dot, d.body})
}

// slackClaim is over v0:TIME:BODY.
func slackClaim(d *signed) (*claim, error) {
	stamp, text := d.header.Get("X-Slack-Request-Timestamp"), d.header.Get("X-Slack-Signature")
	if text == "" {
		return nil, ErrMissing
	}
	sum, err := sumOf(text, "v0=", "hex")
	if err != nil {
		return nil, err
	}
	return timed([][]byte{sum}, stamp, [][]byte{[]byte("v0:"), []byte(stamp), []byte(":"), d.body})
}

// timed is a claim whose time was signed, in seconds.
func timed(sums [][]byte, stamp string, parts [][]byte) (*claim, error) {
	at, err := seconds(stamp)
	if err != nil {
		return nil, err
	}
	return &claim{sums: sums, parts: parts, hash: sha256.New, at: at}, nil
}

func seconds(stamp string) (time.Time, error) {
	if stamp == "" {
		return time.Time{}, ErrMissing
	}
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || n <= 0 || n > 1<<40 {
		return time.Time{}, ErrTimestamp
	}
	return time.Unix(n, 0), nil
}
