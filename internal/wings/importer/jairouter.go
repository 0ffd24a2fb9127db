package importer

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/services"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/spring"
)

// jairouter reads a configuration of JAiRouter, with the local files that belong to it.
func (d *draft) jairouter(main File) error {
	root, err := spring.Read(d.Account, spring.Input{Main: main, Open: d.in.Open, Profiles: d.in.Profiles})
	if err != nil {
		return err
	}
	d.reserve(root)
	d.springRoot = root
	model := reading.At(root, "model")
	if model == nil && reading.At(root, "services") != nil {
		model = root // a version that JAiRouter stored
	}
	services := reading.At(model, "services")
	if services == nil {
		if name := filepath.Base(main.Name); strings.HasPrefix(name, "application-") {
			return errors.New("there is no model.services: this is the file of a profile; give application.yml, and " +
				"--profile with the name of the profile")
		}
		return errors.New("there is no model.services, which every configuration of JAiRouter has")
	}
	d.jairouterServer(root)
	d.jairouterSecurity(reading.At(root, "jairouter", "security"))
	for _, e := range reading.Entries(services) {
		setting := "model.services." + e.Key
		serviceType, err := schema.ParseServiceType(e.Key)
		if err != nil {
			d.Unsupported(e.Value, setting, "%v", err)
			continue
		}
		d.jairouterService(model, e.Value, setting, serviceType)
	}
	d.jairouterGlobals(model)
	d.leftovers(root, "")
	return nil
}

// jairouterGlobals reports the outcome of the settings for all service types, which may all
// have their own.
func (d *draft) jairouterGlobals(model *yaml.Node) {
	for _, global := range []struct {
		name    string
		members []string
	}{
		{"load-balance", []string{"type"}},
		{"rate-limit", []string{"enabled", "algorithm", "capacity", "rate", "scope", "client-ip-enable",
			"warm-up-period"}},
		{"circuit-breaker", []string{"enabled", "failure-threshold", "timeout", "recovery-timeout",
			"success-threshold"}},
		{"adapter", nil},
	} {
		n := reading.At(model, global.name)
		if n == nil {
			continue
		}
		d.Text(n)
		for _, name := range global.members {
			d.Use(reading.At(n, name))
		}
		d.Changed(n, "model."+global.name, "written at each service type that has none of its own")
	}
}

func (d *draft) jairouterServer(root *yaml.Node) {
	port := reading.At(root, "server", "port")
	if port == nil {
		return
	}
	const setting = "server.port"
	listen := "127.0.0.1:" + d.plain(d.Text(port), setting, "8080")
	if err := check("server:\n  listen: " + config.QuoteYAML(listen) + "\n"); err != nil {
		d.Unsupported(port, setting, "%s", faultOf(err))
		return
	}
	d.listen = listen
	d.Changed(port, setting, "server.listen: %s, for this machine only; 0.0.0.0 in place of 127.0.0.1, with "+
		"security.enabled, is for all", listen)
}

func (d *draft) jairouterSecurity(security *yaml.Node) {
	d.jairouterKeys(reading.At(security, "api-key", "keys"))
	for _, path := range [][]string{{"enabled"}, {"api-key", "enabled"}} {
		n := reading.At(security, path...)
		if n == nil {
			continue
		}
		setting := "jairouter.security." + strings.Join(path, ".")
		switch isOff := d.IsOff(n); {
		case isOff && len(d.keys) > 0:
			d.isOpen = true
			d.Taken(n, setting, "security.enabled: false, so that the keys are not asked for")
		case isOff:
			d.Taken(n, setting, "security.enabled: false, which is the default")
		case len(d.keys) == 0:
			d.isSecured = true
			d.Changed(n, setting, "security.enabled: true, and no key: keys that JAiRouter has in its database are "+
				"not in these files; issue new ones with patchbay keys create")
		default:
			d.Taken(n, setting, "security.enabled: true")
		}
	}
	if n := reading.At(security, "api-key", "header-name"); n != nil {
		d.Use(n)
		d.Changed(n, "jairouter.security.api-key.header-name",
			"keys are accepted as Authorization: Bearer, X-API-Key, api-key and Jairouter_token")
	}
}

func (d *draft) jairouterService(model, n *yaml.Node, setting string, serviceType schema.ServiceType) {
	d.service(serviceType)
	own := func(name string) (found *yaml.Node, where string, isOwn bool) {
		if found := reading.At(n, name); found != nil {
			return found, setting + "." + name, true
		}
		return reading.At(model, name), "model." + name, false
	}
	if balance, where, isOwn := own("load-balance"); balance != nil {
		d.addPolicy(balance, where, serviceType, "load-balancer: "+d.jairouterStrategy(balance, where, isOwn))
	}
	if limit, where, isOwn := own("rate-limit"); limit != nil {
		if written := d.jairouterLimit(limit, where, isOwn); d.addPolicy(limit, where, serviceType, written) && isOwn {
			d.Taken(limit, where, "rate-limit")
		}
	}
	if breaker, where, isOwn := own("circuit-breaker"); breaker != nil {
		if d.addPolicy(breaker, where, serviceType, d.jairouterBreaker(breaker, where)) && isOwn {
			d.Taken(breaker, where, "circuit-breaker")
		}
	}
	inherited := "openai"
	if adapter, where, _ := own("adapter"); adapter != nil {
		if name := d.jairouterAdapter(adapter, where, serviceType); name != "" &&
			d.addPolicy(adapter, where, serviceType, "adapter: "+config.QuoteYAML(name)) {
			inherited = name
		}
	}
	for i, item := range reading.Items(reading.At(n, "instances")) {
		d.jairouterInstance(item, fmt.Sprintf("%s.instances[%d]", setting, i), serviceType, inherited)
	}
}

func (d *draft) jairouterStrategy(n *yaml.Node, setting string, isOwn bool) string {
	written := strings.ToLower(strings.ReplaceAll(d.Text(n, "type"), "_", "-"))
	switch written {
	case "random", "round-robin", "least-connections", "ip-hash":
		if isOwn {
			d.Taken(n, setting, "load-balancer: %s", written)
		}
		return written
	case "consistent-hash":
		d.Changed(n, setting, "load-balancer: ip-hash, which also keeps a client at an instance")
		return "ip-hash"
	case "latency":
		d.Changed(n, setting, "load-balancer: least-connections, which also prefers instances that answer fast")
		return "least-connections"
	}
	d.Changed(n, setting, "load-balancer: random, which JAiRouter uses for names that it does not know, such as %q",
		written)
	return "random"
}

func (d *draft) jairouterLimit(n *yaml.Node, setting string, isOwn bool) string {
	fields := []string{}
	if d.IsOff(n, "enabled") || d.Text(n, "enabled") == "" {
		fields = append(fields, "enabled: false")
	}
	if algorithm := strings.ToLower(strings.ReplaceAll(d.Text(n, "algorithm"), "_", "-")); algorithm != "" {
		fields = append(fields, "algorithm: "+config.QuoteYAML(algorithm))
	}
	for _, field := range [][3]string{{"capacity", "capacity", "100"}, {"rate", "refill-rate", "10"}} {
		if value := d.Text(n, field[0]); value != "" {
			fields = append(fields, field[1]+": "+d.numeral(value, setting+"."+field[0], field[2]))
		}
	}
	perClient := strings.EqualFold(d.Text(n, "client-ip-enable"), "true")
	switch scope := strings.ToLower(d.Text(n, "scope")); scope {
	case "", "service":
	case "model", "instance":
		fields = append(fields, "scope: "+scope)
	case "client-ip":
		perClient = true
	default:
		d.Unsupported(reading.At(n, "scope"), setting+".scope",
			"a limit covers a service type, a model, an instance or a client address")
	}
	if perClient {
		fields = append(fields, "client-ip-enable: true")
	}
	if perClient && isOwn {
		d.Changed(n, setting+".client-ip-enable",
			"each client address has its own limit here; JAiRouter reads this setting and does not enforce it")
	}
	if value := d.Text(n, "warm-up-period"); value != "" {
		fields = append(fields, "warm-up-period: "+d.numeral(value, setting+".warm-up-period", "60")+"s")
	}
	return "rate-limit: { " + strings.Join(fields, ", ") + " }"
}

func (d *draft) jairouterBreaker(n *yaml.Node, setting string) string {
	var fields []string
	if n := reading.At(n, "enabled"); n != nil {
		fields = append(fields, "enabled: "+d.numeral(d.Text(n), setting+".enabled", "true"))
	}
	for _, field := range [][3]string{
		{"failure-threshold", "failure-threshold", "5"}, {"timeout", "recovery-timeout", "30000"},
		{"recovery-timeout", "recovery-timeout", "30000"}, {"success-threshold", "success-threshold", "3"},
	} {
		if value := d.Text(n, field[0]); value != "" &&
			!slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, field[1]) }) {
			fields = append(fields, field[1]+": "+d.numeral(value, setting+"."+field[0], field[2]))
		}
	}
	return "circuit-breaker: { " + strings.Join(fields, ", ") + " }"
}

// numeral writes a number or a truth value, which may be a reference.
func (d *draft) numeral(text, from, fallback string) string {
	written := d.plain(text, from, fallback)
	if strings.ContainsAny(written, "${}") || strings.ContainsAny(written, ",#:[]&*!|>'\"%@` ") {
		return config.QuoteYAML(written)
	}
	return written
}

// jairouterAdapter returns our name of an adapter.
func (d *draft) jairouterAdapter(n *yaml.Node, setting string, serviceType schema.ServiceType) string {
	name := d.Text(n)
	if strings.Contains(name, "${") {
		return d.plain(name, setting, "openai")
	}
	if name == "" {
		return ""
	}
	err := kinds.Check(name, serviceType)
	if err == nil {
		kind, _ := kinds.Lookup(name)
		return kind.Name
	}
	d.Changed(n, setting, "openai: %v", err)
	return "openai"
}

func (d *draft) jairouterInstance(n *yaml.Node, setting string, serviceType schema.ServiceType, inherited string) {
	name, baseURL := d.Text(n, "name"), d.Text(n, "base-url")
	if id := reading.At(n, "instance-id"); d.Text(id) != "" {
		d.Changed(id, setting+".instance-id", "name and address tell instances apart")
	}
	if name == "" || baseURL == "" {
		d.Unsupported(n, setting, "it has no name or no base-url")
		return
	}
	i := instance{name: d.plain(name, setting+".name", "model"), baseURL: d.address(baseURL, setting+".base-url", ""),
		path: d.plain(d.Text(n, "path"), setting+".path", "")}
	if adapter := reading.At(n, "adapter"); adapter != nil {
		i.adapter = d.jairouterAdapter(adapter, setting+".adapter", serviceType)
	}
	d.jairouterPath(n, setting, serviceType, inherited, &i)
	if weight, given := d.Number(n, "weight"); given {
		i.weight, i.noTraffic = weight, weight == 0
	} else if reading.At(n, "weight") != nil {
		d.Changed(reading.At(n, "weight"), setting+".weight", "1: it is no number")
	}
	switch strings.ToLower(d.Text(n, "status")) {
	case "inactive", "disabled":
		i.disabled = true
	}
	for _, header := range reading.Entries(reading.At(n, "headers")) {
		value := d.Text(header.Value)
		where := setting + ".headers." + header.Key
		if bearer, isBearer := strings.CutPrefix(value, "Bearer "); isBearer &&
			strings.EqualFold(header.Key, "Authorization") {
			i.apiKey = d.secret(strings.TrimSpace(bearer), where, name+"_API_KEY")
			continue
		}
		if i.headers == nil {
			i.headers = map[string]string{}
		}
		i.headers[header.Key] = d.secret(value, where, name+"_"+header.Key)
	}
	if !d.addInstance(n, setting, serviceType, i) {
		d.Use(n)
	}
}

// jairouterPath sees to it that an instance is spoken to in the dialect of its path: JAiRouter
// sends requests of OpenAI to the path of the instance, whatever its adapter is.
func (d *draft) jairouterPath(n *yaml.Node, setting string, serviceType schema.ServiceType, inherited string,
	i *instance) {
	kind, err := kinds.Lookup(cmp.Or(i.adapter, inherited))
	if i.path == "" || err != nil {
		return
	}
	route, plain := kind.Routes[serviceType].Path, services.OpenAIPath(serviceType)
	switch {
	case i.path == route || route == plain:
	case isVersionOf(i.path, strings.TrimPrefix(plain, "/v1")):
		d.Changed(n, setting+".path", "adapter openai: %s is a path of OpenAI's dialect, which this server has "+
			"beside that of %s", i.path, kind.Name)
		i.adapter = "openai"
	default:
		d.Changed(n, setting+".path", "%s, which the adapter %s uses, in place of %s", route, kind.Name, i.path)
		i.path = ""
	}
}

// isVersionOf reports whether a path is this end below a version, as in
// /v1-openai/chat/completions.
func isVersionOf(path, end string) bool {
	root, found := strings.CutSuffix(path, end)
	return found && endsInVersion.MatchString(root)
}

// jairouterKeys takes API keys by their hashes.
func (d *draft) jairouterKeys(n *yaml.Node) {
	for i, key := range reading.Items(n) {
		setting := fmt.Sprintf("jairouter.security.api-key.keys[%d]", i)
		id, value := d.Text(key, "key-id"), d.Text(key, "key-value")
		switch {
		case d.IsOff(key, "enabled"):
			d.NotInForce(key, setting, "it is not enabled")
			continue
		case value == "":
			d.Unsupported(key, setting, "it has no value; issue a new key with patchbay keys create")
			continue
		}
		expires := d.Text(key, "expires-at")
		if expires != "" && !strings.HasSuffix(expires, "Z") && !strings.Contains(expires, "+") {
			expires = strings.Replace(expires, " ", "T", 1) + "Z"
		}
		d.addKey(key, setting, credential{name: cmp.Or(id, fmt.Sprintf("jairouter-%d", i+1)),
			hash: d.hash(value, setting+".key-value"), terms: terms{expires: expires}})
	}
}
