package say

// facts are sentences about the state of the gateway: versions, instances, explained requests,
// processes, batches, the ledger and discoveries.
var facts = []Entry{
	// Problems: the object and the cause, and the headline above them.
	{"headline.none", "No service has an instance yet."},
	{"headline.one", "The service {service} answers."},
	{"headline.all", "All {count} services answer."},
	{"problem.dead", "{models} at {host} does not answer. Calls lost: {lost}. {*cause}"},
	{"problem.lost", "{models} at {host}: calls lost: {lost}, rescued: {rescued}. {*cause}"},
	{"problem.rescued", "{models} at {host}: calls rescued: {rescued}. {*cause}"},
	{"problem.refused", "{models} at {host}: calls refused: {refused}. {*cause}"},
	{"problem.request_lost", "{name}: calls lost before a backend was asked: {lost}. {*cause}"},
	{"problem.request_refused", "{name}: calls refused: {refused}. {*cause}"},
	{"problem.unknown", `No model is called "{name}". Calls refused: {refused}.`},
	{"problem.strangers", "Calls without a valid key: {refused}."},
	{"problem.limit", "{*who} is at its limit, which refused {refused} of {calls} calls in the last 5 minutes."},
	{"problem.budget", "{*who} is out of its budget, which refused {refused} of {calls} calls in the last 5 minutes."},
	{"problem.reserved", "{*who}: requests that run have reserved the rest of the budget, which refused {refused} of " +
		"{calls} calls in the last 5 minutes."},
	{"problem.refused_past", "{*who}: calls refused by a limit: {refused}."},
	{"problem.code", "The code is {code}."},
	{"found.budget", "{*who} is out of its budget."},
	{"found.model_down", "{model} does not answer: {*why}"},
	{"found.service_down", "{service} does not answer: no instance of its {count} models can serve."},
	{"found.replaced", "{model} does not answer, and {by} answers for it."},
	{"found.troubled", "{instance} takes no requests: {*why}"},
	{"who.tenant", "Tenant {name}"},
	{"who.key", "Key {name}"},
	{"who.service", "Service {name}"},
	{"who.model", "Model {name}"},
	{"who.instances", "Every instance of {name}"},
	{"who.other", "{name}"},

	// Versions: the description of a version.
	{"version.first", "read from the configuration file"},
	{"version.file", "the configuration file changed"},
	{"version.file_counts", "the configuration file changed: {added} added, {changed} changed, {removed} removed"},
	{"version.settings", "settings beside the services"},
	{"version.deleted", "version {version} deleted"},
	{"version.unreadable", "this version cannot be read"},

	// Changes: the differences that a version makes.
	{"change.service_added", "{service}: added"},
	{"change.service_removed", "{service}: removed"},
	{"change.service_field", "{service}: {field} {from}→{to}"},
	{"change.order", "{service}: order of the instances"},
	{"change.instance_added", "{service}: +1 instance {instance}"},
	{"change.instance_removed", "{service}: -1 instance {instance}"},
	{"change.instance_enabled", "{service}: {instance} enabled"},
	{"change.instance_disabled", "{service}: {instance} disabled"},
	{"change.instance_field", "{service}: {field} {from}→{to} on {instance}"},
	{"change.instance_secret", "{service}: {field} changed on {instance}"},
	{"change.tenant_added", "tenant {tenant}: added"},
	{"change.tenant_removed", "tenant {tenant}: removed"},
	{"change.tenant_field", "tenant {tenant}: {field} {from}→{to}"},
	{"change.defaults_field", "defaults: {field} {from}→{to}"},
	{"change.section_field", "{section}: {field} {from}→{to}"},

	// Instances: why one takes no requests, and its health.
	{"instance.ready", "ready"},
	{"instance.off", "disabled"},
	{"instance.no_weight", "weight 0"},
	{"instance.faulty", "a secret of the instance cannot be used on this gateway"},
	{"instance.overloaded", "it has too much to do and is passed over for another {wait}"},
	{"instance.unhealthy", "unhealthy: {*cause}"},
	{"instance.unhealthy_plain", "unhealthy"},
	{"instance.unhealthy_path",
		"unhealthy: status {status} of GET {path}; if the backend serves requests all the same, set the instance's " +
			"health-path to one that answers, such as /health"},
	{"instance.warming", "warming up"},
	{"instance.held", "circuit breaker held open by {by} since {since}"},
	{"instance.breaker", "circuit breaker open, next trial in {wait}"},
	{"instance.at_limit", "at its rate limit"},
	{"instance.no_slot", "all {slots} slots taken"},
	{"instance.window", "the prompt is longer than its context window of {window} tokens"},
	{"instance.narrow", "another ready instance is more likely to hold the prompt in its context window"},
	{"instance.member", "it does not let callers name '{member}' (allow-members)"},
	{"instance.key", "the key may not use it"},
	{"instance.standby", "tier {tier} is used only while no instance of a lower tier is ready"},
	{"instance.dialect", "its dialect cannot express the request"},
	{"instance.no_door", "its kind does not serve {door} requests"},
	{"instance.loading", "loading, about {left} more"},
	{"instance.asleep", "{state}, loading takes about {takes}"},
	{"instance.process", "the configuration file of this gateway has no process {name}"},
	{"instance.failures", "{count} failures in a row"},
	{"instance.restored",
		"the instance came with a backup that is not signed: see whether base-url, path, proxy, tls and headers are " +
			"right, and give the key again, or stop the gateway and run patchbay restore --confirm"},

	// Slots that are learned.
	{"slots.first", "{slots} slots to begin with: no time per token has been measured yet"},
	{"slots.tried", "{slots} slots are tried, in place of {before} with {time} per token"},
	{"slots.fewer", "{slots} slots, at {time} per token: with {more} it was {slow} in place of {fast}, which is too " +
		"much for what more was done"},
	{"slots.more", "{slots} slots, at {time} per token: with {less} it was {slow} in place of {fast}, which is too " +
		"little for what less was done"},
	{"slots.enough", "{slots} slots, at {time} per token: no more have been needed so far"},

	// Slow instances: one that is far slower than a peer for the same model, and what is known of why.
	{"slow.first", "{model} at {host} takes {own} to the first token, {times} times as long as at {peer} ({theirs}; " +
		"{calls} calls): {*why}"},
	{"slow.token", "{model} at {host} takes {own} for an output token, {times} times as long as at {peer} ({theirs}; " +
		"{calls} calls): {*why}"},
	{"slow.call", "{model} at {host} takes {own} for a call, {times} times as long as at {peer} ({theirs}; {calls} " +
		"calls): {*why}"},
	{"slow.and", "{*first}, {*next}"},
	{"slow.busy", "it has {own} calls at a time, the other one {theirs}"},
	{"slow.queue", "its queue is {own} long, the other one {theirs}"},
	{"slow.memory", "the model is {state}"},
	{"slow.loading", "calls waited {time} in all for the model to load"},
	{"slow.prompts", "its prompts have {own} tokens, those of the other one {theirs}"},
	{"slow.cached", "{own} % of the tokens of its prompts come from its cache, {theirs} % at the other one"},
	{"slow.prefill", "it reads {own} tokens of prompts a second, the other one {theirs}"},
	{"slow.decode", "it takes {own} for an output token, the other one {theirs}"},
	{"slow.unknown", "prompts, caches and queues as far as they are known do not explain it; look at the host"},

	// Causes: why a backend could not be reached.
	{"cause.connection_refused", "connection refused"},
	{"cause.host_unreachable", "no route to the host"},
	{"cause.unknown_host", "unknown host"},
	{"cause.name_resolution_failed", "name resolution failed"},
	{"cause.connect_timeout", "timeout while connecting"},
	{"cause.unknown_authority", "its certificate is signed by an unknown authority"},
	{"cause.certificate_expired", "its certificate has expired or is not valid yet"},
	{"cause.certificate_wrong_name", "its certificate is for another name"},
	{"cause.certificate_invalid", "its certificate is not valid"},
	{"cause.not_tls", "it does not speak TLS"},
	{"cause.tls_failed", "the TLS handshake failed"},
	{"cause.connection_reset", "connection reset"},
	{"cause.connection_closed", "the connection was closed before the answer was complete"},
	{"cause.write_timeout", "it stopped taking the request"},
	{"cause.response_timeout", "no answer in time"},
	{"cause.idle_timeout", "it fell silent within the answer"},
	{"cause.not_http", "its answer is not HTTP"},
	{"cause.head_too_large", "the head of its answer has too many fields or is too long"},
	{"cause.forbidden_address", "its address is link-local or that of a cloud's metadata service"},
	{"cause.proxy_unreachable", "the proxy on the way to it cannot be reached"},
	{"cause.proxy_refused", "the proxy did not open the way to it"},
	{"cause.proxy_authentication", "the proxy on the way to it wants other credentials"},
	{"cause.gateway_exhausted", "the gateway has no sockets left"},
	{"cause.no_connection", "no connection"},
	{"cause.wake_failed", "its model could not be woken up"},
	{"cause.status", "status {status}"},
	{"cause.redirect", "it redirects to {to} (status {status}), which is not followed"},

	// Explain: the fate of a request.
	{"explain.refused", "the request would be refused"},
	{"explain.split", "the request would be split over {count} instances"},
	{"explain.pick", "{strategy} would pick it now"},
	{"explain.tier", "in tier {tier}"},
	{"explain.tier_only", "in tier {tier}: no instance of a lower tier is ready"},
	{"explain.prompt", "it depends on the prompt: POST the request to explain it"},
	{"explain.chance", "chance decides, in proportion to the weights"},
	{"explain.turn", "all slots are taken; the request would have turn {turn}, in about {wait}"},
	{"explain.waits", "all slots are taken; the request would wait for one"},
	{"explain.slots", "all slots are taken"},
	{"explain.soonest", "least_time would pick it now: its first token is expected after {time}"},
	{"explain.alone", "no other instance is ready"},
	{"explain.turns", "the next one costs as much, so that it is a matter of turns"},
	{"explain.load", "the next one would have to load the model first ({time})"},
	{"explain.cached", "{share} % of the prompt is in its cache, and {other} % in that of the next one"},
	{"explain.worth", "that is worth a longer queue ({time}, and {other} there)"},
	{"explain.queue", "its queue is {time}, and that of the next one {other}"},
	{"explain.faster", "it works on prompts faster than the next one"},
	{"explain.weight", "its weight is greater than that of the next one"},

	// Processes: why one failed.

	// Batches: why no line runs.

	// The ledger.
	{"quota.off", "quota-ledger-disabled: the store was not asked"},
	{"quota.journal_corrupt",
		"quota-journal-corrupt: {file} has records that are not what was written; the others are used, and the file " +
			"is kept as {kept}"},
	{"quota.redis", "quota-counter-redis-unavailable: {why}"},
	{"quota.redis_timeout", "quota-counter-redis-timeout: no answer within distributed.timeout"},
	{"quota.memory",
		"quota-memory-full: {held} counts wait for the database; new ones are counted together as {overflow}"},
	{"quota.memory_lost",
		"quota-memory-full: {held} counts wait for the database; new ones are counted together as {overflow}, and " +
			"where that cannot be, not at all"},
	{"quota.journal", "quota-journal-unavailable: {why}"},
	{"quota.store", "quota-store-unavailable: {why}"},

	// Alerts.

	// Discoveries.
	{"discover.way", "GET {path} ({adapter}): {*why}"},
	{"discover.unreached", "the backend could not be reached: {*cause}"},
	{"discover.unasked", "the backend could not be asked"},
	{"discover.panicked", "the gateway failed to read what the backend said"},
	{"discover.key", "the backend answered with status {status}: it wants another key"},
	{"discover.no_key", "the backend answered with status {status}: it wants a key"},
	{"discover.status", "the backend answered with status {status}"},
	{"discover.no_list", "the answer is no list of models"},
	{"discover.deployments",
		"lists the models that could be deployed, not the deployments that calls name; write down the deployments"},
}
