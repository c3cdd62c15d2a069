package server

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"pushd/server/api"
	"pushd/web"
)

// addDashboard serves the dashboard's page and its files. They hold no data and
// need no token: what the page shows it asks for under its own cookie.
func addDashboard(e *echo.Echo) {
	files := echo.WrapHandler(web.Handler())
	for _, path := range []string{"/", "/ui", "/ui/*", "/assets/*", "/favicon.ico"} {
		e.GET(path, files)
		e.HEAD(path, files)
	}
}

// sessionAnswer tells a page who its reader is.
type sessionAnswer struct {
	SignedIn   bool     `json:"signed_in"` // or an open server, where nobody has to
	Open       bool     `json:"open"`
	Name       string   `json:"name,omitempty"` // of the token
	Can        []string `json:"can"`            // read, push, operate, admin: if only over some machines
	Partly     bool     `json:"partly"`         // lists show only machines of the token's pattern
	Version    string   `json:"version,omitempty"`
	ServerTime api.Time `json:"server_time"`
}

// showSession is GET /v1/session. It answers 200 to everybody: that a reader has to
// sign in is what it is there to say.
func (c *call) showSession() error {
	a := sessionAnswer{Can: []string{}, ServerTime: api.At(c.store.Now())}
	who, err := c.identify(c.r)
	if err != nil {
		return c.answer(http.StatusOK, a)
	}
	a.SignedIn, a.Open, a.Name, a.Version = true, who.open, who.name, c.cfg.Version
	for _, p := range []struct {
		name  string
		power power
	}{{"read", mayRead}, {"push", mayPush}, {"operate", mayOperate}, {"admin", mayAdmin}} {
		if who.may(p.power) {
			a.Can = append(a.Can, p.name)
		}
	}
	a.Partly = who.may(mayRead) && who.reach(mayRead) != nil
	return c.answer(http.StatusOK, a)
}
