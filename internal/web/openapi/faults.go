package openapi

import (
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// faults returns the errors of an operation: the statuses that it may answer
// with, each in the form that its part of the gateway gives to errors.
func (op *Operation) faults(permission access.Permission) map[int]Schema {
	method, path, _ := strings.Cut(op.Route, " ")
	writes := method != http.MethodGet
	found := make(map[int]Schema)
	add := func(form string, statuses ...int) {
		for _, status := range statuses {
			found[status] = ref(form)
		}
	}
	form := formOf(path)
	if strings.Contains(path, "{") {
		add(form, http.StatusNotFound)
	}
	switch {
	case permission == access.ByKey && writes:
		add(form, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusLoopDetected)
	case writes:
		add(form, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge)
	case len(op.Query) > 0, strings.Contains(path, "{serviceType}"), strings.Contains(path, "{version}"):
		add(form, http.StatusBadRequest)
	}
	if op.changes() {
		add(form, http.StatusNotFound, http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable)
	}
	if strings.HasPrefix(path, "/actuator/health") {
		found[http.StatusServiceUnavailable] = op.Reply // down is said in the same form
	}
	switch permission {
	case access.Anyone:
	case access.ByKey:
		add(form, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	default:
		add("Fault", http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
		if _, described := found[http.StatusServiceUnavailable]; !described {
			add("Fault", http.StatusServiceUnavailable)
		}
	}
	return found
}

// formOf names the form of errors under a path.
func formOf(path string) string {
	switch {
	case strings.HasPrefix(path, "/actuator"):
		return "ActuatorError"
	case strings.HasPrefix(path, "/api/monitoring/") && !strings.HasPrefix(path, "/api/monitoring/quota/"):
		return "MonitoringError"
	case strings.HasPrefix(path, "/api/"), strings.HasPrefix(path, "/docs/"):
		return "Fault"
	}
	return "Error"
}
