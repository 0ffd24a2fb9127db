package actuator

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Routes returns the operational endpoints.
func (a *API) Routes() []web.Route {
	const anyone, reader = access.Anyone, access.ReadActuator
	down := map[int]any{http.StatusServiceUnavailable: health{}} // 503 has the body of 200
	scrape := web.Route{
		Pattern: "GET /actuator/prometheus", Permission: a.options.Document.Security.ScrapePermission(),
		Handler: a.Prometheus,
		Summary: "Metrics for scrapers; with security.metrics: token they take monitoring:metrics:read",
		Query:   scrapeQuery{},
		Media:   map[string]any{"text/plain": "", "application/openmetrics-text": ""},
		Errors:  []int{http.StatusInternalServerError},
		Replies: map[int]any{ // of the gate, where a token is needed
			http.StatusUnauthorized: web.Fault{}, http.StatusForbidden: web.Fault{},
			http.StatusTooManyRequests: web.Fault{}, http.StatusServiceUnavailable: web.Fault{},
		},
	}
	again := scrape
	again.Pattern, again.AliasOf = "GET /metrics", scrape.Pattern
	return surface().Routes("Operation", []web.Route{
		{Pattern: "GET /actuator/health", Permission: anyone, Does: web.Do(a.showHealth), Replies: down,
			Summary: "Health, and of what it is made"},
		{Pattern: "GET /actuator/health/liveness", Permission: anyone, Does: web.Do(a.liveness),
			Summary: "Whether the process runs"},
		{Pattern: "GET /actuator/health/readiness", Permission: anyone, Does: web.Do(a.showReadiness), Replies: down,
			Summary: "Whether requests are welcome"},
		{Pattern: "GET /actuator/health/detailed", Permission: reader, Does: web.Do(a.detailedHealth), Replies: down,
			Summary: "Health of every instance"},
		{Pattern: "GET /actuator/health/{component}", Permission: reader, Does: web.Do(a.healthComponent),
			Replies: down, Summary: "Health of one component"},
		{Pattern: "GET /actuator", Permission: reader, Does: web.Do(a.index), Summary: "Links to the endpoints"},
		{Pattern: "GET /actuator/info", Permission: anyone, Does: web.Do(a.info), Summary: "What runs"},
		scrape, again,
		{Pattern: "GET /actuator/metrics", Permission: access.ReadMetrics, Does: web.Do(a.metrics),
			Summary: "The names of all metrics"},
		{Pattern: "GET /actuator/metrics/{name}", Permission: access.ReadMetrics, Does: web.Do(a.metric),
			Query: metricQuery{}, Summary: "One metric"},
		{Pattern: "GET /actuator/env", Permission: reader, Does: web.DoWith(a.showEnv),
			Summary: "The configuration and where it came from"},
		{Pattern: "GET /actuator/env/{name}", Permission: reader, Does: web.Do(a.envProperty), Summary: "One setting"},
		{Pattern: "GET /actuator/loggers", Permission: reader, Does: web.Do(a.loggers),
			Summary: "All loggers and their levels"},
		{Pattern: "GET /actuator/loggers/{name}", Permission: reader, Does: web.Do(a.showLogger),
			Summary: "The level of a logger"},
		{
			Pattern: "POST /actuator/loggers/{name}", Permission: access.WriteLoggers, Handler: a.SetLogger,
			Concerns: web.OfGateway,
			Body:     loggerRequest{},
			Summary:  "Set the level of a logger, or clear it with null; the audit trail has none (400)",
			Status:   http.StatusNoContent,
		},
	})
}
