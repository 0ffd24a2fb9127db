package importer

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// jairouterPart is one file of a configuration.
type jairouterPart struct {
	file string
	root *yaml.Node
}

// jairouter reads a configuration of JAiRouter, with the local files that it includes.
func (d *draft) jairouter(root *yaml.Node) error {
	parts := []jairouterPart{{d.file, root}}
	for _, name := range d.jairouterIncludes(root) {
		content, err := d.open(name)
		if err != nil {
			d.add(Unsupported, d.file, line(at(root, "spring", "config", "import")), "spring.config.import", fmt.Sprintf("%s cannot be read: %v", name, err))
			continue
		}
		included, err := parse(name, content)
		if err != nil {
			return err
		}
		d.reserve(included)
		parts = append(parts, jairouterPart{name, included})
	}
	var globals []*yaml.Node
	for _, part := range parts {
		globals = append(globals, at(part.root, "model"))
	}
	found := false
	for i, part := range parts {
		d.file = part.file
		found = d.jairouterFile(part.root, globals) || found
		if i > 0 {
			d.leftovers(part.root, part.file)
		}
	}
	d.file = parts[0].file
	if !found {
		return errors.New("there is no model.services, which every configuration of JAiRouter has")
	}
	return nil
}

// jairouterIncludes returns the local files that a configuration includes.
func (d *draft) jairouterIncludes(root *yaml.Node) []string {
	n := at(root, "spring", "config", "import")
	list := items(n)
	if list == nil && n != nil {
		list = []*yaml.Node{n}
	}
	var names []string
	for _, item := range list {
		for name := range strings.SplitSeq(d.text(item), ",") {
			name = strings.TrimSpace(name)
			for _, prefix := range []string{"optional:", "classpath:", "file:"} {
				name = strings.TrimPrefix(name, prefix)
			}
			if name = strings.TrimPrefix(name, "/"); name != "" {
				names = append(names, name)
			}
		}
	}
	d.use(n)
	return names
}

// jairouterFile reads one file, and tells whether it has services.
func (d *draft) jairouterFile(root *yaml.Node, globals []*yaml.Node) bool {
	if port := at(root, "server", "port"); port != nil {
		d.listen = "127.0.0.1:" + d.text(port)
		d.changed(port, "server.port", "server.listen: %s; beyond loopback security must be on", d.listen)
	}
	d.jairouterKeys(at(root, "jairouter", "security", "api-key", "keys"))
	if security := at(root, "jairouter", "security"); len(d.keys) > 0 {
		for _, path := range [][]string{{"enabled"}, {"api-key", "enabled"}} {
			if n := at(security, path...); n != nil {
				d.use(n)
				d.taken(n, "jairouter.security."+strings.Join(path, "."), "security.enabled: true, because there are keys")
			}
		}
		if n := at(security, "api-key", "header-name"); n != nil {
			d.use(n)
			d.changed(n, "jairouter.security.api-key.header-name", "keys are accepted as Authorization: Bearer, X-API-Key, api-key and Jairouter_token")
		}
	}
	model := at(root, "model")
	services := at(model, "services")
	for _, e := range entries(services) {
		setting := "model.services." + e.key
		serviceType, err := schema.ParseServiceType(e.key)
		if err != nil {
			d.unsupported(e.value, setting, "%v", err)
			continue
		}
		d.jairouterService(globals, e.value, setting, serviceType)
	}
	if model != nil {
		for _, global := range []string{"load-balance", "rate-limit", "circuit-breaker", "adapter"} {
			if n := at(model, global); n != nil {
				d.use(n)
				d.changed(n, "model."+global, "written at each service type that has none of its own")
			}
		}
	}
	return services != nil
}

func (d *draft) jairouterService(globals []*yaml.Node, n *yaml.Node, setting string, serviceType schema.ServiceType) {
	s := d.service(serviceType)
	own := func(name string) (*yaml.Node, string) {
		if found := at(n, name); found != nil {
			return found, setting + "." + name
		}
		for _, model := range globals {
			if found := at(model, name); found != nil {
				return found, "model." + name
			}
		}
		return nil, ""
	}
	if balance, where := own("load-balance"); balance != nil {
		s.policy = append(s.policy, "load-balancer: "+d.jairouterStrategy(balance, where))
	}
	if limit, where := own("rate-limit"); limit != nil {
		s.policy = append(s.policy, d.jairouterLimit(limit, where))
	}
	if breaker, where := own("circuit-breaker"); breaker != nil {
		s.policy = append(s.policy, d.jairouterBreaker(breaker))
		if strings.HasPrefix(where, setting) {
			d.taken(breaker, where, "circuit-breaker")
		}
	}
	adapter, where := own("adapter")
	if name := d.text(adapter); name != "" {
		if known := d.jairouterAdapter(adapter, where, name, serviceType); known != "" {
			s.policy = append(s.policy, "adapter: "+known)
		}
	}
	for i, item := range items(at(n, "instances")) {
		d.jairouterInstance(item, fmt.Sprintf("%s.instances[%d]", setting, i), serviceType)
	}
}

func (d *draft) jairouterStrategy(n *yaml.Node, setting string) string {
	written := strings.ToLower(strings.ReplaceAll(d.text(n, "type"), "_", "-"))
	switch written {
	case "random", "round-robin", "least-connections", "ip-hash":
		if strings.Contains(setting, "services") {
			d.taken(n, setting, "load-balancer: %s", written)
		}
		return written
	case "consistent-hash":
		d.changed(n, setting, "load-balancer: ip-hash, which also keeps a client at an instance")
		return "ip-hash"
	case "latency":
		d.changed(n, setting, "load-balancer: least-connections, which also prefers instances that answer fast")
		return "least-connections"
	}
	d.changed(n, setting, "load-balancer: random, which JAiRouter uses for names that it does not know, such as %q", written)
	return "random"
}

func (d *draft) jairouterLimit(n *yaml.Node, setting string) string {
	fields := []string{}
	if d.isOff(n, "enabled") || d.text(n, "enabled") == "" {
		fields = append(fields, "enabled: false")
	}
	if algorithm := strings.ToLower(strings.ReplaceAll(d.text(n, "algorithm"), "_", "-")); algorithm != "" {
		fields = append(fields, "algorithm: "+algorithm)
	}
	for _, field := range [][2]string{{"capacity", "capacity"}, {"rate", "refill-rate"}} {
		if value := d.text(n, field[0]); value != "" {
			fields = append(fields, field[1]+": "+quoteNumber(value))
		}
	}
	perClient := strings.EqualFold(d.text(n, "client-ip-enable"), "true")
	switch scope := strings.ToLower(d.text(n, "scope")); scope {
	case "", "service":
	case "model", "instance":
		fields = append(fields, "scope: "+scope)
	case "client-ip":
		perClient = true
	default:
		d.unsupported(at(n, "scope"), setting+".scope", "a limit covers a service type, a model, an instance or a client address")
	}
	if perClient {
		fields = append(fields, "client-ip-enable: true")
	}
	if perClient && strings.Contains(setting, "services") {
		d.changed(n, setting+".client-ip-enable", "each client address has its own limit here; JAiRouter reads this setting and does not enforce it")
	}
	if value := d.text(n, "warm-up-period"); value != "" {
		fields = append(fields, "warm-up-period: "+quoteNumber(value)+"s")
	}
	if strings.Contains(setting, "services") {
		d.taken(n, setting, "rate-limit")
	}
	return "rate-limit: { " + strings.Join(fields, ", ") + " }"
}

func (d *draft) jairouterBreaker(n *yaml.Node) string {
	var fields []string
	if value := d.text(n, "enabled"); value != "" {
		fields = append(fields, "enabled: "+value)
	}
	for _, field := range [][2]string{{"failure-threshold", "failure-threshold"}, {"timeout", "recovery-timeout"}, {"recovery-timeout", "recovery-timeout"}, {"success-threshold", "success-threshold"}} {
		if value := d.text(n, field[0]); value != "" {
			fields = append(fields, field[1]+": "+quoteNumber(value))
		}
	}
	return "circuit-breaker: { " + strings.Join(fields, ", ") + " }"
}

// quoteNumber leaves numbers as they are, and quotes references.
func quoteNumber(text string) string {
	if strings.ContainsAny(text, "${}") {
		return config.QuoteYAML(text)
	}
	return text
}

// jairouterAdapter returns our name of an adapter.
func (d *draft) jairouterAdapter(n *yaml.Node, setting, name string, serviceType schema.ServiceType) string {
	if strings.Contains(name, "${") {
		return config.QuoteYAML(name)
	}
	err := kinds.Check(name, serviceType)
	if err == nil {
		kind, _ := kinds.Lookup(name)
		return kind.Name
	}
	d.changed(n, setting, "openai: %v", err)
	return "openai"
}

func (d *draft) jairouterInstance(n *yaml.Node, setting string, serviceType schema.ServiceType) {
	i := instance{name: d.text(n, "name"), baseURL: strings.TrimRight(d.text(n, "base-url"), "/"), path: d.text(n, "path")}
	d.use(at(n, "instance-id")) // name and address tell instances apart
	if i.name == "" || i.baseURL == "" {
		d.unsupported(n, setting, "it has no name or no base-url")
		return
	}
	if name := d.text(n, "adapter"); name != "" {
		i.adapter = d.jairouterAdapter(at(n, "adapter"), setting+".adapter", name, serviceType)
	}
	if weight, given := d.number(n, "weight"); given {
		i.weight, i.noTraffic = weight, weight == 0
	}
	switch strings.ToLower(d.text(n, "status")) {
	case "inactive", "disabled":
		i.disabled = true
	}
	for _, header := range entries(at(n, "headers")) {
		value := d.text(header.value)
		where := setting + ".headers." + header.key
		if bearer, isBearer := strings.CutPrefix(value, "Bearer "); isBearer && strings.EqualFold(header.key, "Authorization") {
			i.apiKey = d.secret(strings.TrimSpace(bearer), where, i.name+"_API_KEY")
			continue
		}
		if i.headers == nil {
			i.headers = map[string]string{}
		}
		i.headers[header.key] = d.secret(value, where, i.name+"_"+header.key)
	}
	d.addInstance(n, setting, serviceType, i)
}

// jairouterKeys takes API keys by their hashes.
func (d *draft) jairouterKeys(n *yaml.Node) {
	for i, key := range items(n) {
		setting := fmt.Sprintf("jairouter.security.api-key.keys[%d]", i)
		id, value := d.text(key, "key-id"), d.text(key, "key-value")
		d.text(key, "description")
		if value == "" || d.isOff(key, "enabled") {
			d.unsupported(key, setting, "it has no value or is not enabled; issue a key when it is needed (patchbay keys create)")
			continue
		}
		expires := d.text(key, "expires-at")
		if expires != "" && !strings.HasSuffix(expires, "Z") && !strings.Contains(expires, "+") {
			expires = strings.Replace(expires, " ", "T", 1) + "Z"
		}
		d.keys = append(d.keys, credential{name: firstOf(id, fmt.Sprintf("jairouter-%d", i+1)), hash: d.hash(value, setting+".key-value"), expires: expires})
		d.changed(key, setting, "API key %s, of which only the hash is stored; callers send it as Authorization: Bearer or X-API-Key", firstOf(id, fmt.Sprintf("jairouter-%d", i+1)))
	}
}
