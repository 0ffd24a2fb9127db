package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// Router finds the handler of a request. The functions notFound and wrongMethod answer
// unknown paths, and methods that a path does not have, in the error format of the path's
// surface.
type Router struct {
	mux *http.ServeMux
	// rest has the routes with patterns that overlap with patterns of mux. They are tried
	// after mux, which would refuse them as conflicts.
	rest *http.ServeMux
	// literal has the paths of the routes without parameters, with their handlers.
	literal map[string][]methodHandler
	// named has the text before the names in patterns such as "/v1/models/{id...}", once
	// for each.
	named []string
	// verbs has the verbs that follow a name in a pattern.
	verbs       map[string]map[string]http.HandlerFunc
	notFound    func(w http.ResponseWriter, r *http.Request)
	wrongMethod func(w http.ResponseWriter, r *http.Request, allow string)
}

// methodHandler is the handler of a path for one method.
type methodHandler struct {
	method  string
	handler http.HandlerFunc
}

// NewRouter returns a Router without routes.
func NewRouter(notFound func(w http.ResponseWriter, r *http.Request),
	wrongMethod func(w http.ResponseWriter, r *http.Request, allow string)) *Router {
	router := &Router{mux: http.NewServeMux(), rest: http.NewServeMux(), literal: make(map[string][]methodHandler),
		verbs: make(map[string]map[string]http.HandlerFunc), notFound: notFound, wrongMethod: wrongMethod}
	router.mux.HandleFunc("/", router.unrouted)
	return router
}

// Handle adds a route, such as "GET /v1/models/{id...}". A verb may follow a name, as in
// "POST /v1beta/models/{model...}:countTokens".
func (router *Router) Handle(pattern string, handler http.HandlerFunc) {
	if at := strings.LastIndex(pattern, "...}:"); at >= 0 {
		router.handleVerb(pattern[:at+len("...}")], pattern[at+len("...}:"):], handler)
		return
	}
	if _, path, _ := strings.Cut(pattern, " "); strings.HasSuffix(path, "...}") {
		if before, _, _ := strings.Cut(path, "{"); !slices.Contains(router.named, before) {
			router.named = append(router.named, before)
		}
	}
	router.mux.HandleFunc(pattern, router.exceptLiteral(pattern, withOwnValues(pattern, handler)))
}

// handleVerb adds a route with a verb behind its name.
func (router *Router) handleVerb(pattern, verb string, handler http.HandlerFunc) {
	if known := router.verbs[pattern]; known != nil {
		known[verb] = handler
		return
	}
	verbs := map[string]http.HandlerFunc{verb: handler}
	router.verbs[pattern] = verbs
	_, name, _ := strings.Cut(pattern, "{")
	name = strings.TrimSuffix(name, "...}")
	router.Handle(pattern, func(w http.ResponseWriter, r *http.Request) {
		value, verb := cutVerb(r.PathValue(name))
		if verbs[verb] == nil || value == "" {
			router.unrouted(w, r)
			return
		}
		r.SetPathValue(name, value)
		verbs[verb](w, r)
	})
}

// cutVerb returns the name and the verb behind it, which is empty if there is none.
func cutVerb(text string) (name, verb string) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// withOwnValues makes the values of the parameters of a path texts of their own. As parts
// of the line of the request, a name that a handler keeps would keep that line, with its
// query, in memory.
func withOwnValues(pattern string, handler http.HandlerFunc) http.HandlerFunc {
	var names []string
	for rest := pattern; hasParameter(rest); {
		var name string
		_, rest, _ = strings.Cut(rest, "{")
		name, rest, _ = strings.Cut(rest, "}")
		if name = strings.TrimSuffix(name, "..."); name != "$" { // which has no value
			names = append(names, name)
		}
	}
	if names == nil {
		return handler
	}
	return func(w http.ResponseWriter, r *http.Request) {
		for _, name := range names {
			r.SetPathValue(name, strings.Clone(r.PathValue(name)))
		}
		handler(w, r)
	}
}

// exceptLiteral notes the path of a pattern without parameters. Such a path has only
// the methods of its own routes, so the handler of a pattern with parameters is not
// called for it: "DELETE /versions/{version}" does not delete "/versions/current".
func (router *Router) exceptLiteral(pattern string, handler http.HandlerFunc) http.HandlerFunc {
	if !hasParameter(pattern) {
		method, path, _ := strings.Cut(pattern, " ")
		router.literal[path] = append(router.literal[path], methodHandler{method, handler})
		return handler
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if router.literal[r.URL.Path] != nil {
			router.unrouted(w, r)
			return
		}
		handler(w, r)
	}
}

func hasParameter(pattern string) bool { return strings.Contains(pattern, "{") }

// HandleRest adds a route for requests that no route of Handle matches.
func (router *Router) HandleRest(pattern string, handler http.HandlerFunc) {
	router.rest.HandleFunc(pattern, withOwnValues(pattern, handler))
}

// ServeHTTP passes a request to its handler.
func (router *Router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, isNamed := router.clean(r)
	// Most requests have a path without parameters. mux would find its handler as well, but
	// later.
	own := router.literal[r.URL.Path]
	for _, known := range own {
		if known.method == r.Method && r.URL.RawPath == "" {
			known.handler(w, r)
			return
		}
	}
	if own != nil && r.Method != http.MethodHead { // which mux answers as GET
		router.unrouted(w, r) // mux would send "POST /models" on to "POST /models/{name...}"
		return
	}
	if !isNamed && hasDotSegment(r.URL.Path) {
		router.notFound(w, r) // a cleaned path would not be the checked path
		return
	}
	if r.Method == http.MethodConnect {
		router.refuseTunnel(w, r) // mux has its own answer to it
		return
	}
	router.mux.ServeHTTP(w, r)
}

// clean returns a request without superfluous slashes in its path. A redirect to the clean
// path would not do, because clients do not repeat the body of a POST. A name that ends
// the path, as in "/v1/models/{id...}", stays as it is, because the names of some models
// are paths of files: "/v1/models//srv/m.gguf" has the name "/srv/m.gguf". isNamed says
// that the path ends with such a name.
func (router *Router) clean(r *http.Request) (cleaned *http.Request, isNamed bool) {
	path := r.URL.Path
	if !strings.Contains(path, "//") && !strings.Contains(path, "/.") && (len(path) < 2 || path[len(path)-1] != '/') {
		return r, false
	}
	target := *r.URL
	target.Path, target.RawPath = CollapseSlashes(path), CollapseSlashes(r.URL.RawPath)
	for _, before := range router.named {
		if name, found := cutName(path, before); found {
			// Where its slashes are escaped, mux takes the name for one segment.
			target.Path, target.RawPath, isNamed = before+name, before+url.PathEscape(name), true
		}
	}
	changed := *r
	changed.URL = &target
	return &changed, isNamed
}

// cutName returns the name that follows a text such as "/v1/models/" in a path, and
// whether there is one. Only in front of the name the path may have more slashes.
func cutName(path, before string) (name string, found bool) {
	for segment := range strings.SplitSeq(strings.Trim(before, "/"), "/") {
		rest, has := strings.CutPrefix(strings.TrimLeft(path, "/"), segment)
		if !has || !strings.HasPrefix(rest, "/") {
			return "", false
		}
		path = rest
	}
	name = strings.TrimSuffix(path[1:], "/")
	return name, name != "" && name != "." && name != ".." // which mux would take for segments
}

// CollapseSlashes returns a path with one slash in place of each run of slashes, and none
// at the end.
func CollapseSlashes(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// refuseTunnel answers CONNECT, which has an address in place of a path.
func (router *Router) refuseTunnel(w http.ResponseWriter, r *http.Request) {
	const allow = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"
	w.Header().Set("Allow", allow)
	router.wrongMethod(w, r, allow)
}

// unrouted answers requests that no route of Handle matches.
func (router *Router) unrouted(w http.ResponseWriter, r *http.Request) {
	if _, pattern := router.rest.Handler(r); pattern != "" {
		router.rest.ServeHTTP(w, r)
		return
	}
	methods := router.methods(r)
	switch {
	case r.Method == http.MethodOptions && (len(methods) > 0 || r.Header.Get("Access-Control-Request-Method") != ""):
		if len(methods) > 0 {
			w.Header().Set("Allow", strings.Join(append(methods, http.MethodOptions), ", "))
		}
		// The preflight of an unknown path succeeds. Only then can the page read the 404 of
		// the request itself.
		preflight(w, r)
	case len(methods) > 0:
		allow := strings.Join(append(methods, http.MethodOptions), ", ")
		w.Header().Set("Allow", allow)
		router.wrongMethod(w, r, allow)
	default:
		router.notFound(w, r)
	}
}

// methods returns the methods that have a route at the path of a request.
func (router *Router) methods(r *http.Request) []string {
	var methods []string
	probe := *r
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete,
		http.MethodPatch} {
		probe.Method = method
		_, pattern := router.mux.Handler(&probe)
		_, rest := router.rest.Handler(&probe)
		if verbs := router.verbs[pattern]; verbs != nil {
			if name, verb := cutVerb(r.URL.Path); verbs[verb] == nil || strings.HasSuffix(name, "/") {
				continue
			}
		}
		isMeant := pattern != "/" && pattern != "" && !(hasParameter(pattern) && router.literal[r.URL.Path] != nil)
		if isMeant || rest != "" {
			methods = append(methods, method)
		}
	}
	return methods
}

// hasDotSegment reports whether a path has a segment "." or "..".
func hasDotSegment(path string) bool {
	return strings.Contains(path, "/.") &&
		slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return s == "." || s == ".." })
}

// Route is one operation of the gateway: its pattern, such as "GET /api/models", the
// permission that a caller must have, its handler, and its description for the OpenAPI
// document. The schemas of the document are derived from the types of Query, Body and
// Reply, which are the types that the handler reads and writes; see package openapi for the
// struct tags that add to them.
type Route struct {
	Pattern    string
	Permission access.Permission
	// Team is the least role in a tenant that opens the operation to people without the
	// permission. They see only what belongs to their tenants (Call.Scope). Where the pattern
	// names a {tenant}, the gate refuses all others. Zero opens it to nobody.
	Team access.TeamRole
	// Does is the function of an operation of a management surface. Surface derives the
	// handler and the types below from it. Says is the message of its reply, unless the
	// function gives another one.
	Does Function
	Says string
	// Handler answers requests.
	Handler http.HandlerFunc
	// Apart answers on the ports that serve the unified API alone. Where it is nil, they
	// have the route only if it is part of that API.
	Apart http.HandlerFunc
	// Undescribed says that the document does not list the route, because it is a
	// page for people or belongs to one.
	Undescribed bool
	// Tag is the heading of the operation in the document.
	Tag, Summary string
	// AliasOf is the pattern of the route that does the same, if there is one.
	AliasOf string
	// Query is a struct with a field for each parameter of the query, and Body
	// the value that the request carries; nil means none.
	Query, Body any
	// BodyType is the media type of the body, application/json if empty. BodyOptional says
	// that the body may be left out.
	BodyType     string
	BodyOptional bool
	// Reply is the value that a successful reply carries as JSON, in the
	// envelope of the management API if Enveloped; nil means none. Media has the
	// other forms of the reply, by their media types.
	Reply     any
	Enveloped bool
	Media     map[string]any
	// Status is the status of success, 200 if 0.
	Status int
	// Versioned says that the operation changes the configuration. It therefore obeys
	// If-Match.
	Versioned bool
	// Audited says that the audit log has a line for each use of the operation, although
	// it only reads.
	Audited bool
	// Asks says that the operation changes nothing although its method is not a safe one: the
	// trail has no record of it.
	Asks bool
	// Takes reports whether a request with a body takes something away, such as a key or a
	// session. It is then done even if it cannot be recorded; nil means that it is not.
	Takes func(body []byte) bool
	// Concerns returns the tenant of the object that a change concerns, empty if it has none: by the
	// path before the operation, when the reply is nil, and by the reply. Every recorded operation
	// declares it (see OfGateway), unless the path names the {tenant}. Else it is that of a caller who
	// is in one tenant.
	Concerns func(r *http.Request, reply any) string
	// SignsIn is true for operations that begin a session, and Folds for others of which the trail
	// may record equal ones of a minute together.
	SignsIn, Folds bool
	// NoDryRun says that the operation refuses dryRun, because there is nothing to
	// tell without doing it.
	NoDryRun bool
	// Error is the form of the handler's errors, and Errors are the statuses that do not
	// follow from the other fields. Replies has the other forms of replies, by their
	// statuses.
	Error   any
	Errors  []int
	Replies map[int]any
}

// tenantParameter is the parameter of a pattern that names the tenant of an operation.
const tenantParameter = "tenant"

// isOfTenant reports whether the pattern names the tenant of the operation.
func (route *Route) isOfTenant() bool {
	return strings.Contains(route.Pattern, "{"+tenantParameter+"}")
}
