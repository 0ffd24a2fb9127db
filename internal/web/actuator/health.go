// Package actuator answers the operational endpoints under /actuator.
package actuator

import (
	"net/http"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/web"
)

// API answers the operational endpoints.
type API struct{ draining atomic.Bool }

// Drain makes the gateway not ready: load balancers look elsewhere while the
// requests that it has come to their end.
func (a *API) Drain() { a.draining.Store(true) }

type health struct {
	Status string   `json:"status"`
	Groups []string `json:"groups,omitzero"`
}

const (
	up           = "UP"
	outOfService = "OUT_OF_SERVICE"
)

// Health answers GET /actuator/health.
func (a *API) Health(w http.ResponseWriter, _ *http.Request) {
	status, code := a.readiness()
	web.WriteJSON(w, code, health{Status: status, Groups: []string{"liveness", "readiness"}})
}

// Liveness answers GET /actuator/health/liveness: the process runs.
func (a *API) Liveness(w http.ResponseWriter, _ *http.Request) {
	web.WriteJSON(w, http.StatusOK, health{Status: up})
}

// Readiness answers GET /actuator/health/readiness: requests are welcome.
func (a *API) Readiness(w http.ResponseWriter, _ *http.Request) {
	status, code := a.readiness()
	web.WriteJSON(w, code, health{Status: status})
}

func (a *API) readiness() (status string, code int) {
	if a.draining.Load() {
		return outOfService, http.StatusServiceUnavailable
	}
	return up, http.StatusOK
}
