package metrics

import (
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// collector reads the counts and the living state at every scrape.
type collector struct {
	registry *Registry
	state    func(to *State)
	build    Build
	system   *system
	families []Family
	places   map[string]int // of the families, by name
}

// collect returns every family that has series, with their present values.
func (c *collector) collect() *gathered {
	s := &scrape{collector: c, gathered: newGathered(c.families, c.places)}
	for _, service := range schema.ServiceTypes() {
		s.service(service)
	}
	for _, door := range schema.Doors() {
		s.door(door)
	}
	state := State{to: s.gathered}
	c.state(&state)
	instances := merged(state.Instances)
	for i := range instances {
		s.instance(&instances[i])
	}
	s.value(buildInfo, 1, s.build.Version, s.build.Commit, s.build.GoVersion)
	s.http()
	s.runtime()
	return s.gathered
}

// scrape is one reading.
type scrape struct {
	*collector
	*gathered
}

// none is the label of requests that no instance answered.
const none = "none"

// service adds the counts of a service type, whether or not it is configured:
// requests for one that is not are counted too.
func (s *scrape) service(service schema.ServiceType) {
	name := service.String()
	series := &s.registry.services[service]
	for _, result := range [...]schema.Result{schema.ResultFailed, schema.ResultBreakerOpen} {
		s.value("model_router_requests_total", float64(series.none.Requests(result)), name, none, result.String())
	}
	if n := series.none.Requests(schema.ResultSuccess); n > 0 { // answered without an instance
		s.value("model_router_requests_total", float64(n), name, none, schema.ResultSuccess.String())
	}
	s.longest("model_router_request_duration_seconds", read(requestBounds, 1, &series.none.duration), name, none)
	s.value("model_router_cancelled_requests_total", float64(series.none.cancelledRequests()), name, none)
	for reason := schema.ResultInvalid; reason < schema.ResultOverloaded; reason++ {
		s.value("model_router_rejected_requests_total", float64(series.rejected[reason].Value()), name, reason.String())
	}
	for how, label := range shedNames {
		s.value("model_router_shed_requests_total", float64(series.shed[how].Value()), name, label)
	}
	for _, why := range naming.Reasons() {
		s.value("model_router_fallbacks_total", float64(series.fallbacks[why].Value()), name, why.String())
	}
	s.value("model_router_split_requests_total", float64(series.split.Value()), name)
	s.value("model_router_split_pieces_total", float64(series.pieces.Value()), name)
	for how, label := range resumedNames {
		if service == schema.Chat {
			s.value("model_router_resumed_streams_total", float64(series.resumed[how].Value()), name, label)
		}
	}
	for how := HedgeWon; int(how) < HedgedCount; how++ {
		s.value("model_router_hedges_total", float64(series.hedges[how].Value()), name, how.String())
	}
	for _, what := range [...]Target{TargetKept, TargetMissed} {
		s.value("model_router_ttft_targets_total", float64(series.targets[what].Value()), name, targetNames[what])
	}
	s.longest("model_router_queue_wait_seconds", read(requestBounds, 1, &series.queueWait), name)
	for _, class := range schema.Classes() {
		if wait := read(requestBounds, 1, &series.classWait[class]); wait.count > 0 || class == schema.Normal {
			s.histogram("model_router_queue_class_wait_seconds", &wait, name, class.String())
		}
	}
	s.longest("model_router_gateway_overhead_seconds", read(overheadBounds, 1, &series.overhead), name)
}

// door adds the counts of an endpoint. Successes and errors are always there; the other
// results are many, and appear once they have occurred.
func (s *scrape) door(door schema.Door) {
	for result := range schema.Result(schema.ResultCount) {
		n := s.registry.doors[door][result].Value()
		if n > 0 || result <= schema.ResultFailed {
			s.value("model_router_door_requests_total", float64(n), door.Service().String(), door.String(),
				result.String())
		}
	}
}

// streams reports whether answers of a service type can be streams.
func streams(t schema.ServiceType) bool { return t == schema.Chat || t == schema.TTS }

func (s *scrape) instance(m *mergedInstance) {
	service, label := m.Service.String(), m.Label
	counts := m.count()
	for result, n := range counts.requests {
		s.value("model_router_requests_total", float64(n), service, label, schema.Result(result).String())
	}
	s.longest("model_router_request_duration_seconds",
		m.read(requestBounds, 1, func(i *Instance) *Histogram { return &i.duration }), service, label)
	if streams(m.Service) {
		s.longest("model_router_time_to_first_token_seconds",
			m.read(requestBounds, 1, func(i *Instance) *Histogram { return &i.firstToken }), service, label)
		perToken := m.read(tokenBounds, 1, func(i *Instance) *Histogram { return &i.perToken })
		s.histogram("model_router_time_per_output_token_seconds", &perToken, service, label)
	}
	s.value("model_router_tokens_total", float64(counts.TokensIn), service, label, "input")
	s.value("model_router_tokens_total", float64(counts.TokensOut), service, label, "output")
	s.value("model_router_cached_prompt_tokens_total", float64(counts.TokensCached), service, label)
	s.value("model_router_cost_total", float64(counts.Cost)/1e12, service, label)
	s.value("model_router_requests_in_flight", float64(m.InFlight), service, label)
	s.value("model_router_failovers_total", float64(counts.Failovers), service, label)
	s.value("model_router_mended_tool_arguments_total", float64(counts.mended), service, label)
	s.value("model_router_cancelled_requests_total", float64(counts.cancelled), service, label)
	s.value("model_router_circuit_breaker_state", float64(m.Breaker), service, label)
	s.value("model_router_load_balancer_weight", m.Weight, service, label)
	s.value("model_router_load_balancer_tier", float64(m.Tier), service, label)
	s.value("model_router_instance_healthy", boolValue(m.Healthy), service, label)
	if m.Slots > 0 {
		s.value("model_router_instance_slots", float64(m.Slots), service, label)
	}
	if m.Engine != nil {
		estimate := m.read(ratioBounds, ratioScale, func(i *Instance) *Histogram { return &i.estimate })
		s.histogram("model_router_first_token_estimate_ratio", &estimate, service, label)
		s.engine(m.Engine, service, label)
	}
}

// engine adds the fleet's knowledge of an instance.
func (s *scrape) engine(e *EngineView, service, label string) {
	s.value("model_router_fleet_queue_seconds", e.Queue, service, label)
	s.value("model_router_fleet_calls", float64(e.Waiting), service, label, "waiting")
	s.value("model_router_fleet_calls", float64(e.Decoding), service, label, "decoding")
	s.value("model_router_fleet_calls", float64(e.Others), service, label, "others")
	s.value("model_router_fleet_cached_bytes", float64(e.Cached), service, label)
	if e.Calls > 0 {
		s.value("model_router_fleet_hit_ratio", e.HitRate, service, label)
	}
	s.value("model_router_fleet_prompt_token_seconds", e.PerToken, service, label)
	s.value("model_router_fleet_output_token_seconds", e.PerOutput, service, label)
	if e.Calls > 0 {
		s.value("model_router_fleet_prefill_saved_ratio", e.Saved, service, label)
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *scrape) http() {
	for surface := range s.registry.http {
		for class := range s.registry.http[surface] {
			r := read(nil, 1, &s.registry.http[surface][class])
			if r.count == 0 && outcomeNames[class] != "SUCCESS" {
				continue // most combinations never happen
			}
			s.timer("http_server_requests_seconds", r.count, r.sum.Seconds(), surfaceNames[surface],
				outcomeNames[class])
			s.value("http_server_requests_seconds_max", r.max.Seconds(), surfaceNames[surface], outcomeNames[class])
		}
	}
}

func (s *scrape) runtime() {
	now := s.system.read(s.registry.Settings().CollectionInterval.Std())
	s.value("jvm_memory_used_bytes", now.heapUsed, "heap")
	s.value("jvm_memory_used_bytes", now.otherUsed, "nonheap")
	s.value("jvm_memory_committed_bytes", now.heapHeld, "heap")
	s.value("jvm_memory_committed_bytes", now.otherUsed, "nonheap")
	s.value("jvm_memory_max_bytes", now.limit, "heap")
	s.value("jvm_memory_max_bytes", -1, "nonheap")
	s.timer("jvm_gc_pause_seconds", now.pauses, now.paused)
	s.value("jvm_gc_pause_seconds_max", now.longestPause)
	s.value("jvm_threads_live_threads", now.goroutines)
	s.value("jvm_threads_daemon_threads", now.goroutines)
	s.value("jvm_threads_peak_threads", now.peak)
	s.value("process_uptime_seconds", now.uptime)
	s.value("process_cpu_usage", now.processCPU)
	s.value("system_cpu_usage", now.systemCPU)
	s.value("system_cpu_cores", now.cpus)
}
