package monitor

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// always returns an operation that does not depend on the request.
func always[T any](view func() T) web.Function {
	return web.Do(func(*web.Call) (T, error) { return view(), nil })
}

const mediaEvents = "text/event-stream"

// Routes returns the operations.
func (a *API) Routes() []web.Route {
	return surface().Routes("", append(a.recording(), a.traffic()...))
}

// recording returns the operations on how calls are recorded.
func (a *API) recording() []web.Route {
	return web.Group("Monitoring", access.ReadMonitoring, access.WriteMonitoring, web.OfGateway, []web.Route{
		{Pattern: "GET /api/monitoring/overview", Does: web.Do(a.overview),
			Summary: "Everything about monitoring at a glance"},
		{Pattern: "GET /api/monitoring/health", Does: web.Do(a.health),
			Summary: "Health of monitoring itself"},
		{Pattern: "GET /api/monitoring/config", Does: always(a.view),
			Summary: "The monitoring configuration"},
		{Pattern: "GET /api/monitoring/config/snapshot", Does: web.Do(a.snapshot),
			Summary: "The configuration with its time and version"},
		{Pattern: "PUT /api/monitoring/config/enabled", Does: web.DoBody(a.setEnabled),
			Summary: "Switch monitoring on or off; counts so far are kept"},
		{Pattern: "PUT /api/monitoring/config/prefix", Does: web.DoBody(a.setPrefix),
			Summary: "Change the prefix of metric names"},
		{Pattern: "PUT /api/monitoring/config/collection-interval", Does: web.DoBody(a.setInterval),
			Summary: "Change the collection interval (ISO 8601)"},
		{Pattern: "PUT /api/monitoring/config/categories", Does: web.DoBody(a.setCategories),
			Summary: "Choose the categories that are shown"},
		{Pattern: "PUT /api/monitoring/config/custom-tags", Does: web.DoBody(a.setTags),
			Summary: "Choose tags for every series"},
		{Pattern: "PUT /api/monitoring/config/capture", Permission: access.ManageContents,
			Does: web.DoBody(a.setCapture), Summary: "Choose what is kept of requests beside their records; what is " +
				"kept beyond it is forgotten at once"},
		{Pattern: "GET /api/monitoring/budgets", Permission: access.ReadQuotaUsage, Does: web.Do(a.budgetUse),
			Summary: "How much of the budgets of keys and tenants is used"},
		{Pattern: "GET /api/monitoring/errors/stats", Does: web.Do(a.errors),
			Summary: "Errors of monitoring by component"},
		{Pattern: "POST /api/monitoring/errors/reset", Does: web.DoBody(a.resetErrors),
			Summary: "Forget the errors of a component"},
		{Pattern: "GET /api/monitoring/degradation/status", Does: always(a.degradation),
			Summary: "How much is recorded"},
		{Pattern: "POST /api/monitoring/degradation/level", Does: web.DoBody(a.setLevel),
			Summary: "Set the degradation level"},
		{Pattern: "POST /api/monitoring/degradation/auto-mode", Does: web.DoBody(a.setAutoMode),
			Summary: "Let the level follow the errors, or not"},
		{Pattern: "POST /api/monitoring/degradation/force-recovery", Does: always(a.recover),
			Summary: "Return to the normal level"},
		{Pattern: "GET /api/monitoring/cache/stats", Does: always(a.cache),
			Summary: "Records that wait"},
		{Pattern: "POST /api/monitoring/cache/clear", Does: always(a.clearCache),
			Summary: "Drop the records that wait"},
		{Pattern: "GET /api/monitoring/circuit-breaker/stats", Does: always(a.guard),
			Summary: "The breaker of the recording"},
		{Pattern: "POST /api/monitoring/circuit-breaker/force-open", Does: always(a.openGuard),
			Summary: "Stop the delivery of records; traffic is not touched"},
		{Pattern: "POST /api/monitoring/circuit-breaker/force-close", Does: always(a.closeGuard),
			Summary: "Resume the delivery of records"},
	})
}

// traffic returns the operations on instances, limits and calls.
func (a *API) traffic() []web.Route {
	return web.Group("Monitoring", access.ReadMetrics, access.StopRequests, nil, []web.Route{
		{Pattern: "GET /api/monitoring/instances", Does: web.Do(a.instances),
			Summary: "Status of every instance"},
		{Pattern: "GET /api/monitoring/load-balancer", Does: web.Do(a.loadBalancer),
			Summary: "How calls were distributed"},
		{Pattern: "GET /api/monitoring/rate-limit", Does: web.Do(a.rateLimit),
			Summary: "What the rate limits leave"},
		{Pattern: "GET /api/monitoring/circuit-breaker", Does: web.Do(a.breakers),
			Summary: "The circuit breaker of every instance"},
		{
			Pattern: "GET /api/monitoring/calls", Does: web.DoWith(a.calls),
			Summary: "The calls that are kept and match, the newest first, in pages; " +
				"one line for each where Accept names application/x-ndjson",
			Media: map[string]any{mediaNDJSON: CallView{}},
		},
		{Pattern: "GET /api/monitoring/calls/summary", Does: web.DoWith(a.summary),
			Summary: "How many of the calls that are kept match, and what they name"},
		{Pattern: "GET /api/monitoring/calls/{requestId}", Does: web.DoWith(a.call),
			Summary: "One call with its timeline"},
		{Pattern: "GET /api/monitoring/calls/{requestId}/content", Permission: access.ManageContents,
			Does: web.DoWith(a.content), Audited: true,
			Concerns: web.ByReply(func(v *callContent) string { return v.tenant }),
			Summary: "What is kept of the headers and bodies of a call, " +
				"if anything is"},
		{Pattern: "GET /api/monitoring/running", Does: web.DoWith(a.running),
			Summary: "The requests that run now, the newest first"},
		{
			Pattern: "POST /api/monitoring/running/{requestId}/stop", Takes: web.Always,
			Does: web.DoBody(a.stopRunning), BodyOptional: true,
			Concerns: web.ByReply(func(v *stopped) string { return v.tenant }),
			Summary: "Stop a request that runs: its client gets an error, its backend is freed, and what it used is " +
				"settled",
		},
		{Pattern: "GET /api/monitoring/problems", Does: web.DoWith(a.problems),
			Summary: "What failed lately, by kind; the latest first"},
		{Pattern: "GET /api/monitoring/series", Does: web.DoWith(a.series),
			Summary: "The history of requests, latency, tokens, overhead and cost"},
		{Pattern: "GET /api/monitoring/figures", Does: web.DoWith(a.figures),
			Summary: "How fast services, models, instances or hosts are: quantiles with the number of requests " +
				"behind them, and the instances that are far slower than their peers, with what is known of why"},
		{
			Pattern: "GET /api/monitoring/fleet", Does: web.Do(a.fleet),
			Summary: "How well the instances are used that are balanced by least_time: " +
				"queues, caches, and the time to the first token beside that of taking turns",
		},
		{Pattern: "GET /api/monitoring/shares", Does: web.DoWith(a.shares),
			Summary: "The share of each instance in the requests of its model: expected and actual"},
		{
			Pattern: "GET /api/monitoring/live", Permission: access.ReadMonitoring, Handler: a.live, Query: liveQuery{},
			Media: map[string]any{mediaEvents: liveEvents{}},
			Summary: "The state each second, changes at once and calls as they end, as server-sent events; " +
				"the schema has the data of each event by its name",
		},
		{
			Pattern: "GET /api/monitoring/stream", Handler: a.stream,
			Media:   map[string]any{mediaEvents: ""},
			Summary: "Calls as they end, as server-sent events: the data of an event call is a call",
		},
	})
}
