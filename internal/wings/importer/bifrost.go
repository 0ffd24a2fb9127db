package importer

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reasons"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/services"
)

// bifrostProvider is a provider of Bifrost with the settings for all of its keys.
type bifrostProvider struct {
	name         string
	provider     providers.Provider
	headers      map[string]string
	timeouts     []string
	proxy        string
	paths        map[schema.ServiceType]string
	allowed      map[schema.ServiceType]bool // nil is all
	hasInstances bool
}

// bifrost reads the configuration file of Bifrost.
func (d *draft) bifrost(file File) error {
	root, err := d.parse(file)
	if err != nil {
		return err
	}
	list := reading.At(root, "providers")
	if !slices.ContainsFunc(bifrostSections, func(name string) bool { return reading.At(root, name) != nil }) {
		return fmt.Errorf("this is no configuration of Bifrost: it has none of %s", strings.Join(bifrostSections, ", "))
	}
	if list == nil {
		d.Unsupported(nil, "providers", "there are none: those that Bifrost keeps in its database are not in this "+
			"file; add them with patchbay add")
	}
	d.Use(reading.At(root, "$schema"))
	allowsByDefault := d.Text(root, "version") == "1" // the meaning of an empty list
	known := map[string]*bifrostProvider{}
	for _, e := range reading.Entries(list) {
		if p := d.bifrostProvider(e.Key, e.Value, allowsByDefault); p != nil {
			known[e.Key] = p
		}
	}
	d.nameModels()
	client := reading.At(root, "client")
	if origins := reading.At(client, "allowed_origins"); origins != nil {
		d.bifrostOrigins(origins)
	}
	if size, given := d.Number(client, "max_request_body_size_mb"); given && size >= 1 {
		d.jsonBody = fmt.Sprintf("%dMiB", int(size))
		d.Taken(reading.At(client, "max_request_body_size_mb"), "client.max_request_body_size_mb",
			"limits.json-body: %s", d.jsonBody)
	}
	d.bifrostGovernance(reading.At(root, "governance"), client, known, allowsByDefault)
	d.leftovers(root, "")
	return nil
}

// bifrostSections are the sections of configurations of Bifrost.
var bifrostSections = []string{"providers", "governance", "client", "config_store", "logs_store", "vector_store",
	"plugins", "mcp"}

func (d *draft) bifrostOrigins(n *yaml.Node) {
	for i, origin := range d.Texts(n) {
		if err := check("server:\n  cors-origins: " + list([]string{origin}) + "\n"); err != nil {
			d.Partly(n, fmt.Sprintf("client.allowed_origins[%d]", i), "%s", faultOf(err))
			continue
		}
		d.origins = append(d.origins, origin)
	}
	d.Taken(n, "client.allowed_origins", "server.cors-origins")
}

// bifrostProvider makes instances of a provider's models; nil where there can be none.
func (d *draft) bifrostProvider(name string, n *yaml.Node, allowsByDefault bool) *bifrostProvider {
	setting := "providers." + name
	kind := cmp.Or(d.Text(n, "custom_provider_config", "base_provider_type"), name)
	known, ok := services.Find(kind)
	if !ok {
		d.Unsupported(n, setting, "%s", reasons.ForProvider(kind))
		return nil
	}
	p := &bifrostProvider{name: name, provider: known}
	network := reading.At(n, "network_config")
	if base := d.Text(network, "base_url"); base != "" {
		p.provider.BaseURL, p.provider.Path = d.address(base, setting+".network_config.base_url", ""), ""
	}
	d.bifrostNetwork(p, n, network, setting)
	keys := reading.Items(reading.At(n, "keys"))
	for i, key := range keys {
		d.bifrostModels(key, fmt.Sprintf("%s.keys[%d]", setting, i), p, allowsByDefault)
	}
	if len(keys) > 0 {
		return p.orNil()
	}
	if keyless := reading.At(n, "custom_provider_config", "is_key_less"); keyless != nil && !d.IsOff(keyless) ||
		known.Variable == "" && p.provider.BaseURL != "" {
		d.Use(keyless)
		d.bifrostDiscover(n, setting, p, instance{baseURL: p.provider.BaseURL, adapter: known.Adapter,
			timeouts: p.timeouts, proxy: p.proxy, headers: p.headers, origin: p.origin()})
		return p.orNil()
	}
	d.Unsupported(n, setting, "it lists no keys and no models; add it with patchbay add")
	return nil
}

// orNil returns the provider if it has instances.
func (p *bifrostProvider) orNil() *bifrostProvider {
	if !p.hasInstances {
		return nil
	}
	return p
}

// origin returns the origin of instances for one of its keys.
func (p *bifrostProvider) origin(key ...string) origin {
	prefix := escaped(p.name) + "/"
	from := origin{provider: p.name, key: key, asked: []string{prefix + "*"}, prefix: prefix}
	if p.provider.Name == p.name {
		from.families = p.provider.Distinct()
	}
	return from
}

// bifrostNetwork reads how the provider is reached.
func (d *draft) bifrostNetwork(p *bifrostProvider, n, network *yaml.Node, setting string) {
	if value, given := d.Number(network, "default_request_timeout_in_seconds"); given && value > 0 {
		p.timeouts = append(p.timeouts, "first-byte: "+seconds(value))
	}
	if value, given := d.Number(network, "stream_idle_timeout_in_seconds"); given && value > 0 {
		p.timeouts = append(p.timeouts, "idle: "+seconds(value))
	}
	if retries := reading.At(network, "max_retries"); retries != nil {
		if value, given := d.Number(retries); given && value >= 0 {
			d.maxAttempts = max(d.maxAttempts, min(int(value)+1, 10))
			d.Changed(retries, setting+".network_config.max_retries",
				"limits.max-attempts: the greatest of all providers and one, each at another instance")
		}
	}
	for _, header := range reading.Entries(reading.At(network, "extra_headers")) {
		if p.headers == nil {
			p.headers = map[string]string{}
		}
		p.headers[header.Key] = d.secret(d.Text(header.Value), setting+".network_config.extra_headers."+header.Key,
			p.name+"_"+header.Key)
	}
	d.bifrostProxy(p, reading.At(n, "proxy_config"), setting+".proxy_config")
	d.bifrostRequestsOf(p, reading.At(n, "custom_provider_config", "allowed_requests"),
		setting+".custom_provider_config.allowed_requests")
	types := bifrostRequests()
	for _, e := range reading.Entries(reading.At(n, "custom_provider_config", "request_path_overrides")) {
		serviceType, ok := types[e.Key]
		if !ok {
			continue // the leftovers report it
		}
		if p.paths == nil {
			p.paths = map[schema.ServiceType]string{}
		}
		p.paths[serviceType] = escaped(d.Text(e.Value))
	}
}

// bifrostRequests returns the service types of Bifrost's names of requests.
func bifrostRequests() map[string]schema.ServiceType {
	return map[string]schema.ServiceType{
		"chat_completion": schema.Chat, "embedding": schema.Embedding, "speech": schema.TTS,
		"transcription": schema.STT, "image_generation": schema.ImgGen, "image_edit": schema.ImgEdit,
		"rerank": schema.Rerank,
	}
}

// bifrostRequestsOf reads which requests a provider gets: all, or those that are listed as true.
func (d *draft) bifrostRequestsOf(p *bifrostProvider, n *yaml.Node, setting string) {
	if reading.IsEmpty(n) {
		return
	}
	p.allowed = map[schema.ServiceType]bool{}
	types := bifrostRequests()
	var names []string
	for _, e := range reading.Entries(n) {
		name := strings.TrimSuffix(e.Key, "_stream")
		if name == "text_completion" || name == "responses" {
			name = "chat_completion"
		}
		serviceType, isKnown := types[name]
		if d.IsOff(e.Value) || !isKnown {
			d.Use(e.Value)
			continue
		}
		if !p.allowed[serviceType] {
			names = append(names, serviceType.String())
		}
		p.allowed[serviceType] = true
	}
	d.Changed(n, setting, "instances of %s only", strings.Join(names, ", "))
}

// serves reports whether the provider may get requests of a service type.
func (p *bifrostProvider) serves(serviceType schema.ServiceType) bool {
	return p.allowed == nil || p.allowed[serviceType]
}

func (d *draft) bifrostProxy(p *bifrostProvider, n *yaml.Node, setting string) {
	switch kind := d.Text(n, "type"); kind {
	case "", "environment":
	case "none":
		p.proxy = "none"
	case "http":
		address, user := d.Text(n, "url"), d.Text(n, "username")
		if user != "" || d.variableIn(address) != "" {
			if parsed, err := url.Parse(address); err == nil && d.variableIn(address) == "" &&
				d.variableIn(user) == "" && d.variableIn(d.Text(n, "password")) == "" {
				parsed.User = url.UserPassword(user, d.Text(n, "password"))
				p.proxy = d.secretProxy(parsed.String(), setting, p.name+"_PROXY")
				return
			}
			d.Unsupported(n, setting, "parts of it are in variables: write it as proxy of the instances, "+
				"http://user:password@host:port")
			return
		}
		p.proxy = escaped(address)
	default:
		d.Unsupported(n, setting, "only proxies that speak HTTP are used, not %s", kind)
	}
}

// bifrostModels makes an instance of every model of a key.
func (d *draft) bifrostModels(n *yaml.Node, setting string, p *bifrostProvider, allowsByDefault bool) {
	weight, hasWeight := d.Number(n, "weight")
	from := p.origin(d.Text(n, "id"), d.Text(n, "name"))
	if name := cmp.Or(d.Text(n, "name"), d.Text(n, "id")); name != "" {
		d.Changed(n, setting+".name", "name and address tell instances apart; %s is not shown", name)
	}
	base := instance{
		baseURL: p.provider.BaseURL, path: p.provider.Path, adapter: p.provider.Adapter, timeouts: p.timeouts,
		proxy:  p.proxy,
		weight: weight, noTraffic: hasWeight && weight == 0, disabled: d.IsOff(n, "enabled"),
		headers: maps.Clone(p.headers), origin: from,
	}
	for _, config := range []string{"ollama_key_config", "sgl_key_config", "vllm_key_config"} {
		if address := d.Text(n, config, "url"); address != "" {
			base.baseURL = d.address(address, setting+"."+config+".url", "")
		}
	}
	azure := reading.At(n, "azure_key_config")
	if endpoint := d.Text(azure, "endpoint"); endpoint != "" {
		base.baseURL = d.address(endpoint, setting+".azure_key_config.endpoint", "")
	}
	if version := d.Text(azure, "api_version"); version != "" {
		base.apiVersion = d.plain(version, setting+".azure_key_config.api_version", "")
	}
	if base.baseURL == "" {
		d.Unsupported(n, setting, "it has no address: network_config.base_url, or the url of its key, says where the "+
			"provider is")
		return
	}
	aliases := d.bifrostAliases(n, azure, setting)
	models := d.Texts(n, "models")
	if name := d.Text(n, "vllm_key_config", "model_name"); name != "" &&
		(len(models) == 0 || slices.Contains(models, "*")) {
		models = []string{name}
	}
	blocked := d.Texts(n, "blacklisted_models")
	all := slices.Contains(models, "*") || len(models) == 0 && allowsByDefault
	if all {
		models = slices.Sorted(maps.Keys(aliases))
	}
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		if !slices.Contains(models, name) {
			d.Partly(n, setting+".aliases."+name, "the key is not for this model")
		}
	}
	models = slices.DeleteFunc(models, func(model string) bool {
		return slices.Contains(blocked, model) ||
			slices.Contains(blocked, "*")
	})
	value := d.Text(n, "value")
	switch {
	case !all && len(models) == 0:
	case strings.HasPrefix(value, "vault."):
		d.Unsupported(reading.At(n, "value"), setting+".value",
			"it is in a vault that only Bifrost asks; put it into a variable and set api-key")
	default:
		base.apiKey = d.secret(value, setting+".value", p.name+"_API_KEY")
	}
	for _, model := range models {
		d.bifrostModel(n, setting, p, base, model, aliases[model])
	}
	switch {
	case all && len(blocked) > 0:
		d.Unsupported(reading.At(n, "blacklisted_models"), setting+".blacklisted_models",
			"models that are discovered cannot be left out one by one; write down those that the key is for")
	case all && p.provider.Adapter == "azure" && len(models) == 0:
		d.Unsupported(n, setting, "deployments of Azure cannot be discovered; write down those that you use")
	case all && p.provider.Adapter != "azure":
		d.bifrostDiscover(n, setting, p, base)
	case len(models) == 0:
		d.NotInForce(
			n, setting, `an empty list of models allows none, unless the configuration says "version": 1 as those `+
				`of Bifrost 1.4 mean it`)
	}
}

// bifrostAlias is the provider's name of a model, and how it is called.
type bifrostAlias struct{ model, version, endpoint string }

// bifrostAliases returns the provider's names of models: the names of deployments at Azure,
// and other aliases.
func (d *draft) bifrostAliases(n, azure *yaml.Node, setting string) map[string]bifrostAlias {
	names := map[string]bifrostAlias{}
	for _, e := range reading.Entries(reading.At(azure, "deployments")) {
		names[e.Key] = bifrostAlias{model: d.Text(e.Value)}
	}
	for _, e := range reading.Entries(reading.At(n, "aliases")) {
		if e.Value.Kind != yaml.MappingNode {
			names[e.Key] = bifrostAlias{model: d.Text(e.Value)}
			continue
		}
		where := setting + ".aliases." + e.Key
		alias := bifrostAlias{model: d.Text(e.Value, "model_id")}
		if version := d.Text(e.Value, "api_version"); version != "" {
			alias.version = d.plain(version, where+".api_version", "")
		}
		if endpoint := d.Text(e.Value, "endpoint"); endpoint != "" {
			alias.endpoint = d.address(endpoint, where+".endpoint", "")
		}
		names[e.Key] = alias
	}
	return names
}

func (d *draft) bifrostModel(n *yaml.Node, setting string, p *bifrostProvider, i instance, model string,
	alias bifrostAlias) {
	serviceType := discover.GuessService(model)
	if err := kinds.Check(i.adapter, serviceType); err != nil {
		d.Partly(n, setting+" "+model, "the adapter %s does not serve %s", i.adapter, serviceType)
		return
	}
	if !p.serves(serviceType) {
		d.NotInForce(nil, setting+" "+model, "allowed_requests of the provider does not list %s", serviceType)
		return
	}
	i.name = escaped(model)
	if alias.model != "" && alias.model != model {
		i.upstreamModel = escaped(alias.model)
	}
	i.baseURL, i.apiVersion = cmp.Or(alias.endpoint, i.baseURL), cmp.Or(alias.version, i.apiVersion)
	if own := p.paths[serviceType]; own != "" {
		i.path = own
	}
	i.origin.model = model
	p.hasInstances = d.addInstance(n, setting, serviceType, i) || p.hasInstances
}

// bifrostDiscover makes instances that serve all models of the provider.
func (d *draft) bifrostDiscover(n *yaml.Node, setting string, p *bifrostProvider, i instance) {
	i.name, i.models = discovered, []string{backend.Discover}
	for _, serviceType := range p.provider.Listed() {
		if !p.serves(serviceType) {
			continue
		}
		if i.path = p.provider.Path; p.paths[serviceType] != "" {
			i.path = p.paths[serviceType]
		}
		p.hasInstances = d.addInstance(n, setting, serviceType, i) || p.hasInstances
	}
}
