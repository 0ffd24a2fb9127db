package gateway

import (
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/front"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// newFront returns the server that stands before net/http and serves the unified
// API.
func (g *Gateway) newFront() *front.Server {
	served := frontPaths(g.Routes)
	return front.New(front.Options{
		HTTP:   g.Server,
		Wrap:   func(l net.Listener) net.Listener { return web.Listener{Listener: l} },
		Serves: func(method, path string) bool { return method == http.MethodPost && served[path] },
		Refuse: refuse,
		Log:    g.log,
	})
}

// frontPaths returns the paths of the unified API to which requests are posted.
func frontPaths(routes []web.Route) map[string]bool {
	paths := make(map[string]bool)
	for _, route := range routes {
		if path, posted := strings.CutPrefix(route.Pattern, "POST "); posted && route.Permission == access.ByKey && !strings.Contains(path, "{") {
			paths[path] = true
		}
	}
	return paths
}

// refuse is the reply to a request that the front refuses.
func refuse(r front.Refusal) []byte {
	status := strconv.Itoa(r.Status) + " " + http.StatusText(r.Status)
	code, message := schema.CodeInvalidHTTP, r.Message
	if r.Framing {
		code = schema.CodeInvalidBody
	}
	if message == "" {
		message = "The request is not valid HTTP (" + status + ")."
	}
	return web.RefusalOf(status, schema.NewError(code, message))
}
