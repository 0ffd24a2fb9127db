package main

import (
	"github.com/patchbay-ai/patchbay/internal/web"
	"github.com/patchbay-ai/patchbay/internal/web/actuator"
	v1 "github.com/patchbay-ai/patchbay/internal/web/v1"
)

// routes is everything that the gateway answers, one line each.
func routes(api *v1.API, ops *actuator.API) *web.Router {
	r := web.NewRouter(v1.NotFound, v1.WrongMethod)

	r.Handle("POST /v1/chat/completions", api.Chat)
	r.Handle("POST /chat/completions", api.Chat)
	r.Handle("GET /v1/models", api.Models)
	r.Handle("GET /models", api.Models)
	r.Handle("GET /v1/models/{id...}", api.Model)
	r.Handle("GET /models/{id...}", api.Model)

	r.Handle("GET /actuator/health", ops.Health)
	r.Handle("GET /actuator/health/liveness", ops.Liveness)
	r.Handle("GET /actuator/health/readiness", ops.Readiness)

	return r
}
