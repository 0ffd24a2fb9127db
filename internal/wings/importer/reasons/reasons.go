// Package reasons explains why settings of other gateways have no place here, and names a
// remedy.
package reasons

import (
	"fmt"
	"strings"
)

// For explains why a setting of a source has no place here and names a remedy. It reports
// whether the text is about this very setting.
func For(source, path string) (text string, isKnown bool) {
	for _, r := range known {
		if (r.source == "" || r.source == source) && strings.Contains(path, r.part) {
			return r.text, true
		}
	}
	return "the import makes nothing of it; docs/configuration.md lists the settings", false
}

// ForProvider says why models of a provider cannot be served.
func ForProvider(name string) string {
	switch lower := strings.ToLower(name); {
	case strings.HasPrefix(lower, "bedrock"):
		return fmt.Sprintf("requests to %s must be signed, which no adapter does; with a Bedrock API key use "+
			"patchbay add bedrock, or bedrock-claude for Claude; docs/providers.md", name)
	case strings.HasPrefix(lower, "sagemaker"):
		return fmt.Sprintf("requests to %s must be signed, which no adapter does; use an OpenAI-compatible endpoint",
			name)
	case strings.HasPrefix(lower, "vertex"):
		return fmt.Sprintf("%s needs tokens of Google Cloud, which no adapter gets; use the gemini adapter with an "+
			"API key", name)
	}
	return fmt.Sprintf("no adapter speaks to the provider %s; if it has an OpenAI-compatible endpoint, add it with "+
		"that address", name)
}

// reason explains why settings with a certain part in their path have no place here.
type reason struct {
	source     string // empty: any
	part, text string
}

// known are tried in this order.
var known = []reason{
	{"litellm", "general_settings.database", "keys are in the data directory, or in PostgreSQL with store.config"},
	{"litellm", "master_key", "there is one master key"},
	{"litellm", "content_policy_fallbacks", "an answer that refuses is an answer, and no other model is asked"},
	{"litellm", "fallbacks", "write it as fallbacks of the service type; docs/failures.md"},
	{"litellm", "callback", "calls are in the access log, in OpenTelemetry traces and at /api/monitoring/calls, " +
		"for days with monitoring.calls-file; docs/monitoring.md"},
	{"litellm", "otel", "set telemetry by hand"},
	{"litellm", "alerting", "alerts.webhooks posts alerts to Slack, Teams and others; docs/alerts.md"},
	{"litellm", "cache", "answer-cache has no such setting; docs/configuration.md"},
	{"litellm", "redis", "set redis.url, and shared: true at the rate limits that gateways share; docs/scaling.md"},
	{"litellm", "guardrails", "there are no guardrails: what they refuse or mask passes; keep them before the gateway"},
	{"litellm", "policies", "there are no guardrails: what they refuse or mask passes; keep them before the gateway"},
	{"litellm", "policy_attachments", "there are no guardrails: what they refuse or mask passes"},
	{"litellm", "mcp", "there is no MCP gateway"},
	{"litellm", "_tools", "there are no tools of the gateway's own; those of the caller and of the backend pass"},
	{"litellm", "interception", "there are no tools of the gateway's own; those of the caller and of the backend pass"},
	{"litellm", "pass_through_endpoints", "only the endpoints of docs/clients.md are served"},
	{"litellm", "finetune_settings", "there is no endpoint for fine-tuning"},
	{"litellm", "files_settings", "files are kept by the gateway itself, and batches run on any backend, with " +
		"batches.enabled: true; docs/batches.md"},
	{"litellm", "assistant_settings", "there is no endpoint for assistants"},
	{"litellm", "credential_info", "there are no notes at credentials; comments of the file may have them"},
	{"litellm", "credential_values", "the models that use this credential have no place for it"},
	{"litellm", "credential_list", "no model that was imported refers to it"},
	{"litellm", "custom_auth", "there is no code of users in the gateway; issue keys with patchbay keys create"},
	{"litellm", "key_management", "variables of the environment and ${file:...} have the secrets; " +
		"docs/configuration.md"},
	{"litellm", "background_health_checks", "health checks run always, and never call a model; health-check of a " +
		"service type sets them"},
	{"litellm", "health_check", "health checks never call a model; health-check of a service type sets them"},
	{"litellm", "tpm", "tokens a minute are limits of keys and tenants here"},
	{"litellm", "rpm", "requests a minute are limits of keys and tenants, and rate-limit of a service type limits " +
		"the type, each model or each instance (rate-limit.scope)"},
	{"litellm", "_cost", "prices are for tokens, cached ones too, images, minutes of sound and spoken characters; " +
		"docs/quota.md"},
	{"litellm", "drop_params", "members that a dialect has no place for are left out or refused as docs/adapters.md " +
		"says"},
	{"litellm", "set_verbose", "log.level: debug has as much; if it is false there is nothing to do"},
	{"litellm", "budget", "budgets are set for keys and tenants (security.keys, security.tenants); docs/quota.md"},
	{"litellm", "telemetry", "nothing is reported to anybody"},
	{"litellm", "default_team_settings", "there are no teams; tenants are groups of keys"},
	{"litellm", "store_model_in_db", "versions of the configuration are in server.data-dir, or in PostgreSQL with " +
		"store.config"},
	{"litellm", "tags", "an instance is chosen by its model, not by tags of the request; instances of a key limits " +
		"where its requests go; docs/management.md"},
	{"litellm", "tag_filtering", "an instance is chosen by its model, not by tags of the request; instances of a key " +
		"limits where its requests go; docs/management.md"},
	{"litellm", "retries", "limits.max-attempts is for all models"},
	{"litellm", "region_name", "requests for a model go to all its instances, whatever their regions; instances of a " +
		"key limits where its requests go; docs/management.md"},
	{"litellm", "azure_ad", "tokens of Entra ID are not fetched; use a key"},
	{"litellm", "tenant_id", "tokens of Entra ID are not fetched; use a key"},
	{"litellm", "client_secret", "tokens of Entra ID are not fetched; use a key"},
	{"litellm", "model_info", "what is said about a model is not shown to callers"},
	{"litellm", "litellm_params.", "body of the instance sets members of requests; docs/configuration.md"},
	{"", "].description", "there are no notes at keys; comments of the file may have them"},
	{"jairouter", "permissions", "a key is for /v1 only; issue management tokens with patchbay tokens create"},
	{"jairouter", "persistence", "versions and state are files in server.data-dir, or in PostgreSQL and Redis; " +
		"docs/scaling.md"},
	{"jairouter", "fallback", "there is no answer in place of a failed one; failover tries other instances, and " +
		"fallbacks of the service type other models"},
	{"jairouter", "api-key.cache", "keys are in memory, as hashes"},
	{"jairouter", "default-expiration-days", "patchbay keys create --expires says it for each key"},
	{"jairouter", "hash-algorithm", "ip-hash needs no choice of an algorithm"},
	{"jairouter", "virtual-nodes", "ip-hash needs no virtual nodes"},
	{"jairouter", "jwt", "issue management tokens with patchbay tokens create"},
	{"jairouter", "sanitization", "answers are not changed"},
	{"jairouter", "audit", "every change is recorded without a setting; docs/audit.md"},
	{"jairouter", "security.quota", "the ledger is off unless quota.enabled is set; docs/quota.md"},
	{"jairouter", "adapter-definitions", "write adapter: openai and the header at the instances that use it"},
	{"jairouter", "springdoc", "the documents of the API are at /docs/api"},
	{"jairouter", "spring", "this is a setting of the Java framework"},
	{"jairouter", "management", "the operational endpoints are always there; security guards them"},
	{"jairouter", "logging", "set log.level, or a logger at /actuator/loggers"},
	{"jairouter", "jairouter.loadbalancer", "which instance served a call is in the access log and at " +
		"/api/monitoring/calls"},
	{"jairouter", "tracing", "set telemetry by hand"},
	{"jairouter", "metrics.prefix", "monitoring.prefix sets it"},
	{"jairouter", "monitor", "set monitoring by hand; the names of metrics differ"},
	{"jairouter", "store", "versions are files in server.data-dir"},
	{"jairouter", "webclient", "JAiRouter reads this and does not use it; limits.connect-timeout and " +
		"limits.first-byte-timeout bound calls here"},
	{"jairouter", "rate-limit", "limits are settings of a service type, with rate-limit.scope: instance for each " +
		"instance; max-concurrency is that of one"},
	{"jairouter", "circuit-breaker", "breakers are set for a service type"},
	{"bifrost", "current_usage", "what was used before is not carried over"},
	{"bifrost", "last_reset", "what was used before is not carried over"},
	{"bifrost", "override_", "a budget has no temporary addition; patchbay keys edit changes it"},
	{"bifrost", "mcp", "there is no MCP gateway"},
	{"bifrost", "plugins", "there are no plugins; what governance does is in security"},
	{"bifrost", "config_store", "versions are files in server.data-dir, or in PostgreSQL with store.config"},
	{"bifrost", "logs_store", "calls are in the access log and at /api/monitoring/calls"},
	{"bifrost", "vector_store", "there is no cache by meaning; answer-cache keeps answers of equal requests; " +
		"docs/caching.md"},
	{"bifrost", "auth_config", "issue management tokens with patchbay tokens create"},
	{"bifrost", "routing_rules", "a request goes to the instances of its model, by no rules; aliases, fallbacks and " +
		"tiers are in docs/models.md and docs/balancing.md, and instances of a key in docs/management.md"},
	{"bifrost", "model_configs", "a budget is that of a key or a tenant, not of a model"},
	{"bifrost", "governance.providers", "a budget is that of a key or a tenant, not of a provider"},
	{"bifrost", "governance.budgets", "no key and no tenant that was imported has this budget"},
	{"bifrost", "governance.rate_limits", "no key and no tenant that was imported has this limit"},
	{"bifrost", "provider_configs", "terms are those of a key and of its tenant, for all models together"},
	{"bifrost", "use_for_batch_api", "batches run on every instance of a model with batches.enabled: true, but for " +
		"those with batch-concurrency: 0; docs/batches.md"},
	{"bifrost", "use_anthropic_endpoints", "adapter: anthropic at an instance says so"},
	{"bifrost", "concurrency_and_buffer_size", "max-concurrency bounds each instance, and queue those who wait"},
	{"bifrost", "ca_cert_pem", "write it to a file, which tls.ca of the instances names"},
	{"bifrost", "insecure_skip_verify", "certificates are always checked; tls.ca names an authority of your own"},
	{"bifrost", "client_secret", "tokens of Entra ID are not fetched; use a key"},
	{"bifrost", "client_id", "tokens of Entra ID are not fetched; use a key"},
	{"bifrost", "tenant_id", "tokens of Entra ID are not fetched; use a key"},
	{"bifrost", "encryption_key", "security.master-key encrypts secrets that are stored"},
	{"llama-swap", "filters", "body of an instance sets members of requests and takes some out, no more"},
	{"llama-swap", "unlisted", "every model is listed; the models of a key say which of them it may see and use"},
	{"llama-swap", ".name", "a model has no other name for people; its aliases are names for callers"},
	{"llama-swap", ".description", "what is said about a model is not shown to callers; comments of the file " +
		"may have it"},
	{"llama-swap", "metadata", "what is said about a model is not shown to callers; comments of the file may have it"},
	{"llama-swap", "capabilities", "what a model can do is not shown to callers; it says which service type a " +
		"model is of"},
	{"llama-swap", "sendLoadingState", "residency.hold-notice is a setting of the service type, for all its models"},
	{"llama-swap", "compat", "a conversation by WebSocket starts its model, and keeps it until it ends"},
	{"llama-swap", "timeouts", "connections are kept, and checked, as is right for the kind of server"},
	{"llama-swap", "profiles", "aliases say which model a name means; the console and the API change them at any time"},
	{"llama-swap", "selectors", "a name of several models has no settings of its own"},
	{"llama-swap", "scheduler", "processes are started in the order in which somebody first waited for them; the " +
		"priority of a key says who waits less"},
	{"llama-swap", "upstream", "there is no path to the pages of a model server; GET /api/processes says where " +
		"it listens"},
	{"llama-swap", "log", "lines of processes are in the log, in its format, and at /api/processes/{name}"},
	{"llama-swap", "captureBuffer", "monitoring.capture: content keeps texts of requests and answers in memory"},
	{"llama-swap", "store", "calls are kept in a file with monitoring.calls-file"},
	{"llama-swap", "performance", "the metrics of the gateway are at /actuator/prometheus; those of the host come " +
		"from an exporter such as node_exporter"},
	{"llama-swap", "ui", "the console shows no sessions"},
	{"", "test_model", "health checks never call a model"},
	{"", "system_prompt", "messages of requests are passed on as the caller sends them"},
	{"", "param_override", "body of the instances sets members of requests; docs/configuration.md"},
	{"", "status_code_mapping", "which status means what is in docs/adapters.md"},
	{"", "].tag", "instances have no labels"},
	{"", "].remark", "instances have no notes; comments of the file may have them"},
}

// Group says what a setting is about, for people who want to know what behaves differently.
type Group uint8

// The groups, the most important first. Nothing is a setting that behaves as before, or that
// changes no more than its own name.
const (
	Data Group = iota
	Apart
	Working
	Nothing
)

// Title returns the title of the group.
func (g Group) Title() string {
	return [...]string{"where data goes", "who is kept apart", "how it works", ""}[g]
}

// IsOnlyWritten reports whether the text of a setting that was changed says only how it is
// written now.
func IsOnlyWritten(text string) bool {
	for _, part := range []string{"the address is spelled differently", "name and address tell instances apart",
		"is known here; callers send it", "a key is called by its id", "the variable ", "its weight was added"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// groups are tried in this order.
var groups = []struct {
	group Group
	parts []string
}{
	{Data, []string{"region", "tags", "tag_filtering", "routing_rules", "guardrail", "policies", "policy_",
		"sanitization", "fallbacks", "models ", "proxy_config", "pass_through", "].aliases"}},
	{Apart, []string{"virtual_keys", "security.keys", "teams", "customers", "master_key", "permissions", "enforce_",
		"custom_auth", "auth_config", "api-key", "default_team", "provider_configs", "users", "].group", "tokens"}},
	{Working, []string{"routing_strategy", "load-balance", "retries", "allowed_fails", "budget", "rate_limit",
		"rate-limit", "cache", "drop_params", "health_check", "callback", "mcp", "plugins", "rpm", "tpm",
		"files_settings", "batch",
		"model_list[", "providers.", "channels["}},
}

// GroupOf returns what a setting is about.
func GroupOf(setting string) Group {
	for _, g := range groups {
		for _, part := range g.parts {
			if strings.Contains(setting, part) {
				return g.group
			}
		}
	}
	return Nothing
}
