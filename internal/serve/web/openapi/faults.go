package openapi

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// faultText describes an error of a route by its status.
func faultText(route *web.Route, status string) string {
	code, err := strconv.Atoi(status)
	switch {
	case err != nil: // a range
		return "Another error of a backend"
	case code == http.StatusServiceUnavailable && route.Permission == access.ByKey && route.Body != nil:
		return "No instance serves the model, or none of those that do can take the request now"
	}
	return http.StatusText(code)
}

// faults returns the types of the errors of a route, by their statuses. Errors of the
// handler have the form of its surface. Errors of the gate before it have the envelope of
// the management API. Backends answer requests of the unified API with statuses of their
// own, which appear here as ranges.
func faults(route *web.Route) map[string]reflect.Type {
	method, path, _ := strings.Cut(route.Pattern, " ")
	writes := method != http.MethodGet
	found := make(map[string]reflect.Type)
	add := func(form any, statuses ...int) {
		for _, status := range statuses {
			found[strconv.Itoa(status)] = reflect.TypeOf(form)
		}
	}
	switch route.Permission {
	case access.Anyone:
	case access.ByKey:
		add(route.Error, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
			http.StatusServiceUnavailable)
	default:
		add(web.Fault{}, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests,
			http.StatusServiceUnavailable)
	}
	if strings.Contains(path, "{") {
		add(route.Error, http.StatusNotFound)
	}
	switch {
	case writes && route.Permission == access.ByKey:
		add(route.Error, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
			http.StatusUnsupportedMediaType,
			http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout, http.StatusLoopDetected)
		found["4XX"], found["5XX"] = reflect.TypeOf(route.Error), reflect.TypeOf(route.Error)
	case writes:
		add(route.Error, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge)
	case route.Query != nil, strings.Contains(path, "{serviceType}"), strings.Contains(path, "{version}"):
		add(route.Error, http.StatusBadRequest)
	}
	if route.Versioned {
		add(route.Error, http.StatusNotFound, http.StatusConflict, http.StatusInternalServerError,
			http.StatusServiceUnavailable)
	}
	add(route.Error, route.Errors...)
	for status, form := range route.Replies {
		add(form, status)
	}
	return found
}
