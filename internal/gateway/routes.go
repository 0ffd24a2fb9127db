package gateway

import (
	"net/http"
	"strings"
	"time"

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
	monitor *manage.Monitoring
}

// routes is everything that the gateway answers, one line each: what is asked,
// what the caller must be permitted to, and who answers. Every line has its
// description in internal/web/openapi.
func (s surfaces) routes() []web.Route {
	u, m, d := s.unified, s.manage, s.docs
	return append([]web.Route{
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

		{Pattern: "GET /api/config/type", Permission: access.ReadTypes, Handler: m.Handle(m.Services)},
		{Pattern: "GET /api/config/type/services", Permission: access.ReadTypes, Handler: m.Handle(m.ServiceNames)},
		{Pattern: "GET /api/config/type/services/{serviceType}", Permission: access.ReadTypes, Handler: m.Handle(m.Service)},
		{Pattern: "POST /api/config/type/services/{serviceType}", Permission: access.WriteTypes, Handler: m.Handle(m.PutService)},
		{Pattern: "PUT /api/config/type/services/{serviceType}", Permission: access.WriteTypes, Handler: m.Handle(m.MergeService)},
		{Pattern: "DELETE /api/config/type/services/{serviceType}", Permission: access.WriteTypes, Handler: m.Handle(m.DeleteService)},
		{Pattern: "GET /api/config/type/{serviceType}/models", Permission: access.ReadTypes, Handler: m.Handle(m.ServiceModels)},
		{Pattern: "POST /api/config/type/reset", Permission: access.WriteTypes, Handler: m.Handle(m.Reset)},

		{Pattern: "GET /api/config/instance/type/{serviceType}", Permission: access.ReadInstances, Handler: m.Handle(m.Instances)},
		{Pattern: "GET /api/config/instance/info/{serviceType}", Permission: access.ReadInstances, Handler: m.Handle(m.InstanceInfo)},
		{Pattern: "POST /api/config/instance/add/{serviceType}", Permission: access.WriteInstances, Handler: m.Handle(m.AddInstance)},
		{Pattern: "PUT /api/config/instance/update/{serviceType}", Permission: access.WriteInstances, Handler: m.Handle(m.UpdateInstance)},
		{Pattern: "DELETE /api/config/instance/del/{serviceType}", Permission: access.WriteInstances, Handler: m.Handle(m.DeleteInstance)},
		{Pattern: "POST /api/config/instance/circuit-breaker/{serviceType}", Permission: access.WriteInstances, Handler: m.Handle(m.ForceBreaker)},

		{Pattern: "GET /api/models", Permission: access.ReadModels, Handler: m.Handle(m.Models)},
		{Pattern: "GET /api/route/explain", Permission: access.ReadRoutes, Handler: m.Handle(m.Explain)},

		{Pattern: "GET /api/config/version", Permission: access.ReadVersions, Handler: m.Handle(m.Versions)},
		{Pattern: "GET /api/config/version/current", Permission: access.ReadVersions, Handler: m.Handle(m.CurrentVersion)},
		{Pattern: "GET /api/config/version/diff", Permission: access.ReadVersions, Handler: m.Handle(m.DiffVersions)},
		{Pattern: "GET /api/config/version/{version}", Permission: access.ReadVersions, Handler: m.Handle(m.Version)},
		{Pattern: "POST /api/config/version/rollback/{version}", Permission: access.WriteVersions, Handler: m.Handle(m.RollbackVersion)},
		{Pattern: "POST /api/config/version/apply/{version}", Permission: access.WriteVersions, Handler: m.Handle(m.ApplyVersion)},
		{Pattern: "DELETE /api/config/version/{version}", Permission: access.WriteVersions, Handler: m.Handle(m.DeleteVersion)},
		{Pattern: "POST /api/config/merge/backup", Permission: access.WriteVersions, Handler: m.Handle(m.Backup)},

		{Pattern: "GET /api/config/quota", Permission: access.ReadQuota, Handler: m.HandleQuota(m.QuotaConfig)},
		{Pattern: "PUT /api/config/quota", Permission: access.WriteQuota, Handler: m.HandleQuota(m.EditQuota)},
		{Pattern: "GET /api/monitoring/quota/status", Permission: access.ReadQuotaUsage, Handler: m.HandleQuota(m.QuotaStatus)},
		{Pattern: "GET /api/monitoring/quota/usage", Permission: access.ReadQuotaUsage, Handler: m.HandleQuota(m.QuotaUsage)},

		{Pattern: "GET /api/auth/keys", Permission: access.ManageKeys, Handler: m.Handle(m.Keys)},
		{Pattern: "POST /api/auth/keys", Permission: access.ManageKeys, Handler: m.Handle(m.IssueKey)},
		{Pattern: "DELETE /api/auth/keys/{id}", Permission: access.ManageKeys, Handler: m.Handle(m.RevokeKey)},
		{Pattern: "GET /api/auth/tokens", Permission: access.ManageTokens, Handler: m.Handle(m.Tokens)},
		{Pattern: "POST /api/auth/tokens", Permission: access.ManageTokens, Handler: m.Handle(m.IssueToken)},
		{Pattern: "POST /api/auth/tokens/{name}/rotate", Permission: access.ManageTokens, Handler: m.Handle(m.RotateToken)},
		{Pattern: "DELETE /api/auth/tokens/{name}", Permission: access.ManageTokens, Handler: m.Handle(m.RevokeToken)},

		{Pattern: "GET /", Permission: access.Anyone, Handler: d.Root},
		{Pattern: "GET /openapi.json", Permission: access.Anyone, Handler: d.Document},
		{Pattern: "GET /docs/api", Permission: access.Anyone, Handler: d.Viewer},
		{Pattern: "GET /docs/api/{file}", Permission: access.Anyone, Handler: d.File},
	}, s.operations()...)
}

// operations are the routes by which the gateway is watched.
func (s surfaces) operations() []web.Route {
	o, n := s.ops, s.monitor
	return []web.Route{
		{Pattern: "GET /api/monitoring/config", Permission: access.ReadMonitoring, Handler: n.Config},
		{Pattern: "PUT /api/monitoring/config/enabled", Permission: access.WriteMonitoring, Handler: n.PutEnabled},
		{Pattern: "PUT /api/monitoring/config/prefix", Permission: access.WriteMonitoring, Handler: n.PutPrefix},
		{Pattern: "PUT /api/monitoring/config/collection-interval", Permission: access.WriteMonitoring, Handler: n.PutInterval},
		{Pattern: "PUT /api/monitoring/config/categories", Permission: access.WriteMonitoring, Handler: n.PutCategories},
		{Pattern: "PUT /api/monitoring/config/custom-tags", Permission: access.WriteMonitoring, Handler: n.PutTags},
		{Pattern: "GET /api/monitoring/config/snapshot", Permission: access.ReadMonitoring, Handler: n.Snapshot},
		{Pattern: "GET /api/monitoring/health", Permission: access.ReadMonitoring, Handler: n.MonitoringHealth},
		{Pattern: "GET /api/monitoring/overview", Permission: access.ReadMonitoring, Handler: n.Overview},
		{Pattern: "GET /api/monitoring/errors/stats", Permission: access.ReadMonitoring, Handler: n.Errors},
		{Pattern: "POST /api/monitoring/errors/reset", Permission: access.WriteMonitoring, Handler: n.ResetErrors},
		{Pattern: "GET /api/monitoring/degradation/status", Permission: access.ReadMonitoring, Handler: n.Degradation},
		{Pattern: "POST /api/monitoring/degradation/level", Permission: access.WriteMonitoring, Handler: n.SetLevel},
		{Pattern: "POST /api/monitoring/degradation/auto-mode", Permission: access.WriteMonitoring, Handler: n.SetAutoMode},
		{Pattern: "POST /api/monitoring/degradation/force-recovery", Permission: access.WriteMonitoring, Handler: n.ForceRecovery},
		{Pattern: "GET /api/monitoring/cache/stats", Permission: access.ReadMonitoring, Handler: n.Cache},
		{Pattern: "POST /api/monitoring/cache/clear", Permission: access.WriteMonitoring, Handler: n.ClearCache},
		{Pattern: "GET /api/monitoring/circuit-breaker/stats", Permission: access.ReadMonitoring, Handler: n.BreakerStats},
		{Pattern: "POST /api/monitoring/circuit-breaker/force-open", Permission: access.WriteMonitoring, Handler: n.ForceOpen},
		{Pattern: "POST /api/monitoring/circuit-breaker/force-close", Permission: access.WriteMonitoring, Handler: n.ForceClose},
		{Pattern: "GET /api/monitoring/instances", Permission: access.ReadMetrics, Handler: n.Instances},
		{Pattern: "GET /api/monitoring/load-balancer", Permission: access.ReadMetrics, Handler: n.LoadBalancer},
		{Pattern: "GET /api/monitoring/rate-limit", Permission: access.ReadMetrics, Handler: n.RateLimit},
		{Pattern: "GET /api/monitoring/circuit-breaker", Permission: access.ReadMetrics, Handler: n.Breakers},
		{Pattern: "GET /api/monitoring/calls", Permission: access.ReadMetrics, Handler: n.Calls},
		{Pattern: "GET /api/monitoring/calls/{requestId}", Permission: access.ReadMetrics, Handler: n.Call},
		{Pattern: "GET /api/monitoring/stream", Permission: access.ReadMetrics, Handler: n.Stream},

		{Pattern: "GET /actuator", Permission: access.ReadActuator, Handler: o.Index},
		{Pattern: "GET /actuator/health", Permission: access.Anyone, Handler: o.Health},
		{Pattern: "GET /actuator/health/liveness", Permission: access.Anyone, Handler: o.Liveness},
		{Pattern: "GET /actuator/health/readiness", Permission: access.Anyone, Handler: o.Readiness},
		{Pattern: "GET /actuator/health/detailed", Permission: access.ReadActuator, Handler: o.DetailedHealth},
		{Pattern: "GET /actuator/health/{component}", Permission: access.ReadActuator, Handler: o.HealthComponent},
		{Pattern: "GET /actuator/info", Permission: access.Anyone, Handler: o.Info},
		{Pattern: "GET /actuator/prometheus", Permission: access.Anyone, Handler: o.Prometheus},
		{Pattern: "GET /metrics", Permission: access.Anyone, Handler: o.Prometheus},
		{Pattern: "GET /actuator/metrics", Permission: access.ReadMetrics, Handler: o.Metrics},
		{Pattern: "GET /actuator/metrics/{name}", Permission: access.ReadMetrics, Handler: o.Metric},
		{Pattern: "GET /actuator/env", Permission: access.ReadActuator, Handler: o.Env},
		{Pattern: "GET /actuator/env/{name}", Permission: access.ReadActuator, Handler: o.EnvProperty},
		{Pattern: "GET /actuator/loggers", Permission: access.ReadActuator, Handler: o.Loggers},
		{Pattern: "GET /actuator/loggers/{name}", Permission: access.ReadActuator, Handler: o.Logger},
		{Pattern: "POST /actuator/loggers/{name}", Permission: access.WriteLoggers, Handler: o.SetLogger},
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
		pattern := route.Pattern
		if strings.HasSuffix(pattern, " /") {
			pattern += "{$}" // this path alone, not all that begin with it
		}
		handle(pattern, gate.Guard(route))
	}
	return r
}

// The three functions below answer what no route does, each surface in its own
// manner.

func notFound(w http.ResponseWriter, r *http.Request) {
	switch {
	case isManagement(r):
		manage.NotFound(w, r)
	case isActuator(r):
		actuator.NotFound(w, r)
	default:
		v1.NotFound(w, r)
	}
}

func wrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	switch {
	case isManagement(r):
		manage.WrongMethod(w, r, allow)
	case isActuator(r):
		actuator.WrongMethod(w, r, allow)
	default:
		v1.WrongMethod(w, r, allow)
	}
}

func fail(w http.ResponseWriter, r *http.Request, err *schema.Error) {
	switch {
	case isManagement(r):
		manage.Fail(w, err)
	case isActuator(r):
		actuator.Fail(w, r, err)
	default:
		v1.WriteError(w, err)
	}
}

// notReady answers a request of the unified API that comes before it is known
// who may be let in.
func notReady(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// The body is not read, so nothing can follow it on this connection.
		w.Header().Set("Connection", "close")
	}
	v1.WriteError(w, &schema.Error{
		Message:    web.NotReadyMessage,
		Type:       schema.TypeServiceUnavailable,
		Code:       schema.CodeServiceUnavailable,
		RetryAfter: time.Second,
	})
}

func isManagement(r *http.Request) bool { return isUnder(r, "/api") }

func isActuator(r *http.Request) bool { return isUnder(r, "/actuator") }

// isUnder tells whether the path of a request is root or begins with it.
func isUnder(r *http.Request, root string) bool {
	rest, begins := strings.CutPrefix(r.URL.Path, root)
	return begins && (rest == "" || rest[0] == '/')
}
