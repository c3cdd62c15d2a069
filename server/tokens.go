package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"pushd/ackstore"
	"pushd/server/api"
)

const maxScopes = 32

// createToken is POST /v1/tokens. Its answer is the only one that shows the text.
func (c *call) createToken() error {
	f := &faults{}
	o, err := c.object([]string{"name", "scopes", "expires_at"}, f)
	if err != nil {
		return err
	}
	o.require("name")
	o.require("scopes")
	name := o.short("name", 128)
	if o.has("name") && name == "" {
		o.fault("name", "must not be empty")
	}
	scopes := o.scopes()
	expires := o.instant("expires_at")
	now := c.store.Now()
	if !expires.IsZero() && !expires.After(now) {
		o.fault("expires_at", "is past")
	}
	if err := f.err(); err != nil {
		return err
	}
	token, text, err := NewToken(name, scopes, expires, now, c.cfg.Rand)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(c.r.Context())
	if err := c.changeTokens(ctx, func() error { return c.store.PutToken(ctx, token) }); err != nil {
		return err
	}
	shown := tokenOf(token)
	shown.Text = text
	return c.answer(http.StatusCreated, shown)
}

func (o *object) scopes() []string {
	value, ok := o.kind("scopes", "an array")
	if !ok {
		return nil
	}
	all := elements(value)
	if len(all) == 0 || len(all) > maxScopes {
		o.fault("scopes", "has %d scopes, 1 to %d are taken", len(all), maxScopes)
		return nil
	}
	var scopes []string
	for i, element := range all {
		at := fmt.Sprintf("scopes[%d]", i)
		if is := jsonKind(element); is != "a string" {
			o.fault(at, "must be a string, is %s", is)
			continue
		}
		scope := unquote(element)
		if _, wrong := parseScope(scope); wrong != "" {
			o.fault(at, "%s, is %s", wrong, quote(scope))
		}
		scopes = append(scopes, scope)
	}
	return scopes
}

// listTokens is GET /v1/tokens.
func (c *call) listTokens() error {
	tokens, err := c.store.Tokens(c.r.Context())
	if err != nil {
		return err
	}
	slices.SortFunc(tokens, func(a, b ackstore.Token) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	page := api.List[api.Token]{Items: make([]api.Token, len(tokens))}
	for i, t := range tokens {
		if used := c.keys.lastUse(t.ID); used.After(t.LastUsedAt) {
			t.LastUsedAt = used
		}
		page.Items[i] = tokenOf(t)
	}
	return c.answer(http.StatusOK, page)
}

// dropToken is DELETE /v1/tokens/ID; what is open under it ends.
func (c *call) dropToken() error {
	id := c.echo.Param("id")
	ctx := context.WithoutCancel(c.r.Context())
	if err := c.changeTokens(ctx, func() error { return c.store.DropToken(ctx, id) }); err != nil {
		return nameUnknown(err, "token", id)
	}
	return c.nothing()
}

// changeTokens changes the store's tokens and then what the server knows of them,
// one change at a time so that the last one read is the last one written.
func (c *call) changeTokens(ctx context.Context, change func() error) error {
	c.tokens.Lock()
	defer c.tokens.Unlock()
	if err := change(); err != nil {
		return err
	}
	return c.keys.load(ctx, c.store)
}

func tokenOf(t ackstore.Token) api.Token {
	return api.Token{ID: t.ID, Name: t.Name, Scopes: t.Scopes, CreatedAt: api.At(t.CreatedAt), ExpiresAt: api.At(t.ExpiresAt), LastUsedAt: api.At(t.LastUsedAt)}
}

// beginSession is POST /v1/session: a token for a cookie. A session that the browser
// had ends, and its feeds with it.
func (c *call) beginSession() error {
	f := &faults{}
	o, err := c.object([]string{"token"}, f)
	if err != nil {
		return err
	}
	o.require("token")
	text, _ := o.text("token")
	if err := f.err(); err != nil {
		return err
	}
	who, ok := c.keys.bearer(text)
	if !ok {
		return c.badToken(c.r)
	}
	cookie, err := c.sessions.begin(c.r, who.tokenID)
	if err != nil {
		return err
	}
	c.feed.closeSession(keyOf(c.r))
	if err := c.sessions.save(); err != nil { // who comes to look after a full disk is let in
		c.cfg.Logger.Warn().Err(err).Msg("a session is not on disk: a restart ends it")
	}
	http.SetCookie(c.w, cookie)
	return c.nothing()
}

// endSession is DELETE /v1/session; the feeds that are open under it end.
func (c *call) endSession() error {
	http.SetCookie(c.w, c.sessions.end(c.r))
	c.feed.closeSession(keyOf(c.r))
	if err := c.sessions.save(); err != nil {
		r := refuse(unavailable, "the session has ended, but that is not on disk yet: a restart would bring it back")
		r.cause = err
		return r
	}
	return c.nothing()
}
