package monitor

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// routeTable collects the routes. The OpenAPI document has the types of the operations.
type routeTable []web.Route

func (t *routeTable) add(pattern string, permission access.Permission, handler http.HandlerFunc, op web.Route) {
	op.Tag, op.Error = "Monitoring", monitoringError{}
	op.Pattern, op.Permission, op.Handler = pattern, permission, handler
	*t = append(*t, op)
}

// read adds an operation that reads.
func read[T any](t *routeTable, path string, permission access.Permission, op operation[T], summary string, query any) {
	t.add("GET "+root+path, permission, handle(op), web.Route{Summary: summary, Query: query, Reply: *new(T)})
}

// withBody adds an operation that changes something and has a body.
func withBody[B, T any](t *routeTable, method, path string, op func(B) (T, error), summary string) {
	t.add(method+" "+root+path, access.WriteMonitoring, handleBody(op), web.Route{Summary: summary, Body: *new(B), Reply: *new(T)})
}

// action adds an operation that changes something and needs no body.
func action[T any](t *routeTable, path string, op func() T, summary string) {
	t.add("POST "+root+path, access.WriteMonitoring, handleAction(op), web.Route{Summary: summary, Reply: *new(T)})
}

// always returns an operation that does not depend on the request.
func always[T any](view func() T) operation[T] {
	return func(*http.Request) (T, error) { return view(), nil }
}

// Routes returns the operations.
func (a *API) Routes() []web.Route {
	t := new(routeTable)
	read(t, "/overview", access.ReadMonitoring, a.overview, "Everything about monitoring at a glance", nil)
	read(t, "/health", access.ReadMonitoring, a.health, "Health of monitoring itself", nil)
	read(t, "/config", access.ReadMonitoring, always(a.view), "The monitoring configuration", nil)
	read(t, "/config/snapshot", access.ReadMonitoring, a.snapshot, "The configuration with its time and version", nil)
	withBody(t, http.MethodPut, "/config/enabled", a.setEnabled, "Switch monitoring on or off; counts so far are kept")
	withBody(t, http.MethodPut, "/config/prefix", a.setPrefix, "Change the prefix of metric names")
	withBody(t, http.MethodPut, "/config/collection-interval", a.setInterval, "Change the collection interval (ISO 8601)")
	withBody(t, http.MethodPut, "/config/categories", a.setCategories, "Choose the categories that are shown")
	withBody(t, http.MethodPut, "/config/custom-tags", a.setTags, "Choose tags for every series")
	t.add("PUT "+root+"/config/capture", access.ManageContents, a.setCapture, web.Route{
		Summary: "Choose what is kept of requests beside their records; what is kept beyond it is forgotten at once",
		Body:    captureRequest{}, Reply: monitoringView{},
	})
	read(t, "/budgets", access.ReadQuotaUsage, a.budgetUse, "How much of the budgets of keys and tenants is used", nil)
	read(t, "/errors/stats", access.ReadMonitoring, a.errors, "Errors of monitoring by component", nil)
	withBody(t, http.MethodPost, "/errors/reset", a.resetErrors, "Forget the errors of a component")
	read(t, "/degradation/status", access.ReadMonitoring, always(a.degradation), "How much is recorded", nil)
	withBody(t, http.MethodPost, "/degradation/level", a.setLevel, "Set the degradation level")
	withBody(t, http.MethodPost, "/degradation/auto-mode", a.setAutoMode, "Let the level follow the errors, or not")
	action(t, "/degradation/force-recovery", a.recover, "Return to the normal level")
	read(t, "/cache/stats", access.ReadMonitoring, always(a.cache), "Records that wait", nil)
	action(t, "/cache/clear", a.clearCache, "Drop the records that wait")
	read(t, "/circuit-breaker/stats", access.ReadMonitoring, always(a.guard), "The breaker of the recording", nil)
	action(t, "/circuit-breaker/force-open", a.openGuard, "Stop the delivery of records; traffic is not touched")
	action(t, "/circuit-breaker/force-close", a.closeGuard, "Resume the delivery of records")
	read(t, "/instances", access.ReadMetrics, a.instances, "Status of every instance", nil)
	read(t, "/load-balancer", access.ReadMetrics, a.loadBalancer, "How calls were distributed", nil)
	read(t, "/rate-limit", access.ReadMetrics, a.rateLimit, "What the rate limits leave", nil)
	read(t, "/circuit-breaker", access.ReadMetrics, a.breakers, "The circuit breaker of every instance", nil)
	t.add("GET "+root+"/calls", access.ReadMetrics, a.calls, web.Route{
		Summary: "The calls that are kept and match, the newest first, in pages; one line for each where Accept names application/x-ndjson",
		Query:   callsQuery{}, Reply: callList{}, Media: map[string]any{mediaNDJSON: callView{}},
	})
	read(t, "/calls/{requestId}", access.ReadMetrics, a.call, "One call with its timeline", callQuery{})
	t.add("GET "+root+"/calls/{requestId}/content", access.ManageContents, handle(a.content), web.Route{
		Summary: "What is kept of the headers and bodies of a call, if anything is", Query: callQuery{}, Reply: callContent{}, Audited: true,
	})
	read(t, "/running", access.ReadMetrics, a.running, "The requests that run now, the newest first", runningQuery{})
	t.add("POST "+root+"/running/{requestId}/stop", access.StopRequests, a.stopRunning, web.Route{
		Summary: "Stop a request that runs: its client gets an error, its backend is freed, and what it used is settled", Body: stopRequest{}, Reply: stopped{},
	})
	read(t, "/problems", access.ReadMetrics, a.problems, "What failed lately, by kind; the latest first", problemsQuery{})
	read(t, "/series", access.ReadMetrics, a.series, "The history of requests, latency, tokens, overhead and cost", seriesQuery{})
	read(t, "/fleet", access.ReadMetrics, a.fleet, "How well the instances are used that are balanced by least_time: queues, caches, and the time to the first token beside that of taking turns", nil)
	read(t, "/shares", access.ReadMetrics, a.shares, "The share of each instance in the requests of its model: expected and actual", sharesQuery{})
	t.add("GET "+root+"/live", access.ReadMonitoring, a.live, web.Route{
		Summary: "The state each second, changes at once and calls as they end, as server-sent events; the schema has the data of each event by its name",
		Query:   liveQuery{}, Media: map[string]any{"text/event-stream": liveEvents{}},
	})
	t.add("GET "+root+"/stream", access.ReadMetrics, a.stream, web.Route{
		Summary: "Calls as they end, as server-sent events: the data of an event call is a call", Media: map[string]any{"text/event-stream": ""},
	})
	return *t
}
