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
	strategy := cmp.Or(d.Text(root, "router_settings", "routing_strategy"), shuffle)
	d.litellmShares(reading.Items(models), strategy)
	for i, model := range reading.Items(models) {
		d.litellmModel(root, model, fmt.Sprintf("model_list[%d]", i))
	}
	d.nameModels()
	router, settings := reading.At(root, "router_settings"), reading.At(root, "litellm_settings")
	d.litellmRouter(router, settings)
	d.litellmLimits(reading.Items(models), strategy)
	d.litellmAliases(reading.At(router, "model_group_alias"))
	d.litellmFallbacks(router, settings)
	d.litellmCache(settings)
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

// litellmFallbacks reads which models take over for others: lists of mappings, and a list of
// models that take over for all others.
func (d *draft) litellmFallbacks(router, settings *yaml.Node) {
	hasGeneral := false
	if n, setting := d.winner(router, "fallbacks", settings, "fallbacks"); !reading.IsEmpty(n) {
		hasGeneral = true
		d.litellmFallbackList(n, setting, "fallbacks of %s")
	}
	if n, setting := d.winner(router, "default_fallbacks", settings, "default_fallbacks"); !reading.IsEmpty(n) {
		hasGeneral = true
		d.litellmDefaultFallbacks(n, setting)
	}
	n, setting := d.winner(router, "context_window_fallbacks", settings, "context_window_fallbacks")
	switch {
	case reading.IsEmpty(n):
	case hasGeneral:
		d.litellmFallbackList(n, setting, "fallbacks of %s, which take over where it is not available or full, too: "+
			"fallback-on is for all fallbacks of a service type")
	default:
		d.litellmFallbackList(n, setting, "fallbacks of %s, with fallback-on: [context]")
		for _, serviceType := range slices.Sorted(maps.Keys(d.services)) {
			if len(d.services[serviceType].fallbacks) > 0 {
				d.addPolicy(n, setting, serviceType, "fallback-on: [context]")
			}
		}
	}
}

// litellmFallbackList adds fallbacks; the text is for those that can be added.
func (d *draft) litellmFallbackList(n *yaml.Node, setting, text string) {
	for _, item := range reading.Items(n) {
		for _, e := range reading.Entries(item) {
			names, added := d.Texts(e.Value), 0
			for _, serviceType := range d.servicesOf(e.Key) {
				added = max(added, d.addFallbacks(serviceType, e.Key, names))
			}
			switch where := setting + "." + e.Key; {
			case added == 0:
				d.Unsupported(e.Value, where, "%s, or every model that takes over for it, is no instance here", e.Key)
			case added < len(names):
				d.Changed(e.Value, where, text+": those that are instances here", e.Key)
			case strings.Contains(text, "too:"):
				d.Changed(e.Value, where, text, e.Key)
			default:
				d.Taken(e.Value, where, text, e.Key)
			}
		}
	}
}

// litellmDefaultFallbacks lets models take over for all that are written down.
func (d *draft) litellmDefaultFallbacks(n *yaml.Node, setting string) {
	names, isAdded := d.Texts(n), false
	for serviceType, s := range d.services {
		for _, i := range s.instances {
			if len(i.models) == 0 {
				isAdded = d.addFallbacks(serviceType, i.name, names) > 0 || isAdded
			}
		}
	}
	if isAdded {
		d.Changed(n, setting, "fallbacks of every model that is written down; those that are discovered have none")
	} else {
		d.Unsupported(n, setting, "none of these models is an instance here, beside another one")
	}
}

// addFallbacks adds the models that may take over from another one in a service type, behind
// those that there are, and returns their number.
func (d *draft) addFallbacks(serviceType schema.ServiceType, model string, names []string) int {
	s := d.services[serviceType]
	next := fallbacks{model: escaped(model)}
	rest := slices.DeleteFunc(slices.Clone(s.fallbacks), func(f fallbacks) bool {
		if f.model == next.model {
			next.others = slices.Clone(f.others)
		}
		return f.model == next.model
	})
	added := 0
	for _, name := range names {
		if name == model || !slices.Contains(d.servicesOf(name), serviceType) {
			continue
		}
		added++
		if !slices.Contains(next.others, escaped(name)) {
			next.others = append(next.others, escaped(name))
		}
	}
	more := *s
	more.fallbacks = append(rest, next)
	if added == 0 || check("services:\n"+more.text(serviceType)) != nil {
		return 0
	}
	s.fallbacks = more.fallbacks
	return added
}

// withAlias writes the service type with a further alias.
func (s *service) withAlias(serviceType schema.ServiceType, written string) string {
	more := *s
	more.aliases = append(slices.Clone(s.aliases), written)
	return more.text(serviceType)
}

// text writes the service type.
func (s *service) text(serviceType schema.ServiceType) string {
	var b strings.Builder
	s.write(&b, serviceType)
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
			if err := check("services:\n" + s.withAlias(serviceType, written)); err != nil {
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
		strategy := map[string]string{"simple-shuffle": "random", "least-busy": "least-connections",
			"latency-based-routing": "least-time"}[d.Text(n)]
		switch strategy {
		case "":
			strategy = "round-robin"
			d.Changed(n, setting, "round-robin: there is no strategy by cost or usage; tiers prefer cheaper instances")
		case "least-time":
			d.Changed(n, setting, "load-balancer: least-time, which expects the first token by what each backend does "+
				"now; docs/balancing.md")
		default:
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
