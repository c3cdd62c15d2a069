package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"pushd/server/webhook"
)

// sendTimeout bounds one try: Standard Webhooks asks for 15 to 30 s.
const sendTimeout = 20 * time.Second

// errGone: the receiver wants no more (410).
var errGone = errors.New("alert: the receiver wants no more messages")

// laterError says when to come again.
type laterError struct {
	after time.Duration
	why   string
}

func (e *laterError) Error() string { return e.why }

// envelope is what a webhook is sent (Standard Webhooks).
type envelope struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      *Message  `json:"data"`
}

// send tells a receiver a message once. An error names no address and no secret.
func (r *Receiver) send(ctx context.Context, client *http.Client, id string, body []byte, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var m Message
	if err := json.Unmarshal(body, &m); err != nil {
		return fmt.Errorf("alert: a message that cannot be read: %w", err)
	}
	switch r.Kind {
	case "webhook":
		return r.sendWebhook(ctx, client, id, &m, now)
	case "slack":
		return post(ctx, client, r.url, map[string]any{"text": slackText.Replace(m.Title + "\n" + m.Text)}, nil)
	case "telegram":
		return post(ctx, client, r.url+"/bot"+r.token+"/sendMessage", map[string]any{
			"chat_id": r.chat, "text": clip(m.Title+"\n"+m.Text, 4096), "disable_web_page_preview": true,
		}, nil)
	}
	return r.run(ctx, &m, body)
}

// slackText keeps what stands in a label or a target from being read as a mention.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func (r *Receiver) sendWebhook(ctx context.Context, client *http.Client, id string, m *Message, now time.Time) error {
	kind := "alert.fired"
	if m.Count == 0 {
		kind = "alert.resolved"
	}
	return post(ctx, client, r.url, envelope{kind, m.At, m}, func(h http.Header, raw []byte) {
		stamp := strconv.FormatInt(now.Unix(), 10)
		h.Set("webhook-id", id)
		h.Set("webhook-timestamp", stamp)
		h.Set("webhook-signature", webhook.StandardSignature(r.key, id, stamp, raw))
	})
}

func post(ctx context.Context, client *http.Client, address string, body any, sign func(http.Header, []byte)) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(raw))
	if err != nil {
		return errors.New("alert: the address cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "pushd")
	if sign != nil {
		sign(req.Header, raw)
	}
	resp, err := client.Do(req)
	if err != nil {
		return bare(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	switch {
	case resp.StatusCode/100 == 2:
		return nil
	case resp.StatusCode == http.StatusGone:
		return errGone
	}
	why := "the receiver answered " + strconv.Itoa(resp.StatusCode)
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		return &laterError{min(time.Duration(seconds)*time.Second, 24*time.Hour), why}
	}
	return errors.New(why)
}

// bare takes the address, which may hold a token, out of a client's error.
func bare(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("the receiver did not answer in time")
	}
	return errors.New("the receiver cannot be reached")
}

// run starts a program, with the message on its standard input: never in its
// arguments, where all users of the machine could read it.
func (r *Receiver) run(ctx context.Context, m *Message, body []byte) error {
	cmd := exec.CommandContext(ctx, r.command[0], r.command[1:]...)
	cmd.Stdin = bytes.NewReader(body)
	cmd.Env = append(cmd.Environ(), "PUSHD_ALERT_TITLE="+clip(m.Title, 1000))
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the command: %w", err)
	}
	return nil
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && s[cut]&0xc0 == 0x80 {
		cut--
	}
	return s[:cut]
}

// newClient follows no redirect: to Standard Webhooks it is a failure, and it
// could lead a message elsewhere.
func newClient() *http.Client {
	return &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
