package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"pushd/server/api"
)

// way is the way to a running server, as an agent takes it.
type way struct {
	*doctor
	c      *api.Client
	host   string
	server string // what the nearest proxy calls itself
}

// remote checks the way to the server at base.
func (d *doctor) remote(ctx context.Context, base string, hold time.Duration) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	token, err := d.token()
	if err != nil {
		d.note(isWrong, "token", "%v", err)
		return
	}
	transport, err := d.transport()
	if err != nil {
		d.note(isWrong, "trust", "%v", err)
		return
	}
	transport.DisableCompression = true // we ask for it ourselves, to see it
	transport.ResponseHeaderTimeout = headersMost
	defer transport.CloseIdleConnections()
	w := &way{doctor: d, host: doctorName(), c: &api.Client{Base: base, Token: token}}
	w.c.HTTP = &http.Client{Transport: &greedy{transport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if !w.reach(ctx) {
		return
	}
	w.clock(ctx)
	w.bodySize(ctx)
	w.streams(ctx, hold)
}

// headersMost is how long an answer may take to begin; a long poll is less.
const headersMost = 30 * time.Second

// greedy asks for what a browser would ask for: compression.
type greedy struct{ next http.RoundTripper }

// RoundTrip serves http.Client.
func (g *greedy) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Header.Get("Accept-Encoding") == "" && strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream") {
		r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	}
	return g.next.RoundTrip(r)
}

var notInID = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

func doctorName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "nameless"
	}
	name := "doctor-" + notInID.ReplaceAllString(host, "-")
	return name[:min(len(name), 100)]
}

// reach asks whether a pushd is there at all, and who stands in front.
func (w *way) reach(ctx context.Context) (there bool) {
	bounded(ctx, 10*time.Second, func(ctx context.Context) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(w.c.Base, "/")+"/readyz", nil)
		if err != nil {
			w.note(isWrong, "reach", "%v", err)
			return
		}
		resp, err := w.c.HTTP.Do(req)
		if err != nil {
			w.unreachable(err)
			return
		}
		defer resp.Body.Close()
		there = w.judgeReadiness(resp)
	})
	return there
}

func (w *way) unreachable(err error) {
	var authority x509.UnknownAuthorityError
	var certificate *tls.CertificateVerificationError
	w.note(isWrong, "reach", "%v", err)
	switch {
	case errors.As(err, &authority):
		w.cure("trust the certificate's authority: --ca FILE (PUSHD_CA), or the system's store")
	case errors.As(err, &certificate):
		w.cure("the certificate must be for the name in the address, and valid now")
	default:
		w.cure("is the server, and the proxy, running? is the port open in the firewall?")
	}
}

func (w *way) judgeReadiness(resp *http.Response) bool {
	w.server = resp.Header.Get("Server")
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var answer struct{ Status, Version, Detail string }
	ours := json.Unmarshal(raw, &answer) == nil
	front := ""
	if w.server != "" {
		front = ", through " + w.server
	}
	switch {
	case resp.StatusCode == http.StatusOK && ours && answer.Status == "ready":
		w.note(isFine, "reach", "pushd %s answers over %s%s", answer.Version, resp.Proto, front)
		return true
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		w.note(isWrong, "reach", "%s leads elsewhere: a push would lose its body on the way", w.c.Base)
		w.cure("use the address it leads to: " + resp.Header.Get("Location"))
	case resp.StatusCode == http.StatusMisdirectedRequest:
		w.note(isWrong, "reach", "the server has no token, and so answers nobody behind a proxy")
		w.cure("pushctl token create --name NAME --scope admin, on the server's machine")
	case resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusGatewayTimeout:
		w.note(isWrong, "reach", "the proxy%s does not reach the server (%d)", front, resp.StatusCode)
		w.cure("is pushd running where the proxy looks for it?")
	case resp.StatusCode == http.StatusServiceUnavailable && answer.Detail != "":
		w.note(isWrong, "reach", "the server is there, and not ready: %s", answer.Detail)
	default:
		w.note(isWrong, "reach", "%d from %s is no answer of pushd%s", resp.StatusCode, w.c.Base, front)
		w.cure("a path in the address must lead to the server's root: nginx: location /pushd/ { proxy_pass http://127.0.0.1:8080/; }")
	}
	return false
}

// clock compares the server's clock with ours, half the way there and back.
func (w *way) clock(ctx context.Context) {
	bounded(ctx, 10*time.Second, func(ctx context.Context) {
		begun := time.Now()
		q, err := w.c.Queue(ctx)
		took := time.Since(begun)
		if err != nil {
			w.refused("clock", "reads", err)
			return
		}
		ahead := q.ServerTime.Sub(begun.Add(took / 2)).Round(time.Millisecond)
		level := isFine
		if ahead.Abs() > 2*time.Second+took {
			level = isOdd
		}
		w.note(level, "clock", "the server's clock and this machine's are %s apart (answer in %s)", ahead.Abs(), took.Round(time.Millisecond))
		if level != isFine {
			w.cure("let NTP set both: available_at, expires_at and signatures of webhooks are times")
		}
	})
}

// refused says that a check could not be made.
func (w *way) refused(check, what string, err error) {
	switch {
	case api.IsStatus(err, http.StatusUnauthorized) && w.c.Token == "":
		w.note(isSkipped, check, "it %s, which takes a token", what)
		w.cure("--token-file, or PUSHD_TOKEN")
	case api.IsStatus(err, http.StatusUnauthorized):
		w.note(isWrong, check, "the token is refused; or a proxy does not pass Authorization on")
	case api.IsStatus(err, http.StatusForbidden):
		w.note(isSkipped, check, "it %s, and the token may not", what)
		w.cure("a token of scope admin, or of push:doctor-*, agent:doctor-* and read")
	default:
		w.note(isWrong, check, "%v", err)
	}
}

// bodySize sends a large body that means nothing: pushd itself must refuse it.
func (w *way) bodySize(ctx context.Context) {
	const size = 2 << 20
	bounded(ctx, 30*time.Second, func(ctx context.Context) {
		body := append([]byte("["), bytes.Repeat([]byte(" "), size)...) // never ends: malformed
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(w.c.Base, "/")+"/v1/actions", bytes.NewReader(body))
		if err != nil {
			w.note(isWrong, "body_size", "%v", err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		if w.c.Token != "" {
			req.Header.Set("Authorization", "Bearer "+w.c.Token)
		}
		resp, err := w.c.HTTP.Do(req)
		if err != nil {
			var wire *url.Error
			if errors.As(err, &wire) {
				err = wire.Err
			}
			w.note(isOdd, "body_size", "a body of %s was cut off: %v", sizeText(size), err)
			w.cureFor("body_size", w.server)
			return
		}
		defer resp.Body.Close()
		switch ours := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json"); {
		case ours && (resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden):
			w.note(isSkipped, "body_size", "it takes a token that may push")
		case ours:
			w.note(isFine, "body_size", "a body of %s comes through", sizeText(size))
		default:
			w.note(isWrong, "body_size", "a body of %s is refused on the way (%d), though the server takes it", sizeText(size), resp.StatusCode)
			w.cureFor("body_size", firstOf(resp.Header.Get("Server"), w.server))
		}
	})
}

// secondsText is a duration as a finding tells it.
func secondsText(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}
