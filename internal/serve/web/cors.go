package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// Values of headers that are the same in every reply. They are never modified.
var (
	anyOrigin   = []string{"*"}
	noSniff     = []string{"nosniff"}
	corsMethods = []string{"GET, POST, PUT, DELETE, OPTIONS"}
	// Browsers hide from pages every header that is not named here.
	exposed = []string{"x-request-id, retry-after, retry-after-ms, x-should-retry, x-router-instance, " +
		"x-router-model, x-router-attempts, x-router-overhead-ms, x-router-wait-ms, " +
		"x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, " +
		"x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens"}
	preflightAge  = []string{"600"}
	preflightVary = []string{"Access-Control-Request-Headers"}
	originVary    = []string{"Origin"}
)

// origins are the web origins with pages that may read replies. Browsers are never allowed
// to add credentials, so a page learns nothing that its author could not ask for.
// Management is different, because it may be open to this machine: only origins that are
// named may read its replies, even where all origins are allowed.
type origins struct {
	any   bool
	named []string
	// keysNeeded reports whether callers of the unified API need a key. Where they do, a
	// page without a key cannot ask for the objects stored there.
	keysNeeded func() bool
}

func newOrigins(allowed []string, keysNeeded func() bool) *origins {
	if keysNeeded == nil {
		keysNeeded = func() bool { return false }
	}
	return &origins{
		any: slices.Contains(allowed, anyOrigin[0]),
		named: slices.DeleteFunc(slices.Clone(allowed),
			func(origin string) bool { return origin == anyOrigin[0] }),
		keysNeeded: keysNeeded,
	}
}

// isFree reports whether pages of all origins may use a path: it belongs neither to
// management nor to objects stored for clients who need no key.
func (o *origins) isFree(path string) bool {
	path = strings.TrimPrefix(CollapseSlashes(path), "/") // as the router reads it
	return !isManaged(path) && (!isStored(path) || o.keysNeeded())
}

// names reports whether the list of origins names the origin of a request.
func (o *origins) names(r *http.Request) bool {
	given := r.Header["Origin"]
	return len(given) == 1 &&
		slices.ContainsFunc(o.named, func(origin string) bool { return strings.EqualFold(origin, given[0]) })
}

// allow adds the headers that let the page which sent a request read the reply, if its
// origin is allowed.
func (o *origins) allow(h http.Header, r *http.Request) {
	if o.any && o.isFree(r.URL.Path) {
		h["Access-Control-Allow-Origin"] = anyOrigin
		h["Access-Control-Expose-Headers"] = exposed
		return
	}
	h["Vary"] = originVary
	if o.names(r) {
		h["Access-Control-Allow-Origin"] = r.Header["Origin"][:1:1]
		h["Access-Control-Expose-Headers"] = exposed
	}
}

// MayRead reports whether the page that sent a request may read the reply, from the headers
// that allow wrote: the page has the same origin, or an allowed one. Other clients send no
// origin and may read. Browsers check this by themselves, except for WebSockets.
func MayRead(reply http.Header, r *http.Request) bool {
	given := r.Header["Origin"]
	if len(given) == 0 || len(reply["Access-Control-Allow-Origin"]) > 0 {
		return true
	}
	_, host, found := strings.Cut(given[0], "://")
	return len(given) == 1 && found && strings.EqualFold(host, r.Host)
}

// isManaged reports whether a path belongs to management: all below /api and /actuator
// but for health, info and the scrape, which pages of all origins may read.
func isManaged(path string) bool {
	switch path {
	case "actuator/health", "actuator/health/liveness", "actuator/health/readiness", "actuator/info",
		"actuator/prometheus":
		return false
	}
	return isAtOrBelow(path, "api") || isAtOrBelow(path, "actuator")
}

// isStored reports whether a path leads to objects that the unified API stores for its
// clients: files, batches, and responses by their ids. Without /v1 some of these names
// belong to pages.
func isStored(path string) bool {
	if isAtOrBelow(path, "v1/files") || isAtOrBelow(path, "v1/batches") || isAtOrBelow(path, "v1/messages/batches") {
		return true
	}
	id, isBelow := strings.CutPrefix(strings.TrimPrefix(path, "v1/"), "responses/")
	return isBelow && id != "input_tokens" && id != "compact" // doors of their own, which store nothing
}

func isAtOrBelow(path, root string) bool {
	rest, begins := strings.CutPrefix(path, root)
	return begins && (rest == "" || rest[0] == '/')
}

// preflight answers a CORS preflight request.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Access-Control-Allow-Methods"] = corsMethods
	h["Access-Control-Allow-Headers"] = []string{allowedHeaders(r.Header.Get("Access-Control-Request-Headers"))}
	h["Access-Control-Max-Age"] = preflightAge
	h["Vary"] = append(h["Vary"][:len(h["Vary"]):len(h["Vary"])], preflightVary...)
	w.WriteHeader(http.StatusNoContent)
}

// allowedHeaders lists the headers that are always allowed and the headers that the page
// asks for, because official client libraries send a dozen of their own.
func allowedHeaders(asked string) string {
	const most, longest = 40, 100
	allowed := []string{"Content-Type", "Authorization"}
	seen := map[string]bool{"content-type": true, "authorization": true}
	for name := range strings.SplitSeq(asked, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		if len(allowed) == most || seen[name] || len(name) > longest || !wire.IsToken(name) {
			continue
		}
		seen[name] = true
		allowed = append(allowed, name)
	}
	return strings.Join(allowed, ", ")
}
