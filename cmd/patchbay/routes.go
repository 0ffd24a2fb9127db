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
	r.Handle("POST /v1/embeddings", api.Embeddings)
	r.Handle("POST /embeddings", api.Embeddings)
	r.Handle("POST /v1/rerank", api.Rerank)
	r.Handle("POST /v2/rerank", api.Rerank)
	r.Handle("POST /rerank", api.Rerank)
	r.Handle("POST /v1/reranking", api.Rerank)
	r.Handle("POST /v1/audio/speech", api.Speech)
	r.Handle("POST /audio/speech", api.Speech)
	r.Handle("POST /v1/audio/transcriptions", api.Transcriptions)
	r.Handle("POST /audio/transcriptions", api.Transcriptions)
	r.Handle("POST /v1/images/generations", api.Images)
	r.Handle("POST /images/generations", api.Images)
	r.Handle("POST /v1/images/edits", api.ImageEdits)
	r.Handle("POST /images/edits", api.ImageEdits)
	r.Handle("GET /v1/models", api.Models)
	r.Handle("GET /models", api.Models)
	r.Handle("GET /v1/models/{id...}", api.Model)
	r.Handle("GET /models/{id...}", api.Model)

	r.Handle("GET /actuator/health", ops.Health)
	r.Handle("GET /actuator/health/liveness", ops.Liveness)
	r.Handle("GET /actuator/health/readiness", ops.Readiness)

	return r
}
