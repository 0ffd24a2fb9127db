package v1

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// Routes returns the operations of the unified API.
func (a *API) Routes() []web.Route {
	var routes []web.Route
	add := func(method, path string, handler http.HandlerFunc, op web.Operation, aliases ...string) {
		op.Tag = "Unified API"
		if op.Error == nil {
			op.Error = errorBody{}
		}
		pattern := method + " " + path
		routes = append(routes, web.Route{Pattern: pattern, Permission: access.ByKey, Handler: handler, Operation: op})
		op.AliasOf = pattern
		for _, alias := range aliases {
			routes = append(routes, web.Route{Pattern: method + " " + alias, Permission: access.ByKey, Handler: handler, Operation: op})
		}
	}
	for _, d := range doors {
		add(http.MethodPost, d.path, a.serve(d), d.operation, d.aliases...)
	}
	add(http.MethodGet, "/v1/models", a.Models, web.Operation{
		Summary: "Every model of every service type, once; in the shape of Anthropic's API for a caller that sends anthropic-version",
		Query:   modelsQuery{}, Reply: anyModelList{}, Error: anyError{},
	}, "/models")
	add(http.MethodGet, "/v1/models/{id...}", a.Model, web.Operation{Summary: "One model", Reply: anyModel{}, Error: anyError{}}, "/models/{id...}")
	// A response that its backend keeps is asked for there.
	askErrors := []int{http.StatusBadRequest, http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout}
	add(http.MethodGet, "/v1/responses/{id}", a.Response, web.Operation{
		Summary: "A response that is kept", Reply: response{}, Errors: askErrors,
	}, "/responses/{id}")
	add(http.MethodDelete, "/v1/responses/{id}", a.DeleteResponse, web.Operation{Summary: "Delete a response that is kept", Reply: deletedResponse{}, Errors: askErrors}, "/responses/{id}")
	add(http.MethodGet, "/v1/responses/{id}/input_items", a.InputItems, web.Operation{
		Summary: "The items that were sent for a response that is kept", Reply: itemList{}, Query: itemQuery{}, Errors: askErrors,
	}, "/responses/{id}/input_items")
	return append(routes, web.Route{Pattern: ErrorPagePattern, Permission: access.Anyone, Handler: a.ErrorPage, Operation: web.Operation{Undescribed: true}})
}
