package main

import (
	"net/http"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/web"
	"github.com/patchbay-ai/patchbay/internal/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/web/manage"
	"github.com/patchbay-ai/patchbay/internal/web/openapi"
	v1 "github.com/patchbay-ai/patchbay/internal/web/v1"
)

// surfaces are the parts that answer requests.
type surfaces struct {
	unified *v1.API
	manage  *manage.API
	ops     *actuator.API
	docs    *openapi.Pages
}

// routes is everything that the gateway answers, one line each: what is asked,
// what the caller must be permitted to, and who answers. Every line has its
// description in internal/web/openapi.
func (s surfaces) routes() []web.Route {
	u, m, o, d := s.unified, s.manage, s.ops, s.docs
	return []web.Route{
		{Pattern: "POST /v1/chat/completions", Permission: access.ByKey, Handler: u.Chat},
		{Pattern: "POST /chat/completions", Permission: access.ByKey, Handler: u.Chat},
		{Pattern: "POST /v1/embeddings", Permission: access.ByKey, Handler: u.Embeddings},
		{Pattern: "POST /embeddings", Permission: access.ByKey, Handler: u.Embeddings},
		{Pattern: "POST /v1/rerank", Permission: access.ByKey, Handler: u.Rerank},
		{Pattern: "POST /v2/rerank", Permission: access.ByKey, Handler: u.Rerank},
		{Pattern: "POST /rerank", Permission: access.ByKey, Handler: u.Rerank},
		{Pattern: "POST /v1/reranking", Permission: access.ByKey, Handler: u.Rerank},
		{Pattern: "POST /v1/audio/speech", Permission: access.ByKey, Handler: u.Speech},
		{Pattern: "POST /audio/speech", Permission: access.ByKey, Handler: u.Speech},
		{Pattern: "POST /v1/audio/transcriptions", Permission: access.ByKey, Handler: u.Transcriptions},
		{Pattern: "POST /audio/transcriptions", Permission: access.ByKey, Handler: u.Transcriptions},
		{Pattern: "POST /v1/images/generations", Permission: access.ByKey, Handler: u.Images},
		{Pattern: "POST /images/generations", Permission: access.ByKey, Handler: u.Images},
		{Pattern: "POST /v1/images/edits", Permission: access.ByKey, Handler: u.ImageEdits},
		{Pattern: "POST /images/edits", Permission: access.ByKey, Handler: u.ImageEdits},
		{Pattern: "GET /v1/models", Permission: access.ByKey, Handler: u.Models},
		{Pattern: "GET /models", Permission: access.ByKey, Handler: u.Models},
		{Pattern: "GET /v1/models/{id...}", Permission: access.ByKey, Handler: u.Model},
		{Pattern: "GET /models/{id...}", Permission: access.ByKey, Handler: u.Model},

		{Pattern: "GET /api/config/type", Permission: access.ReadTypes, Handler: m.Services},
		{Pattern: "GET /api/config/type/services", Permission: access.ReadTypes, Handler: m.ServiceNames},
		{Pattern: "GET /api/config/type/services/{serviceType}", Permission: access.ReadTypes, Handler: m.Service},
		{Pattern: "POST /api/config/type/services/{serviceType}", Permission: access.WriteTypes, Handler: m.PutService},
		{Pattern: "PUT /api/config/type/services/{serviceType}", Permission: access.WriteTypes, Handler: m.MergeService},
		{Pattern: "DELETE /api/config/type/services/{serviceType}", Permission: access.WriteTypes, Handler: m.DeleteService},
		{Pattern: "GET /api/config/type/{serviceType}/models", Permission: access.ReadTypes, Handler: m.ServiceModels},
		{Pattern: "POST /api/config/type/reset", Permission: access.WriteTypes, Handler: m.Reset},

		{Pattern: "GET /api/config/instance/type/{serviceType}", Permission: access.ReadInstances, Handler: m.Instances},
		{Pattern: "GET /api/config/instance/info/{serviceType}", Permission: access.ReadInstances, Handler: m.InstanceInfo},
		{Pattern: "POST /api/config/instance/add/{serviceType}", Permission: access.WriteInstances, Handler: m.AddInstance},
		{Pattern: "PUT /api/config/instance/update/{serviceType}", Permission: access.WriteInstances, Handler: m.UpdateInstance},
		{Pattern: "DELETE /api/config/instance/del/{serviceType}", Permission: access.WriteInstances, Handler: m.DeleteInstance},
		{Pattern: "POST /api/config/instance/circuit-breaker/{serviceType}", Permission: access.WriteInstances, Handler: m.ForceBreaker},

		{Pattern: "GET /api/models", Permission: access.ReadModels, Handler: m.Models},
		{Pattern: "GET /api/route/explain", Permission: access.ReadRoutes, Handler: m.Explain},

		{Pattern: "GET /api/config/version", Permission: access.ReadVersions, Handler: m.Versions},
		{Pattern: "GET /api/config/version/current", Permission: access.ReadVersions, Handler: m.CurrentVersion},
		{Pattern: "GET /api/config/version/diff", Permission: access.ReadVersions, Handler: m.DiffVersions},
		{Pattern: "GET /api/config/version/{version}", Permission: access.ReadVersions, Handler: m.Version},
		{Pattern: "POST /api/config/version/rollback/{version}", Permission: access.WriteVersions, Handler: m.RollbackVersion},
		{Pattern: "POST /api/config/version/apply/{version}", Permission: access.WriteVersions, Handler: m.ApplyVersion},
		{Pattern: "DELETE /api/config/version/{version}", Permission: access.WriteVersions, Handler: m.DeleteVersion},
		{Pattern: "POST /api/config/merge/backup", Permission: access.WriteVersions, Handler: m.Backup},

		{Pattern: "GET /api/config/quota", Permission: access.ReadQuota, Handler: m.QuotaConfig},
		{Pattern: "PUT /api/config/quota", Permission: access.WriteQuota, Handler: m.EditQuota},
		{Pattern: "GET /api/monitoring/quota/status", Permission: access.ReadQuotaUsage, Handler: m.QuotaStatus},
		{Pattern: "GET /api/monitoring/quota/usage", Permission: access.ReadQuotaUsage, Handler: m.QuotaUsage},

		{Pattern: "GET /api/auth/keys", Permission: access.ManageKeys, Handler: m.Keys},
		{Pattern: "POST /api/auth/keys", Permission: access.ManageKeys, Handler: m.IssueKey},
		{Pattern: "DELETE /api/auth/keys/{id}", Permission: access.ManageKeys, Handler: m.RevokeKey},

		{Pattern: "GET /actuator/health", Permission: access.Anyone, Handler: o.Health},
		{Pattern: "GET /actuator/health/liveness", Permission: access.Anyone, Handler: o.Liveness},
		{Pattern: "GET /actuator/health/readiness", Permission: access.Anyone, Handler: o.Readiness},

		{Pattern: "GET /openapi.json", Permission: access.Anyone, Handler: d.Document},
		{Pattern: "GET /docs/api", Permission: access.Anyone, Handler: d.Viewer},
		{Pattern: "GET /docs/api/{file}", Permission: access.Anyone, Handler: d.File},
	}
}

// newRouter puts the routes behind the gate.
func newRouter(routes []web.Route, gate *web.Gate) *web.Router {
	r := web.NewRouter(notFound, wrongMethod)
	for _, route := range routes {
		handle := r.Handle
		if strings.HasPrefix(route.Pattern, "GET /api/config/type/{serviceType}/") {
			handle = r.HandleRest // a service type called "services" is not one
		}
		handle(route.Pattern, gate.Guard(route))
	}
	return r
}

// The three functions below answer what no route does, each surface in its own
// manner.

func notFound(w http.ResponseWriter, r *http.Request) {
	if isManagement(r) {
		manage.NotFound(w, r)
		return
	}
	v1.NotFound(w, r)
}

func wrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	if isManagement(r) {
		manage.WrongMethod(w, r, allow)
		return
	}
	v1.WrongMethod(w, r, allow)
}

func fail(w http.ResponseWriter, r *http.Request, err *schema.Error) {
	if isManagement(r) {
		manage.Fail(w, err)
		return
	}
	v1.WriteError(w, err)
}

func isManagement(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/") }
