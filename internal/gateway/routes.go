package gateway

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/console"
	"github.com/patchbay-ai/patchbay/docs"
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/serve/web/monitor"
	"github.com/patchbay-ai/patchbay/internal/serve/web/openapi"
	"github.com/patchbay-ai/patchbay/internal/serve/web/pages"
	"github.com/patchbay-ai/patchbay/internal/serve/web/peers"
	v1 "github.com/patchbay-ai/patchbay/internal/serve/web/v1"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// surfaces are the parts that answer requests.
type surfaces struct {
	unified *v1.API
	wings   []*wing.Wing
	manage  *manage.API
	ops     *actuator.API
	docs    *openapi.Pages
	monitor *monitor.API
	pages   *pages.Pages
	peers   *peers.API
}

// routes is everything that the gateway answers, the most important first. The entries
// are beside the handlers: in internal/serve/web/v1, socket, batching, manage, monitor,
// peers, actuator, openapi and pages. more are routes beside these.
func (s surfaces) routes(more []web.Route) []web.Route {
	routes, managed := s.unified.Routes(), s.manage.Routes()
	for _, w := range s.wings {
		for _, route := range w.Routes() {
			if route.Handler == nil {
				managed = append(managed, route)
			} else {
				routes = append(routes, route)
			}
		}
	}
	routes = slices.Concat(routes, managed, s.monitor.Routes(), s.peers.Routes(),
		s.ops.Routes(), s.docs.Routes(), s.pages.Routes(), more)
	return s.manage.Complete(routes)
}

// newRouter puts the routes behind the gate.
func newRouter(routes []web.Route, gate *web.Gate, missing http.HandlerFunc) *web.Router {
	r := web.NewRouter(missing, wrongMethod)
	for _, route := range routes {
		handle := r.Handle
		if strings.HasPrefix(route.Pattern, "GET /api/config/type/{serviceType}/") {
			handle = r.HandleRest // its pattern overlaps with another route's
		}
		pattern := route.Pattern
		if strings.HasSuffix(pattern, " /") {
			pattern += "{$}" // this path alone, not all that begin with it
		}
		handle(pattern, gate.Guard(route))
	}
	return r
}

// The functions below answer requests without a route, in the error format of the surface
// that the path belongs to.

func notFound(w http.ResponseWriter, r *http.Request) {
	switch {
	case monitor.Owns(r.URL.Path):
		monitor.NotFound(w, r)
	case isManagement(r):
		manage.NotFound(w, r)
	case isActuator(r):
		actuator.NotFound(w, r)
	default:
		v1.NotFound(w, r)
	}
}

// missing answers in place of notFound on ports with the console, which people visit.
func (g *Gateway) missing(w http.ResponseWriter, r *http.Request) {
	if isManagement(r) || isActuator(r) || isUnder(r, "/v1") || isUnder(r, "/assets") {
		notFound(w, r)
		return
	}
	g.pages.Missing(w, r)
}

func wrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	switch {
	case monitor.Owns(r.URL.Path):
		monitor.WrongMethod(w, r, allow)
	case isManagement(r):
		manage.WrongMethod(w, r, allow)
	case isActuator(r):
		actuator.WrongMethod(w, r, allow)
	default:
		v1.WrongMethod(w, r, allow)
	}
}

func fail(w http.ResponseWriter, r *http.Request, err *schema.Error) {
	switch {
	case isManagement(r):
		manage.Fail(w, err)
	case isActuator(r):
		actuator.Fail(w, r, err)
	default:
		v1.Fail(w, r, err)
	}
}

// notReady answers a request of the unified API that comes before the gateway has read
// its credentials.
func notReady(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// The body is not read, so nothing can follow it on this connection.
		w.Header().Set("Connection", "close")
	}
	known := schema.NewError(schema.CodeServiceUnavailable, web.NotReady())
	known.RetryAfter = time.Second
	v1.Fail(w, r, known)
}

func isManagement(r *http.Request) bool { return isUnder(r, "/api") }

func isActuator(r *http.Request) bool { return isUnder(r, "/actuator") }

// isUnder reports whether the path of a request is root or begins with it.
func isUnder(r *http.Request, root string) bool {
	rest, begins := strings.CutPrefix(r.URL.Path, root)
	return begins && (rest == "" || rest[0] == '/')
}

// newPages returns the pages of the console and of the documentation.
func (g *Gateway) newPages() (*pages.Pages, error) {
	files, err := console.Files()
	if err != nil {
		return nil, fmt.Errorf("the console: %w", err)
	}
	documentation, err := docs.Served()
	if err != nil {
		return nil, fmt.Errorf("the documentation: %w", err)
	}
	return pages.New(files, documentation, g.build.Version, v1.NotFound)
}

// describe lists the routes and describes them in the OpenAPI document.
func (g *Gateway) describe(s surfaces) {
	g.Routes = s.routes(g.more)
	s.docs.Describe(g.build.Version, g.Routes)
}

// sessions are the functions of the wings that find the holder of a session.
func (g *Gateway) sessions() (found []func(string, time.Time) (access.Identity, bool, error)) {
	for _, w := range g.wings {
		if w.Session != nil {
			found = append(found, w.Session)
		}
	}
	return found
}

// newRouterOf puts the routes of a port behind a gate of its own, because the gate's
// rules depend on the port.
func (g *Gateway) newRouterOf(port *Port) *web.Router {
	settings := g.Document.Security
	hosts := settings.AllowedHosts
	if host, _, err := net.SplitHostPort(port.Address); err == nil {
		hosts = append([]string{host}, hosts...)
	}
	gate := web.NewGate(web.GateOptions{
		Roster:         g.Credentials.Roster,
		Sessions:       g.sessions(),
		PublicURL:      web.PublicURL(g.Document.Server.PublicURL),
		Kept:           g.Sessions,
		Attempts:       g.attempts,
		SignIns:        g.SignIns,
		Ready:          g.readiness(),
		NotReady:       notReady,
		AllowOpen:      settings.AllowOpen,
		Loopback:       listen.IsLoopback(port.Address),
		Hosts:          hosts,
		Origins:        g.Document.Server.CORSOrigins,
		KeysNeeded:     g.Keys.Needed,
		Fail:           v1.Fail,
		TrustedProxies: g.Document.Server.TrustedProxies,
		Version:        g.Control.Version,
		Trail:          g.trail(),
		Log:            g.log,
	})
	missing := notFound
	if port.serves == everything || port.serves == onlyManagement {
		missing = g.missing
	}
	return newRouter(port.serves.of(g.Routes), gate, missing)
}
