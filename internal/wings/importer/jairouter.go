package importer

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

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
	model := root.At("model")
	if !model.Exists() && root.At("services").Exists() {
		model = root.As("model") // a version that JAiRouter stored
	}
	services := model.At("services")
	if !services.Exists() {
		if name := filepath.Base(main.Name); strings.HasPrefix(name, "application-") {
			return errors.New("there is no model.services: this is the file of a profile; give application.yml, and " +
				"--profile with the name of the profile")
		}
		return errors.New("there is no model.services, which every configuration of JAiRouter has")
	}
	d.jairouterServer(root.At("server", "port"))
	d.jairouterSecurity(root.At("jairouter", "security"))
	for _, service := range services.Entries() {
		serviceType, err := schema.ParseServiceType(service.Key)
		if err != nil {
			service.Unsupported("%v", err)
			continue
		}
		d.jairouterService(model, service, serviceType)
	}
	jairouterGlobals(model)
	d.leftovers(root)
	return nil
}

// jairouterGlobals reports the outcome of the settings for all service types, which may all
// have their own.
func jairouterGlobals(model reading.Setting) {
	for _, names := range [][]string{
		{"load-balance", "type"},
		{"rate-limit", "enabled", "algorithm", "capacity", "rate", "scope", "client-ip-enable", "warm-up-period"},
		{"circuit-breaker", "enabled", "failure-threshold", "timeout", "recovery-timeout", "success-threshold"},
		{"adapter"},
	} {
		global := model.At(names[0])
		if !global.Exists() {
			continue
		}
		global.Text()
		for _, member := range names[1:] {
			global.Use(member)
		}
		global.Changed("written at each service type that has none of its own")
	}
}

func (d *draft) jairouterServer(port reading.Setting) {
	if !port.Exists() {
		return
	}
	listen := "127.0.0.1:" + d.plain(port, "8080")
	if fault := faultOf("server:\n  listen: " + config.QuoteYAML(listen) + "\n"); fault != "" {
		port.Unsupported("%s", fault)
		return
	}
	d.listen = listen
	port.Changed("server.listen: %s, for this machine only; 0.0.0.0 in place of 127.0.0.1, with "+
		"security.enabled, is for all", listen)
}

func (d *draft) jairouterSecurity(security reading.Setting) {
	d.jairouterKeys(security.At("api-key", "keys"))
	for _, enabled := range []reading.Setting{security.At("enabled"), security.At("api-key", "enabled")} {
		switch isOff := enabled.IsOff(); {
		case !enabled.Exists():
		case isOff && len(d.keys) > 0:
			d.isOpen = true
			enabled.Taken("security.enabled: false, so that the keys are not asked for")
		case isOff:
			enabled.Taken("security.enabled: false, which is the default")
		case len(d.keys) == 0:
			d.isSecured = true
			enabled.Changed("security.enabled: true, and no key: keys that JAiRouter has in its database are " +
				"not in these files; issue new ones with patchbay keys create")
		default:
			enabled.Taken("security.enabled: true")
		}
	}
	if header := security.At("api-key", "header-name"); header.Exists() {
		header.Use()
		header.Changed("keys are accepted as Authorization: Bearer, X-API-Key, api-key and Jairouter_token")
	}
}

func (d *draft) jairouterService(model, own reading.Setting, serviceType schema.ServiceType) {
	d.service(serviceType)
	// find returns the setting of the service type, or else that of all service types.
	find := func(name string) (found reading.Setting, isOwn bool) {
		if found := own.At(name); found.Exists() {
			return found, true
		}
		return model.At(name), false
	}
	if balance, isOwn := find("load-balance"); balance.Exists() {
		d.addPolicy(balance, serviceType, "load-balancer: "+jairouterStrategy(balance, isOwn))
	}
	if limit, isOwn := find("rate-limit"); limit.Exists() &&
		d.addPolicy(limit, serviceType, d.jairouterLimit(limit, isOwn)) && isOwn {
		limit.Taken("rate-limit")
	}
	if breaker, isOwn := find("circuit-breaker"); breaker.Exists() &&
		d.addPolicy(breaker, serviceType, d.jairouterBreaker(breaker)) && isOwn {
		breaker.Taken("circuit-breaker")
	}
	inherited := "openai"
	adapter, _ := find("adapter")
	if name := d.jairouterAdapter(adapter, serviceType); name != "" &&
		d.addPolicy(adapter, serviceType, "adapter: "+config.QuoteYAML(name)) {
		inherited = name
	}
	for _, item := range own.At("instances").Items() {
		d.jairouterInstance(item, serviceType, inherited)
	}
}

// jairouterName returns a name of JAiRouter as ours are written.
func jairouterName(n reading.Setting) string {
	return strings.ToLower(strings.ReplaceAll(n.Text(), "_", "-"))
}

func jairouterStrategy(n reading.Setting, isOwn bool) string {
	written := jairouterName(n.At("type"))
	switch written {
	case "random", "round-robin", "least-connections", "ip-hash":
		if isOwn {
			n.Taken("load-balancer: %s", written)
		}
		return written
	case "consistent-hash":
		n.Changed("load-balancer: ip-hash, which also keeps a client at an instance")
		return "ip-hash"
	case "latency":
		n.Changed("load-balancer: least-connections, which also prefers instances that answer fast")
		return "least-connections"
	}
	n.Changed("load-balancer: random, which JAiRouter uses for names that it does not know, such as %q", written)
	return "random"
}

func (d *draft) jairouterLimit(n reading.Setting, isOwn bool) string {
	fields := []string{}
	if n.IsOff("enabled") || n.Text("enabled") == "" {
		fields = append(fields, "enabled: false")
	}
	if algorithm := jairouterName(n.At("algorithm")); algorithm != "" {
		fields = append(fields, "algorithm: "+config.QuoteYAML(algorithm))
	}
	fields = d.numerals(fields, n, [][3]string{{"capacity", "capacity", "100"}, {"rate", "refill-rate", "10"}})
	perClient := strings.EqualFold(n.Text("client-ip-enable"), "true")
	switch scope := strings.ToLower(n.Text("scope")); scope {
	case "", "service":
	case "model", "instance":
		fields = append(fields, "scope: "+scope)
	case "client-ip":
		perClient = true
	default:
		n.At("scope").Unsupported("a limit covers a service type, a model, an instance or a client address")
	}
	if perClient {
		fields = append(fields, "client-ip-enable: true")
	}
	if perClient && isOwn {
		n.As(n.Name + ".client-ip-enable").Changed(
			"each client address has its own limit here; JAiRouter reads this setting and does not enforce it")
	}
	if period := n.At("warm-up-period"); period.Text() != "" {
		fields = append(fields, "warm-up-period: "+d.numeral(period, "60")+"s")
	}
	return "rate-limit: { " + strings.Join(fields, ", ") + " }"
}

func (d *draft) jairouterBreaker(n reading.Setting) string {
	fields := d.numerals(nil, n, [][3]string{
		{"enabled", "enabled", "true"}, {"failure-threshold", "failure-threshold", "5"},
		{"timeout", "recovery-timeout", "30000"}, {"recovery-timeout", "recovery-timeout", "30000"},
		{"success-threshold", "success-threshold", "3"},
	})
	return "circuit-breaker: { " + strings.Join(fields, ", ") + " }"
}

// numerals adds the members that are given to fields: their names, our names, and their usual values.
// The first of two for the same field counts.
func (d *draft) numerals(fields []string, n reading.Setting, members [][3]string) []string {
	for _, member := range members {
		at := n.At(member[0])
		if at.Text() != "" &&
			!slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(f, member[1]+":") }) {
			fields = append(fields, member[1]+": "+d.numeral(at, member[2]))
		}
	}
	return fields
}

// numeral writes a number or a truth value, which may be a reference.
func (d *draft) numeral(n reading.Setting, fallback string) string {
	written := d.plain(n, fallback)
	if strings.ContainsAny(written, "${},#:[]&*!|>'\"%@` ") {
		return config.QuoteYAML(written)
	}
	return written
}

// jairouterAdapter returns our name of an adapter, empty if none is given.
func (d *draft) jairouterAdapter(n reading.Setting, serviceType schema.ServiceType) string {
	name := n.Text()
	if strings.Contains(name, "${") {
		return d.plain(n, "openai")
	}
	if name == "" {
		return ""
	}
	err := kinds.Check(name, serviceType)
	if err == nil {
		kind, _ := kinds.Lookup(name)
		return kind.Name
	}
	n.Changed("openai: %v", err)
	return "openai"
}

func (d *draft) jairouterInstance(n reading.Setting, serviceType schema.ServiceType, inherited string) {
	name := n.Text("name")
	if id := n.At("instance-id"); id.Text() != "" {
		id.Changed("name and address tell instances apart")
	}
	if name == "" || n.Text("base-url") == "" {
		n.Unsupported("it has no name or no base-url")
		return
	}
	i := instance{name: d.plain(n.At("name"), "model"), baseURL: d.address(n.At("base-url"), ""),
		path: d.plain(n.At("path"), ""), adapter: d.jairouterAdapter(n.At("adapter"), serviceType)}
	jairouterPath(n.As(n.Name+".path"), serviceType, inherited, &i)
	if weight, given := n.Number("weight"); given {
		i.weight, i.noTraffic = weight, weight == 0
	} else if n.At("weight").Exists() {
		n.At("weight").Changed("1: it is no number")
	}
	switch strings.ToLower(n.Text("status")) {
	case "inactive", "disabled":
		i.disabled = true
	}
	headers := slices.DeleteFunc(n.At("headers").Entries(), func(header reading.Setting) bool {
		bearer, isBearer := strings.CutPrefix(header.Text(), "Bearer ")
		if isBearer = isBearer && strings.EqualFold(header.Key, "Authorization"); isBearer {
			i.apiKey = d.secret(header.With(strings.TrimSpace(bearer)), name+"_API_KEY")
		}
		return isBearer
	})
	i.headers = d.secretHeaders(headers, name+"_")
	if !d.addInstance(n, serviceType, i) {
		n.Use()
	}
}

// jairouterPath sees to it that an instance is spoken to in the dialect of its path: JAiRouter
// sends requests of OpenAI to the path of the instance, whatever its adapter is.
func jairouterPath(n reading.Setting, serviceType schema.ServiceType, inherited string, i *instance) {
	kind, err := kinds.Lookup(cmp.Or(i.adapter, inherited))
	if i.path == "" || err != nil {
		return
	}
	route, plain := kind.Routes[serviceType].Path, services.OpenAIPath(serviceType)
	switch {
	case i.path == route || route == plain:
	case isVersionOf(i.path, strings.TrimPrefix(plain, "/v1")):
		n.Changed("adapter openai: %s is a path of OpenAI's dialect, which this server has "+
			"beside that of %s", i.path, kind.Name)
		i.adapter = "openai"
	default:
		n.Changed("%s, which the adapter %s uses, in place of %s", route, kind.Name, i.path)
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
func (d *draft) jairouterKeys(n reading.Setting) {
	for i, key := range n.Items() {
		id, value := key.Text("key-id"), key.At("key-value")
		switch {
		case key.IsOff("enabled"):
			key.NotInForce("it is not enabled")
			continue
		case value.Text() == "":
			key.Unsupported("it has no value; issue a new key with patchbay keys create")
			continue
		}
		expires := key.Text("expires-at")
		if expires != "" && !strings.HasSuffix(expires, "Z") && !strings.Contains(expires, "+") {
			expires = strings.Replace(expires, " ", "T", 1) + "Z"
		}
		d.addKey(key, credential{name: cmp.Or(id, fmt.Sprintf("jairouter-%d", i+1)),
			hash: d.hash(value), terms: terms{expires: expires}})
	}
}
