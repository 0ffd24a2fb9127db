package actuator

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// Routes returns the operational endpoints.
func (a *API) Routes() []web.Route {
	var routes []web.Route
	add := func(pattern string, permission access.Permission, handler http.HandlerFunc, op web.Route) {
		op.Tag, op.Error = "Operation", actuatorError{}
		op.Pattern, op.Permission, op.Handler = pattern, permission, handler
		routes = append(routes, op)
	}
	down := map[int]any{http.StatusServiceUnavailable: health{}} // 503 has the body of 200
	scrape := a.options.Document.Security.ScrapePermission()
	metrics := web.Route{
		Summary: "Metrics for scrapers; with security.metrics: token they take monitoring:metrics:read", Query: scrapeQuery{},
		Media: map[string]any{"text/plain": "", "application/openmetrics-text": ""}, Errors: []int{http.StatusInternalServerError},
		Replies: map[int]any{ // of the gate, where a token is needed
			http.StatusUnauthorized: web.Fault{}, http.StatusForbidden: web.Fault{}, http.StatusTooManyRequests: web.Fault{}, http.StatusServiceUnavailable: web.Fault{},
		},
	}
	add("GET /actuator/health", access.Anyone, a.Health, web.Route{Summary: "Health, and of what it is made", Reply: health{}, Replies: down})
	add("GET /actuator/health/liveness", access.Anyone, a.Liveness, web.Route{Summary: "Whether the process runs", Reply: health{}})
	add("GET /actuator/health/readiness", access.Anyone, a.Readiness, web.Route{Summary: "Whether requests are welcome", Reply: health{}, Replies: down})
	add("GET /actuator/health/detailed", access.ReadActuator, a.DetailedHealth, web.Route{Summary: "Health of every instance", Reply: health{}, Replies: down})
	add("GET /actuator/health/{component}", access.ReadActuator, a.HealthComponent, web.Route{Summary: "Health of one component", Reply: health{}, Replies: down})
	add("GET /actuator", access.ReadActuator, a.Index, web.Route{Summary: "Links to the endpoints", Reply: linkIndex{}})
	add("GET /actuator/info", access.Anyone, a.Info, web.Route{Summary: "What runs", Reply: info{}})
	add("GET /actuator/prometheus", scrape, a.Prometheus, metrics)
	metrics.AliasOf = "GET /actuator/prometheus"
	add("GET /metrics", scrape, a.Prometheus, metrics)
	add("GET /actuator/metrics", access.ReadMetrics, a.Metrics, web.Route{Summary: "The names of all metrics", Reply: metricNames{}})
	add("GET /actuator/metrics/{name}", access.ReadMetrics, a.Metric, web.Route{Summary: "One metric", Query: metricQuery{}, Reply: metricView{}})
	add("GET /actuator/env", access.ReadActuator, a.Env, web.Route{
		Summary: "The configuration and where it came from", Query: envQuery{}, Reply: envView{},
	})
	add("GET /actuator/env/{name}", access.ReadActuator, a.EnvProperty, web.Route{Summary: "One setting", Reply: envProperty{}})
	add("GET /actuator/loggers", access.ReadActuator, a.Loggers, web.Route{Summary: "All loggers and their levels", Reply: loggerList{}})
	add("GET /actuator/loggers/{name}", access.ReadActuator, a.Logger, web.Route{Summary: "The level of a logger", Reply: loggerView{}})
	add("POST /actuator/loggers/{name}", access.WriteLoggers, a.SetLogger, web.Route{
		Summary: "Set the level of a logger, or clear it with null; the audit trail has none (400)", Body: loggerRequest{}, Status: http.StatusNoContent,
	})
	return routes
}
