package metrics

// Kind is the type of a family.
type Kind uint8

// The types of families; KindSummary has a count and a sum.
const (
	KindCounter Kind = iota
	KindGauge
	KindHistogram
	KindSummary
)

var kindNames = [...]string{"counter", "gauge", "histogram", "summary"}

// String returns the type in the words of the exposition format.
func (k Kind) String() string { return kindNames[k] }

// Family is one metric with all its series.
type Family struct {
	// Name is the name in the scrape with the default prefix.
	Name string
	// Dotted is the name under /actuator/metrics.
	Dotted   string
	Help     string
	Unit     string
	Category Category
	Labels   []string
	Kind     Kind
}

// buildInfo is the name of the family that says which program runs.
const buildInfo = "model_router_build_info"

// defaultPrefix is the prefix of the families' names inside the program.
const defaultPrefix = "model_router"

var (
	onService  = []string{"service"}
	onInstance = []string{"service", "instance"}
	onClass    = []string{"service", "priority"}
	onHost     = []string{"host", "model"}
	onReason   = []string{"service", "reason"}
	onOutcome  = []string{"service", "outcome"}
	onArea     = []string{"area"}
	onSurface  = []string{"uri", "outcome"}
	onStore    = []string{"store"}
	onSource   = []string{"source"}
	onBudget   = []string{"of", "window", "unit"}
)

// labelsOfWings are the labels that only families of wings have.
var labelsOfWings = []string{"action", "code", "process", "rule", "webhook"}

// families are those of the core; a wing declares its own.
var families = [...]Family{
	{"model_router_requests_total", "model.router.requests.total",
		"Unified requests that reached routing, on the instance that answered last (none where no instance did).",
		"requests", CategoryRequest, []string{"service", "instance", "status"}, KindCounter},
	{"model_router_door_requests_total", "model.router.door.requests.total",
		"Unified requests by the endpoint to which they came and how they ended, those that were refused " +
			"included.",
		"requests", CategoryRequest, []string{"service", "door", "status"}, KindCounter},
	{"model_router_request_duration_seconds", "model.router.request.duration",
		"Time from the arrival of a unified request to the end of its answer.", "seconds", CategoryRequest,
		onInstance, KindHistogram},
	{"model_router_request_duration_seconds_max", "model.router.request.duration.max",
		"Longest request since the start.", "seconds", CategoryRequest, onInstance, KindGauge},
	{"model_router_time_to_first_token_seconds", "model.router.time.to.first.token",
		"Time from the arrival of a request to the first content of its streamed answer: text, reasoning, a " +
			"refusal or a tool call.",
		"seconds", CategoryRequest, onInstance, KindHistogram},
	{"model_router_time_to_first_token_seconds_max", "model.router.time.to.first.token.max",
		"Longest time to a first token since the start.", "seconds", CategoryRequest, onInstance, KindGauge},
	{"model_router_time_per_output_token_seconds", "model.router.time.per.output.token",
		"Time per output token of a streamed answer: from its first content to its end, divided by the tokens " +
			"after the first; only of complete answers whose tokens the backend counted.",
		"seconds", CategoryRequest, onInstance, KindHistogram},
	{"model_router_first_token_estimate_ratio", "model.router.first.token.estimate.ratio",
		"True time to the first token of a streamed answer by the time that was expected when the instance was " +
			"picked; only with the strategy least_time.",
		"", CategoryRequest, onInstance, KindHistogram},
	{"model_router_tokens_total", "model.router.tokens.total",
		"Tokens that backends reported, by direction: input and output.", "tokens", CategoryRequest,
		[]string{"service", "instance", "direction"}, KindCounter},
	{"model_router_cached_prompt_tokens_total", "model.router.cached.prompt.tokens.total",
		"Input tokens that backends reported to have taken from their cache of prompts; they are in tokens_total " +
			"too.",
		"tokens", CategoryRequest, onInstance, KindCounter},
	{"model_router_cost_total", "model.router.cost.total",
		"Cost of the answers, and of calls that broke off or were given up, by the prices at the time of each; " +
			"in the unit of prices.currency.", "units",
		CategoryRequest, onInstance, KindCounter},
	{"model_router_requests_in_flight", "model.router.requests.in.flight",
		"Calls to an instance that have not ended.", "requests", CategoryRequest, onInstance, KindGauge},
	{"model_router_failovers_total", "model.router.failovers.total",
		"Failed calls to an instance after which another instance was tried.", "requests", CategoryRequest,
		onInstance, KindCounter},
	{"model_router_mended_tool_arguments_total", "model.router.mended.tool.arguments.total",
		"Arguments of earlier tool calls that were no objects of JSON and were sent as {}.", "arguments",
		CategoryRequest, onInstance, KindCounter},
	{"model_router_cancelled_requests_total", "model.router.cancelled.requests.total",
		"Requests whose client left before it had the whole answer; they are in requests_total too.", "requests",
		CategoryRequest, onInstance, KindCounter},
	{"model_router_rejected_requests_total", "model.router.rejected.requests.total",
		"Requests that were refused before a backend saw them: faults of the request and limits.", "requests",
		CategoryRequest, onReason, KindCounter},
	{"model_router_shed_requests_total", "model.router.shed.requests.total",
		"Requests that were given up for want of room.", "requests", CategoryRequest, onReason, KindCounter},
	{"model_router_fallbacks_total", "model.router.fallbacks.total",
		"Requests that another model took over, by the reason why the one before could not serve them.", "requests",
		CategoryRequest, onReason, KindCounter},
	{"model_router_split_requests_total", "model.router.split.requests.total",
		"Requests that several instances shared.", "requests", CategoryRequest, onService, KindCounter},
	{"model_router_split_pieces_total", "model.router.split.pieces.total",
		"Pieces into which such requests were split; divided by the requests, how many shared one.", "requests",
		CategoryRequest, onService, KindCounter},
	{"model_router_resumed_streams_total", "model.router.resumed.streams.total",
		"Streams that broke off and that another instance was to go on with, by what became of them.", "requests",
		CategoryRequest, onOutcome, KindCounter},
	{"model_router_hedges_total", "model.router.hedges.total",
		"Second calls that were due because the first took longer than such calls do: won (it answered first), " +
			"lost (the first did), refused (it was not made: 5 % of the calls had one, the pool was busy, or it " +
			"costs money).",
		"requests", CategoryRequest, []string{"service", "result"}, KindCounter},
	{"model_router_ttft_targets_total", "model.router.ttft.targets.total",
		"Requests that asked for their first token within a time (x-router-ttft-target), by what became of it: " +
			"kept or missed.",
		"requests", CategoryRequest, []string{"service", "result"}, KindCounter},
	{"model_router_queue_wait_seconds", "model.router.queue.wait",
		"Time that requests waited for a slot, of those that had to, whether or not they got one.", "seconds",
		CategoryRequest, onService, KindHistogram},
	{"model_router_queue_wait_seconds_max", "model.router.queue.wait.max",
		"Longest wait for a slot since the start.", "seconds", CategoryRequest, onService, KindGauge},
	{"model_router_queue_length", "model.router.queue.length", "Requests that wait for a slot now.", "requests",
		CategoryRequest, onService, KindGauge},
	{"model_router_queue_class_wait_seconds", "model.router.queue.class.wait",
		"Time that requests waited for a slot, by their priority; normal, and others of which some had to.",
		"seconds", CategoryRequest, onClass, KindHistogram},
	{"model_router_queue_class_length", "model.router.queue.class.length",
		"Requests that wait for a slot now, by their priority.", "requests", CategoryRequest, onClass, KindGauge},
	{"model_router_gateway_overhead_seconds", "model.router.gateway.overhead",
		"Time that the gateway itself took: from having the request to having begun (or sent, where it is whole) " +
			"the answer, without waiting for backends and slots.",
		"seconds", CategoryRequest, onService, KindHistogram},
	{"model_router_gateway_overhead_seconds_max", "model.router.gateway.overhead.max",
		"Longest time that the gateway itself took for a request since the start.", "seconds", CategoryRequest,
		onService, KindGauge},
	{"model_router_circuit_breaker_state", "model.router.circuit.breaker.state",
		"State of the circuit breaker: 0 CLOSED, 1 OPEN, 2 HALF_OPEN.", "", CategoryCustom, onInstance, KindGauge},
	{"model_router_rate_limit_remaining", "model.router.rate.limit.remaining",
		"Requests that the rate limit would allow at once; by client where each has its own limit; the capacity " +
			"where no limit is in force.",
		"requests", CategoryCustom, []string{"service", "client_ip"}, KindGauge},
	{"model_router_load_balancer_weight", "model.router.load.balancer.weight",
		"Configured weight of an instance; 0 gets no traffic.", "", CategoryCustom, onInstance, KindGauge},
	{"model_router_load_balancer_tier", "model.router.load.balancer.tier",
		"Configured tier of an instance; it gets traffic only while no instance of a lower tier is ready.", "",
		CategoryCustom, onInstance, KindGauge},
	{"model_router_instance_healthy", "model.router.instance.healthy",
		"Whether an instance is enabled and healthy: 1 or 0.", "", CategoryCustom, onInstance, KindGauge},
	{"model_router_instance_slots", "model.router.instance.slots",
		"Requests that an instance gets at a time, as learned; absent where max-concurrency is not auto.", "",
		CategoryCustom, onInstance, KindGauge},
	{"model_router_fleet_queue_seconds", "model.router.fleet.queue",
		"Seconds of prefill that a new request would find at an instance; only with the strategy least_time, as " +
			"all families of the fleet.",
		"seconds", CategoryCustom, onInstance, KindGauge},
	{"model_router_fleet_calls", "model.router.fleet.calls",
		"Calls to an instance by stage: waiting (for the first token), decoding, and others (of other gateways, " +
			"before the first token).",
		"requests", CategoryCustom, []string{"service", "instance", "stage"}, KindGauge},
	{"model_router_fleet_cached_bytes", "model.router.fleet.cached",
		"Bytes of prompts that an instance is believed to have cached.", "bytes",
		CategoryCustom, onInstance, KindGauge},
	{"model_router_fleet_hit_ratio", "model.router.fleet.hit.ratio",
		"Part of the tokens of prompts that came from the cache of an instance in the last 5 minutes: as it " +
			"told, or else as was believed. Absent without requests.",
		"", CategoryCustom, onInstance, KindGauge},
	{"model_router_fleet_prompt_token_seconds", "model.router.fleet.prompt.token",
		"Seconds that an instance is believed to need for a token of a prompt that it has not cached.", "seconds",
		CategoryCustom, onInstance, KindGauge},
	{"model_router_fleet_output_token_seconds", "model.router.fleet.output.token",
		"Seconds that an instance is believed to need for a token of an answer.", "seconds", CategoryCustom,
		onInstance, KindGauge},
	{"model_router_fleet_prefill_saved_ratio", "model.router.fleet.prefill.saved.ratio",
		"Part of the work on prompts that the cache of an instance saved in the last 5 minutes: an estimate. " +
			"Absent without requests.",
		"", CategoryCustom, onInstance, KindGauge},
	{"model_router_fleet_trust", "model.router.fleet.trust",
		"How far the queues that engines tell are believed, from 0 to 1.", "", CategoryCustom, nil, KindGauge},
	{"model_router_model_resident", "model.router.model.resident",
		"Whether a model is in the memory of its host: 1 or 0; only where models are kept (residency), as all " +
			"families of models.",
		"", CategoryCustom, onHost, KindGauge},
	{"model_router_model_waiting_requests", "model.router.model.waiting.requests",
		"Requests that wait for a model to be loaded.", "requests", CategoryCustom, onHost, KindGauge},
	{"model_router_model_waited_seconds_total", "model.router.model.waited.total",
		"Seconds that requests have waited for a model to be loaded, all together.", "seconds", CategoryCustom,
		onHost, KindCounter},
	{"model_router_model_loads_total", "model.router.model.loads.total",
		"How often a model was loaded or woken up.", "loads", CategoryCustom, onHost, KindCounter},
	{"model_router_model_load_failures_total", "model.router.model.load.failures.total",
		"How often a model could not be loaded.", "failures", CategoryCustom, onHost, KindCounter},
	{"model_router_model_load_refusals_total", "model.router.model.load.refusals.total",
		"How often a model was not loaded because the models in its memory are pinned.", "refusals", CategoryCustom,
		onHost, KindCounter},
	{"model_router_model_evictions_total", "model.router.model.evictions.total",
		"How often a model left the memory for another one.", "evictions", CategoryCustom, onHost, KindCounter},
	{"model_router_model_sleeps_total", "model.router.model.sleeps.total",
		"How often a model was put to sleep because nobody used it.", "sleeps", CategoryCustom, onHost, KindCounter},
	{"model_router_sign_ins_total", "model.router.sign.ins.total",
		"Sign-ins to management by outcome: accepted, denied (no rule, or refused at the provider) or failed of " +
			"people who came back from a provider, and wrong_token of requests with a management token that is not " +
			"good.",
		"sign-ins", CategoryCustom, []string{"outcome"}, KindCounter},
	{"model_router_monitoring_records_dropped_total", "model.router.monitoring.records.dropped.total",
		"Call records that were dropped because the buffer was full; counts are not affected.", "records",
		CategoryCustom, nil, KindCounter},
	{"model_router_monitoring_records_waiting", "model.router.monitoring.records.waiting",
		"Call records that wait in the pipeline.", "records", CategoryCustom, nil, KindGauge},
	{"model_router_monitoring_sampling_ratio", "model.router.monitoring.sampling.ratio",
		"Part of the calls that is recorded, by sampling and degradation.", "", CategoryCustom, nil, KindGauge},
	{"model_router_log_lines_dropped_total", "model.router.log.lines.dropped.total",
		"Lines of the log that were dropped because they were not taken fast enough or could not be written.",
		"lines", CategoryCustom, nil, KindCounter},
	{"model_router_panics_total", "model.router.panics.total",
		"Faults of the gateway that ended one request or one round of its work; the log has each with its stack.",
		"faults", CategoryCustom, nil, KindCounter},
	{"model_router_monitoring_error_components", "model.router.monitoring.error.components",
		"Parts of monitoring that reported errors lately.", "", CategoryCustom, nil, KindGauge},
	{"model_router_quota_enabled", "model.router.quota.enabled", "Whether the quota ledger counts: 1 or 0.", "",
		CategoryCustom, nil, KindGauge},
	{"model_router_quota_admitted_requests_total", "model.router.quota.admitted.requests.total",
		"Requests that the quota ledger counted.", "requests", CategoryCustom, nil, KindCounter},
	{"model_router_quota_refused_requests_total", "model.router.quota.refused.requests.total",
		"Requests that were turned away because the quota ledger could not count them.", "requests", CategoryCustom,
		nil, KindCounter},
	{"model_router_quota_unsettled_total", "model.router.quota.unsettled.total",
		"Counted requests of which it is not known how many tokens they cost.", "requests", CategoryCustom, nil,
		KindCounter},
	{"model_router_quota_degradations_total", "model.router.quota.degradations.total",
		"Requests for which the shared counter was not there, and outages of the ledger that no request met.",
		"requests", CategoryCustom, nil, KindCounter},
	{"model_router_quota_keys", "model.router.quota.keys",
		"Sets of dimensions that the quota ledger holds in memory.", "keys", CategoryCustom, nil, KindGauge},
	{"model_router_quota_cells", "model.router.quota.cells",
		"Counts that the quota ledger holds in memory, one for each key and window.", "counts", CategoryCustom, nil,
		KindGauge},
	{"model_router_quota_overflowed_total", "model.router.quota.overflowed.total",
		"Requests that the quota ledger counted for the user __overflow__, because it holds too many keys or " +
			"counts.",
		"requests", CategoryCustom, nil, KindCounter},
	{"model_router_quota_uncounted_total", "model.router.quota.uncounted.total",
		"Requests that the quota ledger left out of a window, because the database has been away for too long.",
		"requests", CategoryCustom, nil, KindCounter},
	{"model_router_quota_journal_bytes", "model.router.quota.journal",
		"Size of the journal of the quota ledger.", "bytes", CategoryCustom, nil, KindGauge},
	{"model_router_quota_last_flush_seconds", "model.router.quota.last.flush",
		"How long the latest flush of the quota ledger took.", "seconds", CategoryCustom, nil, KindGauge},
	{"model_router_quota_store_healthy", "model.router.quota.store.healthy",
		"Whether a store of the quota ledger is well, or not in use: 1 or 0.", "", CategoryCustom, onStore, KindGauge},
	{"model_router_quota_store_failures_total", "model.router.quota.store.failures.total",
		"Failures of a store of the quota ledger.", "failures", CategoryCustom, onStore, KindCounter},
	{"model_router_budget_limit", "model.router.budget.limit",
		"Budgets of keys and tenants, those of the fullest 100; costs in the unit of prices.currency.", "",
		CategoryCustom, onBudget, KindGauge},
	{"model_router_budget_used", "model.router.budget.used",
		"What is spent of a budget, on all gateways that share it, as this one knows it.", "", CategoryCustom,
		onBudget, KindGauge},
	{"model_router_budget_reserved", "model.router.budget.reserved",
		"What requests may yet spend of a budget that have not ended or wait to be let in, on all gateways that " +
			"share it, as this one knows it.",
		"", CategoryCustom, onBudget, KindGauge},
	{"model_router_budget_refused_requests_total", "model.router.budget.refused.requests.total",
		"Requests that this gateway refused because what was used of the budget left no room for them.", "requests",
		CategoryCustom, onBudget, KindCounter},
	{"model_router_budget_deferred_requests_total", "model.router.budget.deferred.requests.total",
		"Requests that this gateway told to come again, because others had reserved what was left of the budget.",
		"requests", CategoryCustom, onBudget, KindCounter},
	{"model_router_budget_accounts", "model.router.budget.accounts",
		"Keys and tenants that have budgets, also those that are not shown one by one.", "", CategoryCustom, nil,
		KindGauge},
	{"model_router_budget_store_healthy", "model.router.budget.store.healthy",
		"Whether a store of the budgets is well, or not in use: 1 or 0. While redis is 0, this gateway keeps to " +
			"its part of what was left.",
		"", CategoryCustom, onStore, KindGauge},
	{"model_router_budget_store_failures_total", "model.router.budget.store.failures.total",
		"Failures of a store of the budgets.", "failures", CategoryCustom, onStore, KindCounter},
	{"model_router_budget_refused_totals_total", "model.router.budget.refused.totals.total",
		"Totals of budgets in Redis that were not believed, because they are not signed with the master key or " +
			"cannot be true; counted each time they are read.",
		"totals", CategoryCustom, nil, KindCounter},
	{"model_router_shared_limits_healthy", "model.router.shared.limits.healthy",
		"Whether the rate limits that gateways share are exact, or none is shared: 1 or 0. While it is 0, this " +
			"gateway takes its share of each.",
		"", CategoryCustom, nil, KindGauge},
	{"model_router_shared_limits_failures_total", "model.router.shared.limits.failures.total",
		"Exchanges of shared rate limits that failed.", "failures", CategoryCustom, nil, KindCounter},
	{"model_router_shared_limits_exchanges_total", "model.router.shared.limits.exchanges.total",
		"Round trips to the store of shared rate limits, each for all limits that need one.", "exchanges",
		CategoryCustom, nil, KindCounter},
	{"model_router_shared_limits_divided_requests_total", "model.router.shared.limits.divided.requests.total",
		"Requests that were decided by this gateway's share of a shared rate limit, because the store did not " +
			"answer.",
		"requests", CategoryCustom, nil, KindCounter},
	{"model_router_fleet_exchange_healthy", "model.router.fleet.exchange.healthy",
		"Whether gateways can tell each other what they know about the fleet, or have nothing to tell: 1 or 0. " +
			"While it is 0, this gateway is alone.",
		"", CategoryCustom, nil, KindGauge},
	{"model_router_fleet_exchange_failures_total", "model.router.fleet.exchange.failures.total",
		"Connections for what gateways tell each other about the fleet that failed or were lost.", "failures",
		CategoryCustom, nil, KindCounter},
	{"model_router_fleet_exchange_gateways", "model.router.fleet.exchange.gateways",
		"Other gateways that tell this one what they know about the fleet.", "gateways",
		CategoryCustom, nil, KindGauge},
	{"model_router_fleet_exchange_sent_messages_total", "model.router.fleet.exchange.sent.messages.total",
		"Messages about the fleet that this gateway sent to others.", "messages", CategoryCustom, nil, KindCounter},
	{"model_router_fleet_exchange_received_messages_total",
		"model.router.fleet.exchange.received.messages.total",
		"Messages about the fleet that this gateway took from others.", "messages", CategoryCustom, nil, KindCounter},
	{"model_router_fleet_exchange_ignored_messages_total", "model.router.fleet.exchange.ignored.messages.total",
		"Messages about the fleet that were ignored: made with another secret, or in a form that this release " +
			"does not read.",
		"messages", CategoryCustom, []string{"reason"}, KindCounter},
	{"model_router_fleet_exchange_dropped_prompts_total", "model.router.fleet.exchange.dropped.prompts.total",
		"Prompts that other gateways were not told of, because there were more than fit into 16 KB a second.",
		"prompts", CategoryCustom, nil, KindCounter},
	{"model_router_cluster_members", "model.router.cluster.members",
		"Gateways that share the configuration, this one included, as this one sees them: up, behind (without " +
			"the latest configuration), away, or draining (it stops).",
		"", CategoryCustom, []string{"state"}, KindGauge},
	{"model_router_cluster_healthy", "model.router.cluster.healthy",
		"Whether the list of gateways can be reached, or nothing is shared: 1 or 0.", "", CategoryCustom, nil,
		KindGauge},
	{"model_router_config_source_healthy", "model.router.config.source.healthy",
		"Whether the configuration file was taken when it was read last, and whether the database of a shared " +
			"configuration is there, or it is not in use: 1 or 0.",
		"", CategoryCustom, onSource, KindGauge},
	{"model_router_config_source_failures_total", "model.router.config.source.failures.total",
		"Readings of the configuration file that were refused, and failures of the database of a shared " +
			"configuration.",
		"failures", CategoryCustom, onSource, KindCounter},
	{"model_router_build_info", "model.router.build.info", "Always 1; the labels say what runs.", "",
		CategorySystem, []string{"version", "commit", "go_version"}, KindGauge},
	{"http_server_requests_seconds", "http.server.requests", "HTTP requests by surface and class of status.",
		"seconds", CategorySystem, onSurface, KindSummary},
	{"http_server_requests_seconds_max", "http.server.requests.max", "Longest HTTP request since the start.",
		"seconds", CategorySystem, onSurface, KindGauge},
	{"jvm_memory_used_bytes", "jvm.memory.used",
		"Memory in use. There is no JVM: heap is Go's heap objects, nonheap the rest of what the Go runtime has " +
			"mapped and not returned.",
		"bytes", CategorySystem, onArea, KindGauge},
	{"jvm_memory_committed_bytes", "jvm.memory.committed",
		"Memory held from the system. There is no JVM: heap is Go's heap including free spans, nonheap stacks " +
			"and runtime structures.",
		"bytes", CategorySystem, onArea, KindGauge},
	{"jvm_memory_max_bytes", "jvm.memory.max",
		"Memory limit. There is no JVM: heap is Go's memory limit (GOMEMLIMIT), -1 where there is none; nonheap " +
			"has none.",
		"bytes", CategorySystem, onArea, KindGauge},
	{"jvm_gc_pause_seconds", "jvm.gc.pause",
		"Pauses of garbage collection. There is no JVM: these are Go's stop-the-world pauses.", "seconds",
		CategorySystem, nil, KindSummary},
	{"jvm_gc_pause_seconds_max", "jvm.gc.pause.max",
		"Longest pause of garbage collection. There is no JVM: it is the longest of Go's stop-the-world pauses " +
			"that a scrape has seen; each sees the latest 256.",
		"seconds", CategorySystem, nil, KindGauge},
	{"jvm_threads_live_threads", "jvm.threads.live", "There is no JVM: these are goroutines.", "threads",
		CategorySystem, nil, KindGauge},
	{"jvm_threads_daemon_threads", "jvm.threads.daemon",
		"There is no JVM: these are goroutines, none of which keeps the program alive but the first.", "threads",
		CategorySystem, nil, KindGauge},
	{"jvm_threads_peak_threads", "jvm.threads.peak",
		"There is no JVM: this is the largest number of goroutines that a scrape has seen.", "threads",
		CategorySystem, nil, KindGauge},
	{"process_uptime_seconds", "process.uptime", "Time since the start of the gateway.", "seconds",
		CategorySystem, nil, KindGauge},
	{"process_cpu_usage", "process.cpu.usage",
		"Part of all processors that the gateway used, from 0 to 1, over the collection interval.", "",
		CategorySystem, nil, KindGauge},
	{"system_cpu_usage", "system.cpu.usage",
		"Part of all processors that the whole system used, from 0 to 1, over the collection interval.", "",
		CategorySystem, nil, KindGauge},
	{"system_cpu_cores", "system.cpu.count", "Processors that the gateway may use.", "", CategorySystem, nil,
		KindGauge},
}
