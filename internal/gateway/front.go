package gateway

import (
	"cmp"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/front"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// newFront returns the server that stands before net/http and serves the unified
// API, unless net/http is to serve everything.
func (g *Gateway) newFront(server *http.Server, netHTTP bool) *front.Server {
	options := front.Options{
		HTTP:   server,
		Wrap:   func(l net.Listener) net.Listener { return web.Listener{Listener: l} },
		Refuse: refuse,
		Log:    g.log,
	}
	if !netHTTP {
		options.Serves = unifiedPaths(g.Routes).serves
	}
	return front.New(options)
}

// paths are those of the unified API that have no parameters, with their methods.
// Clients ask for the models before they post, so that both must be served by the
// same server: a connection stays with net/http once it has it.
type paths map[string]string

func unifiedPaths(routes []web.Route) paths {
	p := make(paths)
	for _, route := range routes {
		if method, path, _ := strings.Cut(route.Pattern, " "); route.Permission == access.ByKey && !strings.Contains(path, "{") {
			p[path] = method
		}
	}
	return p
}

func (p paths) serves(method, path string) bool { return method == p[path] }

// refuse is the reply to a request that the front refuses.
func refuse(r front.Refusal) []byte {
	status := strconv.Itoa(r.Status) + " " + http.StatusText(r.Status)
	r.Message = cmp.Or(r.Message, "The request is not valid HTTP ("+status+").")
	return web.RefusalOf(status, web.ErrorOf(r))
}
