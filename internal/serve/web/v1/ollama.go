package v1

import (
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/ollama"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/catalog"
)

// ollamaRoot is the path of Ollama's API. On a listener of its own the API has the paths of
// Ollama.
const ollamaRoot = "/ollama"

// AtOllamaRoot passes requests to a handler as if the paths of Ollama's API were below
// /ollama: nothing else has these paths on the listener for Ollama's clients.
func AtOllamaRoot(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := web.CollapseSlashes(r.URL.Path)
		if path == "/" || isAtOrBelow(path, "/api") {
			target := *r.URL
			target.Path, target.RawPath = ollamaRoot+strings.TrimSuffix(path, "/"), ""
			moved := *r
			moved.URL = &target
			r = &moved
		}
		next.ServeHTTP(w, r)
	})
}

// latestTag is the tag that Ollama adds to the name of a model without one.
const latestTag = ":latest"

// dropLatest takes the tag from the name of a model that is not known by it.
func (x *exchange) dropLatest() {
	name, has := strings.CutSuffix(string(x.request.Model), latestTag)
	if !has || x.table.Service(x.request.Service).FindBytes(x.request.Model) != nil {
		return
	}
	x.request.Model, x.request.PathModel = []byte(name), name
}

// answerLoad answers a request that only wants a model in memory, once it is there, and
// reports whether it is such a request. The request counts in the limits. There is nothing
// to wait for if the gateway neither runs the server nor keeps the model, or if the request
// wants a model to leave: the settings decide which models leave, because others may use
// them.
func (a *API) answerLoad(x *exchange) (isLoad bool, err error) {
	if !ollama.IsLoad(&x.request) {
		return false, nil
	}
	service := x.table.Service(x.request.Service)
	pool := service.FindBytes(x.request.Model)
	if pool == nil {
		return true, account.UnknownModel(x.table, x.request.Service, string(x.request.Model), x.caller.Grant)
	}
	visit := account.Account{Asks: &x.request, Caller: &x.caller, Table: x.table}
	defer visit.Close()
	refused := visit.Visit()
	header := x.w.Header()
	requests, tokens := visit.KeyLimits()
	showLimits(header, visit.Limit(), requests, tokens)
	if refused != nil {
		return true, refused
	}
	body, isUnload := ollama.Loaded(&x.request) // the request is gone when the proxy returns
	if pool.Kept && !isUnload {
		x.request.Uncounted = true
		err := a.proxy.Load(a.enter(x), &x.way)
		TellWait(header, x.call.Held)
		if err != nil {
			return true, err
		}
	}
	header["X-Router-Attempts"] = attemptsText(0)
	x.Head(proxy.Head{Form: account.Form{ContentType: proxy.TypeJSON, Length: len(body)}})
	_, _ = x.w.Write(body) // a client that left does not need it
	return true, nil
}

// undescribed returns the endpoints of Ollama's API that the OpenAPI document does not
// have: some would change its models, others only tell that it is there.
func undescribed(list *catalog.Catalog) []web.Route {
	routes := RoutesOf(http.MethodGet, ollamaRoot, list.Running, web.Route{Undescribed: true})
	for _, refused := range []struct{ method, path string }{
		{http.MethodPost, "/api/pull"}, {http.MethodPost, "/api/push"}, {http.MethodPost, "/api/create"},
		{http.MethodPost, "/api/copy"},
		{http.MethodDelete, "/api/delete"}, {http.MethodPost, "/api/blobs/{digest}"},
		{http.MethodHead, "/api/blobs/{digest}"},
	} {
		routes = append(routes, RoutesOf(refused.method, ollamaRoot+refused.path, list.Refused,
			web.Route{Undescribed: true})...)
	}
	return routes
}
