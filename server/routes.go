package server

import (
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"pushd/ackstore"
)

// route is one line of the table: who may call what, with which parameters.
type route struct {
	method, path string
	power        power
	query        []string
	handle       func(*call) error
}

var (
	seatParams = []string{"machine_id", "max_in_flight", "instance_id", "orphan_timeout_s"}
	listParams = []string{"state", "machine_id", "session_id", "replay_id", "type", "label", "limit", "cursor"}
	pageParams = []string{"limit", "cursor"}
	waitParams = []string{"wait_s"}
	pollParams = append([]string{"wait_s"}, seatParams...)

	statsParams = []string{"step_s", "machine_id"}
	fleetParams = []string{"q", "state", "has", "sort", "offset", "limit"}
)

// routes is every route there is; openapi.yaml describes the same.
func (s *Server) routes() []route {
	get, post, patch, del, head := http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete, http.MethodHead
	all := []route{
		{post, "/v1/actions", mayPush, nil, (*call).push},
		{get, "/v1/actions", mayRead, listParams, (*call).listActions},
		{get, "/v1/actions/:id", mayRead, waitParams, (*call).getAction},
		{post, "/v1/actions/:id/cancel", mayOperate, nil, (*call).cancelAction},
		{post, "/v1/actions/:id/redrive", mayOperate, nil, (*call).redriveAction},
		{post, "/v1/actions/:id/resolve", mayOperate, nil, (*call).resolveAction},
		{post, "/v1/cancel", mayOperate, nil, (*call).cancelAll},
		{post, "/v1/redrive", mayOperate, nil, (*call).redriveAll},

		{get, eventsRoute, mayAgent, seatParams, (*call).events},
		{get, "/next", mayAgent, pollParams, (*call).next},
		{post, "/next", mayAgent, pollParams, (*call).next},
		{post, "/acks", mayAgent, nil, (*call).acks},

		{get, "/v1/machines", mayRead, pageParams, (*call).listMachines},
		{get, "/v1/machines/:id", mayRead, nil, (*call).getMachine},
		{patch, "/v1/machines/:id", mayCredit, nil, (*call).setCredit},
		{del, "/v1/machines/:id", mayOperate, nil, (*call).dropMachine},
		{post, "/v1/machines/:id/beat", mayAgent, nil, (*call).beat},
		{post, "/v1/machines/:id/pause", mayOperate, nil, (*call).pauseMachine},
		{post, "/v1/machines/:id/resume", mayOperate, nil, (*call).resumeMachine},
		{post, "/v1/breakers/close", mayOperate, nil, (*call).closeBreaker},

		{get, "/queue", mayRead, nil, (*call).showQueue},
		{get, "/v1/watchdog/metrics", mayRead, nil, (*call).showWatchdog},
		{get, "/v1/feed", mayRead, nil, (*call).openFeed},
		{get, "/v1/stats", mayRead, statsParams, (*call).showStats},
		{get, "/v1/fleet", mayRead, fleetParams, (*call).showFleet},
		{get, "/v1/dead", mayRead, nil, (*call).showDead},
		{get, "/metrics", mayRead, nil, (*call).showMetrics},
		{get, "/v1/backup", mayAdmin, nil, (*call).backup},

		{post, "/v1/tokens", mayAdmin, nil, (*call).createToken},
		{get, "/v1/tokens", mayAdmin, nil, (*call).listTokens},
		{del, "/v1/tokens/:id", mayAdmin, nil, (*call).dropToken},
		{get, "/v1/session", public, nil, (*call).showSession},
		{post, "/v1/session", public, nil, (*call).beginSession},
		{del, "/v1/session", public, nil, (*call).endSession},

		{get, "/healthz", public, nil, (*call).health},
		{head, "/healthz", public, nil, (*call).health},
		{get, "/readyz", public, nil, (*call).ready},
		{head, "/readyz", public, nil, (*call).ready},
		{get, "/openapi.yaml", public, nil, (*call).describe},
		{get, "/install.sh", public, nil, installSh},
		{get, "/install.ps1", public, nil, installPs1},
		{get, "/download/:name", public, nil, (*call).download},
	}
	all = append(all, webhookRoutes()...)
	all = append(all, labelRoutes("sessions", ackstore.OfSession)...)
	return append(all, labelRoutes("replays", ackstore.OfReplay)...)
}

// labelRoutes are those that sessions and replays have alike.
func labelRoutes(name string, scope ackstore.Scope) []route {
	of := func(handle func(*call, ackstore.Scope) error) func(*call) error {
		return func(c *call) error { return handle(c, scope) }
	}
	list := "/v1/" + name
	return []route{
		{http.MethodGet, list, mayRead, pageParams, of((*call).listLabels)},
		{http.MethodGet, list + "/:id", mayRead, nil, of((*call).getLabel)},
		{http.MethodPost, list + "/:id/pause", mayOperate, nil, of((*call).pauseLabel)},
		{http.MethodPost, list + "/:id/resume", mayOperate, nil, of((*call).resumeLabel)},
		{http.MethodPost, list + "/:id/cancel", mayOperate, nil, of((*call).cancelLabel)},
	}
}

// router puts the table into echo, which finds the route and its id.
func (s *Server) router() *echo.Echo {
	e := echo.New()
	e.HTTPErrorHandler = func(err error, ec echo.Context) {
		s.writeProblem(ec.Response().Writer.(*meter), ec.Request(), judge(err))
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(ec echo.Context) error {
			if err := s.guard(ec.Request()); err != nil {
				return err
			}
			// For what is none of the table: pages, and paths that are not there.
			_ = http.NewResponseController(ec.Response().Writer).SetWriteDeadline(time.Now().Add(answerTimeout))
			return next(ec)
		}
	})
	for _, rt := range s.routes() {
		e.Add(rt.method, rt.path, s.adapt(rt))
	}
	addDashboard(e)
	return e
}

// adapt makes an echo handler of a route, in the order of protocol section 3:
// who asks, what that caller may, and only then whether the request makes sense.
func (s *Server) adapt(rt route) echo.HandlerFunc {
	return func(ec echo.Context) error {
		c := &call{Server: s, w: ec.Response().Writer, r: ec.Request(), echo: ec, who: &caller{}, visit: visitOf(ec.Request())}
		c.visit.route = rt.path
		_ = http.NewResponseController(c.w).SetWriteDeadline(time.Time{}) // each answer sets its own
		if rt.power != public {
			who, err := s.identify(c.r)
			if err != nil {
				return err
			}
			c.who = who
		}
		if !c.who.may(rt.power) {
			return refuse(forbidden, "the token lacks the scope for this: %s", scopeFor(rt.power))
		}
		machine := c.r.URL.Query().Get("machine_id")
		if machine != "" && slices.Contains(rt.query, "machine_id") && !c.who.over(rt.power, machine) {
			return outOfReach(machine)
		}
		query, err := parseQuery(c.r.URL.RawQuery, rt.query)
		if err != nil {
			return err
		}
		c.query = query
		return rt.handle(c)
	}
}

func scopeFor(p power) string {
	for name, power := range powerNames {
		if power == p {
			return name
		}
	}
	return "agent or operate"
}
