package v1

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/recall"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/proxy"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/described"
)

// KeptRoutes returns the operations on kept responses. They ask the backend for a response
// that it keeps.
func KeptRoutes(a *API) []web.Route {
	var routes []web.Route
	add := func(method, path string, handler http.HandlerFunc) {
		op := described.Operation(method + " " + path)
		routes = append(routes, RoutesOf(method, path, handler, op, strings.TrimPrefix(path, "/v1"))...)
	}
	add(http.MethodGet, "/v1/responses/{id}", a.Response)
	add(http.MethodDelete, "/v1/responses/{id}", a.DeleteResponse)
	add(http.MethodGet, "/v1/responses/{id}/input_items", a.InputItems)
	return routes
}

// Response answers GET /v1/responses/{id}.
func (a *API) Response(w http.ResponseWriter, r *http.Request) {
	if stream := r.URL.Query().Get("stream"); stream == "true" {
		Fail(w, r, schema.InvalidValue("stream",
			say.New("call.response_stream")))
		return
	}
	found, end := a.findAnswer(w, r)
	if found == nil {
		return
	}
	defer end()
	if found.Instance != "" {
		a.askInstance(w, r, found, "", func(body []byte) { writeBytes(w, body) })
		return
	}
	writeBytes(w, found.Response)
}

// askInstance passes a request for a response on to the instance that keeps it, and calls
// use with the body of the instance's answer. If there is none, it answers with an error
// and returns false.
func (a *API) askInstance(w http.ResponseWriter, r *http.Request, found *recall.Answer, more string,
	use func(body []byte)) bool {
	caller := access.Caller{Addr: web.ClientAddr(r, a.options.TrustedProxies), Header: r.Header}
	caller.Grant, _ = a.options.Keys.IdentifyAgain(r.Header, caller.Addr)
	has, err := a.proxy.Ask(r.Context(), proxy.Question{
		Instance: found.Instance, Door: schema.DoorResponses, Method: r.Method,
		Path: "/" + url.PathEscape(found.ID) + more, Query: r.URL.RawQuery,
		Client: caller.Addr, Header: caller.Forwardable(),
	}, use)
	var known *schema.Error
	switch {
	case errors.As(err, &known):
		Fail(w, r, known)
	case err != nil:
		Fail(w, r, unexpected(err))
	case !has:
		Fail(w, r, responseNotFound(found.ID))
	default:
		return true
	}
	return false
}

// DeleteResponse answers DELETE /v1/responses/{id}.
func (a *API) DeleteResponse(w http.ResponseWriter, r *http.Request) {
	found, end := a.findAnswer(w, r)
	if found == nil {
		return
	}
	defer end()
	if found.Instance != "" {
		if !a.askInstance(w, r, found, "", func([]byte) {}) {
			return
		}
	}
	was, err := a.answers.Delete(r.Context(), found.Owner, found.ID)
	switch {
	case err != nil:
		Fail(w, r, storeUnavailable())
	case !was: // another request was faster
		Fail(w, r, responseNotFound(found.ID))
	default:
		w.Header()["X-Router-Attempts"] = attemptsText(0)
		web.WriteJSON(w, http.StatusOK, described.DeletedResponse{ID: found.ID, Object: "response", Deleted: true})
	}
}

// findAnswer returns the response that a request names. It answers with an error and
// returns nil where the caller has no such response, or may not ask now. The request ends
// when end is called.
func (a *API) findAnswer(w http.ResponseWriter, r *http.Request) (found *recall.Answer, end func()) {
	visit, owner, err := a.visit(w, r)
	if err == nil {
		if found, err = a.answerOf(r, owner); err == nil {
			return found, visit.Close
		}
	}
	visit.Close()
	web.RecordOf(w).Tell(err)
	Fail(w, r, err)
	return nil, nil
}

// visit returns the owner of the responses that a request may ask for. The request counts
// in the limits like a request for a model, because it may be passed on to a backend, and
// reads from a store that others use too.
func (a *API) visit(w http.ResponseWriter, r *http.Request) (*account.Account, recall.Owner, *schema.Error) {
	caller := &access.Caller{Addr: web.ClientAddr(r, a.options.TrustedProxies)}
	visit := &account.Account{
		Asks: &schema.Request{Service: schema.DoorResponses.Service()}, Caller: caller, Table: a.current.Load(),
	}
	if a.options.Memory != nil && a.options.Memory.Short() {
		return visit, recall.Owner{}, overloaded(say.New("call.overloaded"))
	}
	var refusal *schema.Error
	if caller.Grant, refusal = a.options.Keys.Identify(r.Header, caller.Addr); refusal != nil {
		return visit, recall.Owner{}, refusal
	}
	refusal = visit.Visit()
	requests, tokens := visit.KeyLimits()
	showLimits(w.Header(), visit.Limit(), requests, tokens)
	return visit, ownerOf(caller.Grant), refusal
}

// ownerOf returns the owner of the responses that the bearer of a key makes.
func ownerOf(grant *access.Grant) recall.Owner {
	if grant == nil {
		return recall.Owner{}
	}
	return recall.Owner{Key: grant.ID, Issue: grant.Issue, Tenant: grant.Tenant}
}

// answerOf returns the response of an owner that a request names.
func (a *API) answerOf(r *http.Request, owner recall.Owner) (*recall.Answer, *schema.Error) {
	id := r.PathValue("id")
	if a.answers == nil {
		return nil, responseNotFound(id)
	}
	found, err := a.answers.Get(r.Context(), owner, id)
	switch {
	case err != nil:
		return nil, storeUnavailable()
	case found[0] == nil:
		return nil, responseNotFound(id)
	}
	return found[0], nil
}

func responseNotFound(id string) *schema.Error {
	return schema.CodedError(schema.CodeResponseNotFound, "call.response_unknown", "id", shorten(id))
}

func writeBytes(w http.ResponseWriter, body []byte) {
	header := w.Header()
	header["X-Router-Attempts"] = attemptsText(0)
	header["Content-Type"] = contentJSON
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // a client that left does not need it
}

// The number of input items in one list.
const (
	defaultItems = 20
	mostItems    = 100
)

// InputItems answers GET /v1/responses/{id}/input_items.
func (a *API) InputItems(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := defaultItems
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostItems {
			Fail(w, r, schema.BadField("limit", "field.range", "least", "1", "most", "100"))
			return
		}
		limit = n
	}
	order := query.Get("order")
	if order != "" && order != "asc" && order != "desc" {
		Fail(w, r, schema.BadField("order", "value.or", "known", "asc", "last", "desc"))
		return
	}
	found, end := a.findAnswer(w, r)
	if found == nil {
		return
	}
	defer end()
	if found.Instance != "" {
		a.askInstance(w, r, found, "/input_items", func(body []byte) { writeBytes(w, body) })
		return
	}
	items := itemsOf(found.Input)
	if order != "asc" {
		slices.Reverse(items)
	}
	if after := query.Get("after"); after != "" {
		at := slices.IndexFunc(items, func(v jsonscan.Value) bool { return string(v.Get("id").Text()) == after })
		if at < 0 {
			Fail(w, r, schema.BadField("after", "value.item_id"))
			return
		}
		items = items[at+1:]
	}
	list := items[:min(limit, len(items))]
	var body jsonwrite.Writer
	body.Open(`{"object":"list","data":[`)
	for _, item := range list {
		body.Raw(item.Raw())
	}
	body.EndArray()
	body.Name("first_id")
	writeIDOf(&body, list[:min(1, len(list))])
	body.Name("last_id")
	writeIDOf(&body, list[max(0, len(list)-1):])
	body.Name("has_more").Literal(strconv.FormatBool(len(items) > limit))
	body.EndObject()
	writeBytes(w, body.Out)
}

// writeIDOf writes the id of the only item in a list, or null.
func writeIDOf(w *jsonwrite.Writer, list []jsonscan.Value) {
	if len(list) == 0 {
		w.Literal("null")
		return
	}
	w.Raw(list[0].Get("id").Raw())
}
