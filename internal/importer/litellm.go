package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// litellm reads the configuration of LiteLLM's proxy.
func (d *draft) litellm(root *yaml.Node) error {
	models := at(root, "model_list")
	if models == nil {
		return errors.New("there is no model_list, which every configuration of LiteLLM has")
	}
	d.litellmRouter(at(root, "router_settings"))
	for i, model := range items(models) {
		d.litellmModel(model, fmt.Sprintf("model_list[%d]", i))
	}
	d.litellmAliases(at(root, "router_settings", "model_group_alias"))
	for _, section := range []string{"router_settings", "litellm_settings"} {
		d.litellmFallbacks(at(root, section, "fallbacks"), section+".fallbacks")
	}
	if n := at(root, "litellm_settings", "request_timeout"); n != nil {
		d.litellmTimeout(n, "litellm_settings.request_timeout")
	}
	if n := at(root, "litellm_settings", "num_retries"); n != nil && d.maxAttempts == 0 {
		d.litellmRetries(n, "litellm_settings.num_retries")
	}
	if key := at(root, "general_settings", "master_key"); key != nil {
		const setting = "general_settings.master_key"
		hash := d.hash(d.text(key), setting)
		d.tokens = append(d.tokens, credential{name: "litellm-master", role: "ADMIN", hash: hash})
		d.keys = append(d.keys, credential{name: "litellm-master", hash: hash})
		d.changed(key, setting, "a management token (ADMIN) and an API key; only the hash is stored. Keys that LiteLLM issued are in its database: issue new ones with patchbay keys create")
	}
	return nil
}

// litellmFallbacks reads which models take over for others: a list of mappings.
func (d *draft) litellmFallbacks(n *yaml.Node, setting string) {
	for _, item := range items(n) {
		for _, e := range entries(item) {
			d.litellmFallback(e, setting+"."+e.key)
		}
	}
}

func (d *draft) litellmFallback(e entry, setting string) {
	var names []string
	for _, other := range items(e.value) {
		names = append(names, d.text(other))
	}
	d.use(e.value)
	for _, serviceType := range schema.ServiceTypes() {
		s := d.services[serviceType]
		serves := func(name string) bool {
			return s != nil && slices.ContainsFunc(s.instances, func(i instance) bool { return i.name == name })
		}
		if !serves(e.key) {
			continue
		}
		var list []string
		for _, name := range names {
			if serves(name) && name != e.key {
				list = append(list, config.QuoteYAML(name))
			}
		}
		if len(list) == 0 || slices.ContainsFunc(s.fallbacks, func(f string) bool { return strings.HasPrefix(f, config.QuoteYAML(e.key)+": ") }) {
			break
		}
		s.fallbacks = append(s.fallbacks, config.QuoteYAML(e.key)+": ["+strings.Join(list, ", ")+"]")
		if len(list) == len(names) {
			d.taken(e.value, setting, "fallbacks of %s", e.key)
		} else {
			d.changed(e.value, setting, "fallbacks of %s: those that are instances here", e.key)
		}
		return
	}
	d.unsupported(e.value, setting, "neither %s nor a model that takes over for it is an instance here", e.key)
}

// litellmAliases reads further names of models.
func (d *draft) litellmAliases(n *yaml.Node) {
	for _, e := range entries(n) {
		setting := "router_settings.model_group_alias." + e.key
		model := firstOf(d.text(e.value), d.text(e.value, "model"))
		d.use(e.value)
		found := false
		for _, serviceType := range schema.ServiceTypes() {
			s := d.services[serviceType]
			if s != nil && slices.ContainsFunc(s.instances, func(i instance) bool { return i.name == model }) {
				s.aliases = append(s.aliases, config.QuoteYAML(e.key)+": "+config.QuoteYAML(model))
				found = true
			}
		}
		if found {
			d.taken(e.value, setting, "an alias of %s", model)
		} else {
			d.unsupported(e.value, setting, "there is no instance of %s here", model)
		}
	}
}

func (d *draft) litellmTimeout(n *yaml.Node, setting string) {
	if value, given := d.number(n); given && value > 0 {
		d.totalTimeout = seconds(value)
		d.taken(n, setting, "limits.total-timeout: %s", d.totalTimeout)
	}
}

func (d *draft) litellmRetries(n *yaml.Node, setting string) {
	if value, given := d.number(n); given && value >= 0 {
		d.maxAttempts = min(int(value)+1, 10)
		d.changed(n, setting, "limits.max-attempts: %d, each at another instance", d.maxAttempts)
	}
}

// litellmRouter reads how instances are picked and left alone.
func (d *draft) litellmRouter(router *yaml.Node) {
	if router == nil {
		return
	}
	var policy []string
	if n := at(router, "routing_strategy"); n != nil {
		const setting = "router_settings.routing_strategy"
		strategy, exact := map[string]string{"simple-shuffle": "random", "least-busy": "least-connections"}[d.text(n)]
		if !exact {
			strategy = "round-robin"
			d.changed(n, setting, "round-robin: there is no strategy by latency, cost or usage")
		} else {
			d.taken(n, setting, "load-balancer: %s", strategy)
		}
		policy = append(policy, "load-balancer: "+strategy)
	}
	var breaker []string
	if value, given := d.number(router, "allowed_fails"); given && value >= 0 {
		breaker = append(breaker, fmt.Sprintf("failure-threshold: %d", int(value)+1))
		d.changed(at(router, "allowed_fails"), "router_settings.allowed_fails", "circuit-breaker.failure-threshold: %d, of failures in a row", int(value)+1)
	}
	if value, given := d.number(router, "cooldown_time"); given && value > 0 {
		breaker = append(breaker, "recovery-timeout: "+seconds(value))
		d.taken(at(router, "cooldown_time"), "router_settings.cooldown_time", "circuit-breaker.recovery-timeout: %s", seconds(value))
	}
	if len(breaker) > 0 {
		policy = append(policy, "circuit-breaker: { "+strings.Join(breaker, ", ")+" }")
	}
	if n := at(router, "num_retries"); n != nil {
		d.litellmRetries(n, "router_settings.num_retries")
	}
	if n := at(router, "timeout"); n != nil {
		d.litellmTimeout(n, "router_settings.timeout")
	}
	if len(policy) > 0 {
		for _, serviceType := range schema.ServiceTypes() {
			d.service(serviceType).policy = policy
		}
	}
}

// litellmModel reads one entry of the list of models.
func (d *draft) litellmModel(n *yaml.Node, setting string) {
	name, params := d.text(n, "model_name"), at(n, "litellm_params")
	full := d.text(params, "model")
	if strings.Contains(name, "*") || strings.Contains(full, "*") {
		d.unsupported(n, setting, "instances have the names of models, without wildcards; add the models that you use, such as with patchbay add")
		return
	}
	if name == "" || full == "" {
		d.unsupported(n, setting, "it has no model_name or no litellm_params.model")
		return
	}
	prefix, model, hasPrefix := strings.Cut(full, "/")
	p, known := providerOf(prefix)
	switch {
	case !hasPrefix:
		p, _ = providerOf("openai")
		model = full
		if strings.HasPrefix(full, "claude") {
			p, _ = providerOf("anthropic")
		}
	case !known && at(params, "api_base") != nil:
		p, _ = providerOf("openai")
		d.changed(at(params, "model"), setting+".litellm_params.model", "the provider %s is taken for an OpenAI-compatible server, because it has an api_base", prefix)
	case !known:
		d.unsupported(n, setting, "no adapter speaks to the provider %s; if it has an OpenAI-compatible endpoint, add it with that address", prefix)
		return
	}
	serviceType, known := serviceTypeOf(d.text(n, "model_info", "mode"), model)
	if !known {
		d.unsupported(n, setting, "there is no service type for the mode %s", d.text(n, "model_info", "mode"))
		return
	}
	i, ok := d.litellmInstance(n, setting, p, serviceType, model)
	if !ok {
		return
	}
	if i.name = name; model != name {
		i.upstreamModel = model
	}
	d.addInstance(n, setting, serviceType, i)
}

// litellmInstance reads where a model is and how it is called.
func (d *draft) litellmInstance(n *yaml.Node, setting string, p provider, serviceType schema.ServiceType, model string) (instance, bool) {
	name, params := d.text(n, "model_name"), at(n, "litellm_params")
	i := instance{adapter: p.adapter, baseURL: p.baseURL, path: p.path}
	if base := firstOf(d.text(params, "api_base"), d.text(params, "base_url")); base != "" {
		i.baseURL, i.path = plainReference(base), ""
	}
	if kinds.Check(i.adapter, serviceType) != nil {
		d.unsupported(n, setting, "the adapter %s does not serve %s", i.adapter, serviceType)
		return i, false
	}
	if i.baseURL == "" {
		d.unsupported(n, setting, "it has no api_base, and its provider no usual address")
		return i, false
	}
	key := d.text(params, "api_key")
	if p.names[0] == "azure" {
		path, known := azurePath(serviceType, model, firstOf(d.text(params, "api_version"), "2024-10-21"))
		if !known {
			d.unsupported(n, setting, "Azure has no deployments for %s", serviceType)
			return i, false
		}
		i.path = path
		i.headers = map[string]string{"api-key": d.secret(key, setting+".litellm_params.api_key", name+"_API_KEY")}
	} else if key != "" && !strings.EqualFold(key, "none") && key != "EMPTY" {
		i.apiKey = d.secret(key, setting+".litellm_params.api_key", name+"_API_KEY")
	} else if key == "" && p.variable != "" && at(params, "api_base") == nil {
		i.apiKey = d.secret("os.environ/"+p.variable, setting+": LiteLLM takes this key from the environment by itself", "")
	}
	d.litellmDetails(params, setting+".litellm_params", &i)
	return i, true
}

func (d *draft) litellmDetails(params *yaml.Node, setting string, i *instance) {
	weight, hasWeight := d.number(params, "weight")
	rpm, hasRPM := d.number(params, "rpm")
	switch {
	case hasWeight:
		i.weight, i.noTraffic = weight, weight == 0
	case hasRPM && rpm > 0:
		i.weight = min(rpm, 1e6)
	}
	if hasRPM {
		d.changed(at(params, "rpm"), setting+".rpm", "its weight among the instances of the model; a limit is set for a service type (rate-limit) or an instance (max-concurrency)")
	}
	if value, given := d.number(params, "order"); given && value > 0 {
		i.tier = min(int(value), maxTier)
	}
	if value, given := d.number(params, "max_parallel_requests"); given && value > 0 {
		i.maxConcurrency = int(value)
	}
	if value, given := d.number(params, "timeout"); given && value > 0 {
		i.timeouts = append(i.timeouts, "total: "+seconds(value))
	}
	if value, given := d.number(params, "stream_timeout"); given && value > 0 {
		i.timeouts = append(i.timeouts, "first-token: "+seconds(value))
	}
	headers := map[string]string{}
	if organization := d.text(params, "organization"); organization != "" {
		headers["OpenAI-Organization"] = d.secret(organization, setting+".organization", "OPENAI_ORGANIZATION")
	}
	for _, header := range entries(at(params, "extra_headers")) {
		headers[header.key] = d.secret(d.text(header.value), setting+".extra_headers."+header.key, header.key)
	}
	for name, value := range headers {
		if i.headers == nil {
			i.headers = map[string]string{}
		}
		i.headers[name] = value
	}
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// plainReference writes a reference of a source as one of ours; other text stays.
func plainReference(text string) string {
	if name := referenceOf(text); name != "" && !springReference.MatchString(text) {
		return "${" + name + "}"
	}
	return strings.TrimRight(text, "/")
}
