package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// litellm reads the configuration of LiteLLM's proxy.
func (d *draft) litellm(file File) error {
	root, err := d.parse(file)
	if err != nil {
		return err
	}
	root = d.litellmIncludes(root)
	if !slices.ContainsFunc(litellmSections, func(name string) bool { return reading.At(root, name) != nil }) {
		return fmt.Errorf("this is no configuration of LiteLLM: it has none of %s", strings.Join(litellmSections, ", "))
	}
	for _, e := range reading.Entries(reading.At(root, "environment_variables")) {
		if value := d.Text(e.Value); value != "" {
			d.environment[e.Key] = value
		}
	}
	models := reading.At(root, "model_list")
	if len(reading.Items(models)) == 0 {
		d.Unsupported(models, "model_list", "there are no models: those that LiteLLM keeps in its database are not "+
			"in this file; add them with patchbay add")
	}
	for i, model := range reading.Items(models) {
		d.litellmModel(root, model, fmt.Sprintf("model_list[%d]", i))
	}
	router, settings := reading.At(root, "router_settings"), reading.At(root, "litellm_settings")
	d.litellmRouter(router, settings)
	d.litellmAliases(reading.At(router, "model_group_alias"))
	d.litellmFallbacks(router, settings)
	d.litellmMasterKey(reading.At(root, "general_settings", "master_key"))
	d.litellmEnvironment(reading.At(root, "environment_variables"))
	d.leftovers(root, "")
	return nil
}

// litellmSections are the sections of configurations of LiteLLM.
var litellmSections = []string{"model_list", "litellm_settings", "router_settings", "general_settings",
	"environment_variables", "guardrails", "mcp_servers"}

// litellmIncludes adds the files that a configuration includes: their lists are appended,
// and anything else replaces earlier values.
func (d *draft) litellmIncludes(root *yaml.Node) *yaml.Node {
	waiting := reading.Items(reading.At(root, "include"))
	d.Use(reading.At(root, "include"))
	for n := 0; n < len(waiting) && n < 100; n++ {
		setting, name := fmt.Sprintf("include[%d]", n), d.Text(waiting[n])
		content, err := d.in.Open(name)
		if err == nil {
			var included *yaml.Node
			if included, err = d.parse(File{Name: name, Content: content}); err == nil {
				d.Taken(waiting[n], setting, "%s was read", name)
				waiting = append(waiting, reading.Items(reading.At(included, "include"))...)
				d.Use(reading.At(included, "include"))
				root = d.litellmJoin(root, included)
				continue
			}
		}
		d.Unsupported(waiting[n], setting, "%s cannot be read: %v", name, err)
	}
	return root
}

func (d *draft) litellmJoin(root, included *yaml.Node) *yaml.Node {
	joined := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: root.Line}
	d.Derive(joined, root)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], reading.Resolved(root.Content[i+1])
		if more := reading.At(included, key.Value); more != nil {
			if more.Kind == yaml.SequenceNode && value.Kind == yaml.SequenceNode {
				all := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: value.Line,
					Content: append(slices.Clone(value.Content), more.Content...)}
				d.Derive(all, value)
				value = all
			} else {
				d.NotInForce(value, key.Value, "%s:%d replaces it", d.FileOf(more), more.Line)
				value = more
			}
		}
		joined.Content = append(joined.Content, key, value)
	}
	for i := 0; i+1 < len(included.Content); i += 2 {
		if reading.At(root, included.Content[i].Value) == nil {
			joined.Content = append(joined.Content, included.Content[i], included.Content[i+1])
		}
	}
	return joined
}

// litellmMasterKey makes a token and a key from the master key, which manages LiteLLM and
// may call every model.
func (d *draft) litellmMasterKey(n *yaml.Node) {
	const setting = "general_settings.master_key"
	value := d.Text(n)
	if value == "" {
		return
	}
	hash := d.hash(value, setting)
	d.tokens = append(d.tokens, credential{name: "litellm-master", role: "ADMIN", hash: hash})
	d.keys = append(d.keys, credential{name: "litellm-master", hash: hash})
	d.Changed(n, setting, "a management token (ADMIN) and an API key, of which only the hash is known here. Keys "+
		"that LiteLLM issued are in its database: issue new ones with patchbay keys create")
}

// litellmEnvironment reports the outcome of the variables that the configuration sets.
func (d *draft) litellmEnvironment(n *yaml.Node) {
	for _, e := range reading.Entries(n) {
		setting := "environment_variables." + e.Key
		switch {
		case d.Text(e.Value) == "":
		case slices.ContainsFunc(d.variables, func(v Variable) bool { return v.Name == e.Key }):
			d.Changed(e.Value, setting, "a variable of the environment; --env-file writes it")
		default:
			d.Unsupported(e.Value, setting, "nothing that was imported refers to it")
		}
	}
}

// litellmFallbacks reads which models take over for others: a list of mappings.
func (d *draft) litellmFallbacks(router, settings *yaml.Node) {
	n, setting := reading.At(router, "fallbacks"), "router_settings.fallbacks"
	if other := reading.At(settings, "fallbacks"); n == nil {
		n, setting = other, "litellm_settings.fallbacks"
	} else if other != nil {
		d.NotInForce(other, "litellm_settings.fallbacks", "router_settings.fallbacks goes before it")
	}
	for _, item := range reading.Items(n) {
		for _, e := range reading.Entries(item) {
			d.litellmFallback(e, setting+"."+e.Key)
		}
	}
}

func (d *draft) litellmFallback(e reading.Entry, setting string) {
	names := d.Texts(e.Value)
	for _, serviceType := range d.servicesOf(e.Key) {
		s := d.services[serviceType]
		var others []string
		for _, name := range names {
			if slices.Contains(d.servicesOf(name), serviceType) && name != e.Key &&
				!slices.Contains(others, escaped(name)) {
				others = append(others, escaped(name))
			}
		}
		if len(others) == 0 {
			continue
		}
		written := config.QuoteYAML(escaped(e.Key)) + ": " + list(others)
		if err := check("services:\n" + s.with(serviceType, nil, []string{written})); err != nil {
			d.Unsupported(e.Value, setting, "%s", faultOf(err))
			return
		}
		s.fallbacks = append(s.fallbacks, written)
		if len(others) == len(names) {
			d.Taken(e.Value, setting, "fallbacks of %s", e.Key)
		} else {
			d.Changed(e.Value, setting, "fallbacks of %s: those that are instances here", e.Key)
		}
		return
	}
	d.Unsupported(e.Value, setting, "%s, or every model that takes over for it, is no instance here", e.Key)
}

// with writes a service type with further aliases and fallbacks.
func (s *service) with(serviceType schema.ServiceType, aliases, fallbacks []string) string {
	more := *s
	more.aliases, more.fallbacks = append(slices.Clone(s.aliases), aliases...),
		append(slices.Clone(s.fallbacks), fallbacks...)
	var b strings.Builder
	more.write(&b, serviceType)
	return b.String()
}

// litellmAliases reads further names of models.
func (d *draft) litellmAliases(n *yaml.Node) {
	for _, e := range reading.Entries(n) {
		setting := "router_settings.model_group_alias." + e.Key
		model := cmp.Or(d.Text(e.Value), d.Text(e.Value, "model"))
		if hidden := reading.At(e.Value, "hidden"); hidden != nil && !d.IsOff(hidden) {
			d.Unsupported(hidden, setting+".hidden", "aliases are listed among the models")
		}
		fault := fmt.Sprintf("there is no instance of %s here", model)
		found := false
		for _, serviceType := range d.servicesOf(model) {
			s := d.services[serviceType]
			written := config.QuoteYAML(escaped(e.Key)) + ": " + config.QuoteYAML(escaped(model))
			if err := check("services:\n" + s.with(serviceType, []string{written}, nil)); err != nil {
				fault = faultOf(err)
				continue
			}
			s.aliases = append(s.aliases, written)
			found = true
		}
		if found {
			d.Taken(e.Value, setting, "an alias of %s", model)
		} else {
			d.Unsupported(e.Value, setting, "%s", fault)
		}
	}
}

// winner returns the setting of the router or, where that has none, of LiteLLM itself, and
// names the other one.
func (d *draft) winner(router *yaml.Node, routerName string, settings *yaml.Node,
	settingsName string) (n *yaml.Node, setting string) {
	own, general := reading.At(router, routerName), reading.At(settings, settingsName)
	if own == nil || reading.IsEmpty(own) {
		return general, "litellm_settings." + settingsName
	}
	if general != nil {
		d.NotInForce(general, "litellm_settings."+settingsName, "router_settings.%s goes before it", routerName)
	}
	return own, "router_settings." + routerName
}

// litellmRouter reads how instances are picked, left alone and waited for.
func (d *draft) litellmRouter(router, settings *yaml.Node) {
	var policy []string
	if n := reading.At(router, "routing_strategy"); n != nil {
		const setting = "router_settings.routing_strategy"
		strategy, exact := map[string]string{"simple-shuffle": "random", "least-busy": "least-connections"}[d.Text(n)]
		if !exact {
			strategy = "round-robin"
			d.Changed(n, setting, "round-robin: there is no strategy by latency, cost or usage")
		} else {
			d.Taken(n, setting, "load-balancer: %s", strategy)
		}
		policy = append(policy, "load-balancer: "+strategy)
	}
	var breaker []string
	if n, setting := d.winner(router, "allowed_fails", settings, "allowed_fails"); n != nil {
		if value, given := d.Number(n); given && value >= 0 {
			breaker = append(breaker, fmt.Sprintf("failure-threshold: %d", int(value)+1))
			d.Changed(n, setting, "circuit-breaker.failure-threshold: %d, of failures in a row", int(value)+1)
		}
	}
	if value, given := d.Number(router, "cooldown_time"); given && value > 0 {
		breaker = append(breaker, "recovery-timeout: "+seconds(value))
		d.Taken(reading.At(router, "cooldown_time"), "router_settings.cooldown_time",
			"circuit-breaker.recovery-timeout: %s", seconds(value))
	}
	if len(breaker) > 0 {
		policy = append(policy, "circuit-breaker: { "+strings.Join(breaker, ", ")+" }")
	}
	for _, serviceType := range slices.Sorted(maps.Keys(d.services)) {
		for _, line := range policy {
			d.addPolicy(router, "router_settings", serviceType, line)
		}
	}
	if n, setting := d.winner(router, "num_retries", settings, "num_retries"); n != nil {
		if value, given := d.Number(n); given && value >= 0 {
			d.maxAttempts = min(int(value)+1, 10)
			d.Changed(n, setting, "limits.max-attempts: %d, each at another instance", d.maxAttempts)
		}
	}
	if n, setting := d.winner(router, "timeout", settings, "request_timeout"); n != nil {
		if value, given := d.Number(n); given && value > 0 {
			d.totalTimeout = seconds(value)
			d.Taken(n, setting, "limits.total-timeout: %s", d.totalTimeout)
		}
	}
	if value, given := d.Number(router, "stream_timeout"); given && value > 0 {
		d.firstTokenTimeout = seconds(value)
		d.Taken(reading.At(router, "stream_timeout"), "router_settings.stream_timeout",
			"limits.first-token-timeout: %s", d.firstTokenTimeout)
	}
}
