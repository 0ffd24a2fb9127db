package importer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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
	if !hasAny(root, litellmSections) {
		return fmt.Errorf("this is no configuration of LiteLLM: it has none of %s", strings.Join(litellmSections, ", "))
	}
	environment := root.At("environment_variables")
	for _, variable := range environment.Entries() {
		if value := variable.Text(); value != "" {
			d.environment[variable.Key] = value
		}
	}
	list := root.At("model_list")
	models := list.Items()
	if len(models) == 0 {
		list.Unsupported("there are no models: those that LiteLLM keeps in its database are not " +
			"in this file; add them with patchbay add")
	}
	strategy := cmp.Or(root.Text("router_settings", "routing_strategy"), shuffle)
	d.litellmShares(models, strategy)
	for _, model := range models {
		d.litellmModel(root, model)
	}
	d.nameModels()
	router, settings := root.At("router_settings"), root.At("litellm_settings")
	d.litellmRouter(router, settings)
	d.litellmLimits(models, strategy)
	d.litellmAliases(router.At("model_group_alias"))
	d.litellmFallbacks(router, settings)
	d.litellmCache(settings)
	d.litellmMasterKey(root.At("general_settings", "master_key"))
	d.litellmEnvironment(environment)
	d.leftovers(root)
	return nil
}

// litellmSections are the sections of configurations of LiteLLM.
var litellmSections = []string{"model_list", "litellm_settings", "router_settings", "general_settings",
	"environment_variables", "guardrails", "mcp_servers"}

// hasAny reports whether a document has one of these sections.
func hasAny(root reading.Setting, sections []string) bool {
	return slices.ContainsFunc(sections, func(name string) bool { return root.At(name).Exists() })
}

// litellmIncludes adds the files that a configuration includes: their lists are appended,
// and anything else replaces earlier values.
func (d *draft) litellmIncludes(root reading.Setting) reading.Setting {
	waiting := root.At("include").Items()
	root.Use("include")
	for n := 0; n < len(waiting) && n < 100; n++ {
		name := waiting[n].Text()
		include := waiting[n].As(fmt.Sprintf("include[%d]", n))
		content, err := d.in.Open(name)
		if err == nil {
			var included reading.Setting
			if included, err = d.parse(File{Name: name, Content: content}); err == nil {
				include.Taken("%s was read", name)
				waiting = append(waiting, included.At("include").Items()...)
				included.Use("include")
				root = d.litellmJoin(root, included)
				continue
			}
		}
		include.Unsupported("%s cannot be read: %v", name, err)
	}
	return root
}

func (d *draft) litellmJoin(root, included reading.Setting) reading.Setting {
	joined := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: root.Line()}
	d.Derive(joined, root.Node)
	add := func(s reading.Setting) {
		joined.Content = append(joined.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: s.Key}, s.Node)
	}
	for _, own := range root.Entries() {
		switch more := included.At(own.Key); {
		case !more.Exists():
		case more.Node.Kind == yaml.SequenceNode && own.Node.Kind == yaml.SequenceNode:
			all := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: own.Line(),
				Content: append(slices.Clone(own.Node.Content), more.Node.Content...)}
			d.Derive(all, own.Node)
			own.Node = all
		default:
			own.NotInForce("%s:%d replaces it", d.FileOf(more.Node), more.Line())
			own.Node = more.Node
		}
		add(own)
	}
	for _, more := range included.Entries() {
		if !root.At(more.Key).Exists() {
			add(more)
		}
	}
	return d.Setting("", joined)
}

// litellmMasterKey makes a token and a key from the master key, which manages LiteLLM and
// may call every model.
func (d *draft) litellmMasterKey(n reading.Setting) {
	if n.Text() == "" {
		return
	}
	hash := d.hash(n)
	d.tokens = append(d.tokens, credential{name: "litellm-master", role: "ADMIN", hash: hash})
	d.keys = append(d.keys, credential{name: "litellm-master", hash: hash})
	n.Changed("a management token (ADMIN) and an API key, of which only the hash is known here. Keys " +
		"that LiteLLM issued are in its database: issue new ones with patchbay keys create")
}

// litellmEnvironment reports the outcome of the variables that the configuration sets.
func (d *draft) litellmEnvironment(n reading.Setting) {
	for _, variable := range n.Entries() {
		switch {
		case variable.Text() == "":
		case slices.ContainsFunc(d.variables, func(v Variable) bool { return v.Name == variable.Key }):
			variable.Changed("a variable of the environment; --env-file writes it")
		default:
			variable.Unsupported("nothing that was imported refers to it")
		}
	}
}

// litellmFallbacks reads which models take over for others: lists of mappings, and a list of
// models that take over for all others.
func (d *draft) litellmFallbacks(router, settings reading.Setting) {
	general := winner(router.At("fallbacks"), settings.At("fallbacks"))
	d.litellmFallbackList(general, "fallbacks of %s")
	byDefault := winner(router.At("default_fallbacks"), settings.At("default_fallbacks"))
	d.litellmDefaultFallbacks(byDefault)
	n := winner(router.At("context_window_fallbacks"), settings.At("context_window_fallbacks"))
	switch {
	case n.IsEmpty():
	case !general.IsEmpty() || !byDefault.IsEmpty():
		d.litellmFallbackList(n, "fallbacks of %s, which take over where it is not available or full, too: "+
			"fallback-on is for all fallbacks of a service type")
	default:
		d.litellmFallbackList(n, "fallbacks of %s, with fallback-on: [context]")
		for _, serviceType := range slices.Sorted(maps.Keys(d.services)) {
			if len(d.services[serviceType].fallbacks) > 0 {
				d.addPolicy(n, serviceType, "fallback-on: [context]")
			}
		}
	}
}

// litellmFallbackList adds fallbacks; the text is for those that can be added.
func (d *draft) litellmFallbackList(n reading.Setting, text string) {
	for _, item := range n.Items() {
		for _, entry := range item.Entries() {
			names, added := entry.Texts(), 0
			for _, serviceType := range d.servicesOf(entry.Key) {
				added = max(added, d.addFallbacks(serviceType, entry.Key, names))
			}
			switch entry = entry.As(n.Name + "." + entry.Key); {
			case added == 0:
				entry.Unsupported("%s, or every model that takes over for it, is no instance here", entry.Key)
			case added < len(names):
				entry.Changed(text+": those that are instances here", entry.Key)
			case strings.Contains(text, "too:"):
				entry.Changed(text, entry.Key)
			default:
				entry.Taken(text, entry.Key)
			}
		}
	}
}

// litellmDefaultFallbacks lets models take over for all that are written down.
func (d *draft) litellmDefaultFallbacks(n reading.Setting) {
	if n.IsEmpty() {
		return
	}
	names, isAdded := n.Texts(), false
	for serviceType, s := range d.services {
		for _, i := range s.instances {
			if len(i.models) == 0 {
				isAdded = d.addFallbacks(serviceType, i.name, names) > 0 || isAdded
			}
		}
	}
	if isAdded {
		n.Changed("fallbacks of every model that is written down; those that are discovered have none")
	} else {
		n.Unsupported("none of these models is an instance here, beside another one")
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
	if added == 0 || d.faultIn(serviceType, more) != "" {
		return 0
	}
	s.fallbacks = more.fallbacks
	return added
}

// addAlias adds a name that the source gives to a model of a service type, and returns why that is not
// possible, empty if it is.
func (d *draft) addAlias(serviceType schema.ServiceType, name, model string) (fault string) {
	s := d.services[serviceType]
	more := *s
	more.aliases = append(slices.Clone(s.aliases), [2]string{quoted(escaped(name)), quoted(escaped(model))})
	if fault = d.faultIn(serviceType, more); fault == "" {
		s.aliases = more.aliases
	}
	return fault
}

// litellmAliases reads further names of models.
func (d *draft) litellmAliases(n reading.Setting) {
	for _, alias := range n.Entries() {
		model := cmp.Or(alias.Text(), alias.Text("model"))
		if hidden := alias.At("hidden"); hidden.IsOn() {
			hidden.Unsupported("aliases are listed among the models")
		}
		fault, found := fmt.Sprintf("there is no instance of %s here", model), false
		for _, serviceType := range d.servicesOf(model) {
			if fault = d.addAlias(serviceType, alias.Key, model); fault == "" {
				found = true
			}
		}
		if found {
			alias.Taken("an alias of %s", model)
		} else {
			alias.Unsupported("%s", fault)
		}
	}
}

// winner returns the setting of the router or, if that is empty, of LiteLLM itself, and names the
// other one.
func winner(own, general reading.Setting) reading.Setting {
	if own.IsEmpty() {
		return general
	}
	if general.Exists() {
		general.NotInForce("%s goes before it", own.Name)
	}
	return own
}

// litellmRouter reads how instances are picked, left alone and waited for.
func (d *draft) litellmRouter(router, settings reading.Setting) {
	var policy []string
	if n := router.At("routing_strategy"); n.Exists() {
		strategy := map[string]string{"simple-shuffle": "random", "least-busy": "least-connections",
			"latency-based-routing": "least-time"}[n.Text()]
		switch strategy {
		case "":
			strategy = "round-robin"
			n.Changed("round-robin: there is no strategy by cost or usage; tiers prefer cheaper instances")
		case "least-time":
			n.Changed("load-balancer: least-time, which expects the first token by what each backend does " +
				"now; docs/balancing.md")
		default:
			n.Taken("load-balancer: %s", strategy)
		}
		policy = append(policy, "load-balancer: "+strategy)
	}
	var breaker []string
	fails := winner(router.At("allowed_fails"), settings.At("allowed_fails"))
	if value, given := fails.Number(); given && value >= 0 {
		breaker = append(breaker, fmt.Sprintf("failure-threshold: %d", int(value)+1))
		fails.Changed("circuit-breaker.failure-threshold: %d, of failures in a row", int(value)+1)
	}
	if cooldown := router.At("cooldown_time"); cooldown.Seconds() != "" {
		breaker = append(breaker, "recovery-timeout: "+cooldown.Seconds())
		cooldown.Taken("circuit-breaker.recovery-timeout: %s", cooldown.Seconds())
	}
	if len(breaker) > 0 {
		policy = append(policy, "circuit-breaker: { "+strings.Join(breaker, ", ")+" }")
	}
	for _, serviceType := range slices.Sorted(maps.Keys(d.services)) {
		for _, line := range policy {
			d.addPolicy(router, serviceType, line)
		}
	}
	retries := winner(router.At("num_retries"), settings.At("num_retries"))
	if value, given := retries.Number(); given && value >= 0 {
		d.maxAttempts = min(int(value)+1, 10)
		retries.Changed("limits.max-attempts: %d, each at another instance", d.maxAttempts)
	}
	for _, timeout := range []struct {
		n    reading.Setting
		name string
		to   *string
	}{
		{winner(router.At("timeout"), settings.At("request_timeout")), "total-timeout", &d.totalTimeout},
		{router.At("stream_timeout"), "first-token-timeout", &d.firstTokenTimeout},
	} {
		if *timeout.to = timeout.n.Seconds(); *timeout.to != "" {
			timeout.n.Taken("limits.%s: %s", timeout.name, *timeout.to)
		}
	}
}
