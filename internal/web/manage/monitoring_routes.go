package manage

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/web"
)

// Routes returns the operations under /api/monitoring.
func (m *Monitoring) Routes() []web.Route {
	var routes []web.Route
	add := func(pattern string, permission access.Permission, handler http.HandlerFunc, op web.Operation) {
		op.Tag, op.Error = "Monitoring", monitoringError{}
		routes = append(routes, web.Route{Pattern: pattern, Permission: permission, Handler: handler, Operation: op})
	}
	read := func(path string, handler http.HandlerFunc, summary string, reply any) {
		add("GET /api/monitoring/"+path, access.ReadMonitoring, handler, web.Operation{Summary: summary, Reply: reply})
	}
	write := func(route string, handler http.HandlerFunc, summary string, body, reply any) {
		add(route, access.WriteMonitoring, handler, web.Operation{Summary: summary, Body: body, Reply: reply})
	}
	read("overview", m.Overview, "Everything about monitoring at a glance", overview{})
	read("health", m.MonitoringHealth, "Health of monitoring itself", monitoringHealth{})
	const config = "PUT /api/monitoring/config/"
	read("config", m.Config, "The monitoring configuration", monitoringView{})
	read("config/snapshot", m.Snapshot, "The configuration with its time and version", monitoringSnapshot{})
	write(config+"enabled", m.PutEnabled, "Switch monitoring on or off; counts so far are kept", enabledRequest{}, monitoringView{})
	write(config+"prefix", m.PutPrefix, "Change the prefix of metric names", prefixRequest{}, monitoringView{})
	write(config+"collection-interval", m.PutInterval, "Change the collection interval (ISO 8601)", intervalRequest{}, monitoringView{})
	write(config+"categories", m.PutCategories, "Choose the categories that are shown", categoriesRequest{}, monitoringView{})
	write(config+"custom-tags", m.PutTags, "Choose tags for every series", tagsRequest{}, monitoringView{})
	const monitoring = "POST /api/monitoring/"
	read("errors/stats", m.Errors, "Errors of monitoring by component", errorStats{})
	write(monitoring+"errors/reset", m.ResetErrors, "Forget the errors of a component", resetRequest{}, errorStats{})
	read("degradation/status", m.Degradation, "How much is recorded", degradation{})
	write(monitoring+"degradation/level", m.SetLevel, "Set the degradation level", degradationRequest{}, degradation{})
	write(monitoring+"degradation/auto-mode", m.SetAutoMode, "Let the level follow the errors, or not", enabledRequest{}, degradation{})
	write(monitoring+"degradation/force-recovery", m.ForceRecovery, "Return to the normal level", nil, degradation{})
	read("cache/stats", m.Cache, "Records that wait", cacheStats{})
	write(monitoring+"cache/clear", m.ClearCache, "Drop the records that wait", nil, cacheStats{})
	read("circuit-breaker/stats", m.BreakerStats, "The breaker of the recording", guardStats{})
	write(monitoring+"circuit-breaker/force-open", m.ForceOpen, "Stop the delivery of records; traffic is not touched", nil, guardStats{})
	write(monitoring+"circuit-breaker/force-close", m.ForceClose, "Resume the delivery of records", nil, guardStats{})
	show := func(path string, handler http.HandlerFunc, op web.Operation) {
		add("GET /api/monitoring/"+path, access.ReadMetrics, handler, op)
	}
	show("instances", m.Instances, web.Operation{Summary: "Status of every instance", Reply: instanceStatuses{}})
	show("load-balancer", m.LoadBalancer, web.Operation{Summary: "How calls were distributed", Reply: distributions{}})
	show("rate-limit", m.RateLimit, web.Operation{Summary: "What the rate limits leave", Reply: limitStatuses{}})
	show("circuit-breaker", m.Breakers, web.Operation{Summary: "The circuit breaker of every instance", Reply: breakerList{}})
	show("calls", m.Calls, web.Operation{Summary: "The latest calls, the newest first", Query: callsQuery{}, Reply: callList{}})
	show("calls/{requestId}", m.Call, web.Operation{Summary: "One call with its timeline", Reply: callView{}})
	show("stream", m.Stream, web.Operation{
		Summary: "Calls as they end, as server-sent events: the data of an event call is a call", Media: map[string]any{"text/event-stream": ""},
	})
	return routes
}
