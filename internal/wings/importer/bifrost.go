package importer

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

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
	shared       instance // what all instances have in common
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
	list := root.At("providers")
	if !hasAny(root, bifrostSections) {
		return fmt.Errorf("this is no configuration of Bifrost: it has none of %s", strings.Join(bifrostSections, ", "))
	}
	if !list.Exists() {
		list.Unsupported("there are none: those that Bifrost keeps in its database are not in this " +
			"file; add them with patchbay add")
	}
	root.Use("$schema")
	allowsByDefault := root.Text("version") == "1" // the meaning of an empty list
	known := map[string]*bifrostProvider{}
	for _, n := range list.Entries() {
		if p := d.bifrostProvider(n, allowsByDefault); p.hasInstances {
			known[n.Key] = p
		}
	}
	d.nameModels()
	client := root.At("client")
	if origins := client.At("allowed_origins"); origins.Exists() {
		d.bifrostOrigins(origins)
	}
	limit := client.At("max_request_body_size_mb")
	if size, given := limit.Number(); given && size >= 1 {
		d.jsonBody = fmt.Sprintf("%dMiB", int(size))
		limit.Taken("limits.json-body: %s", d.jsonBody)
	}
	d.bifrostGovernance(root.At("governance"), client, known, allowsByDefault)
	d.leftovers(root)
	return nil
}

// bifrostSections are the sections of configurations of Bifrost.
var bifrostSections = []string{"providers", "governance", "client", "config_store", "logs_store", "vector_store",
	"plugins", "mcp"}

func (d *draft) bifrostOrigins(n reading.Setting) {
	n.Use()
	for _, origin := range n.Items() {
		if fault := faultOf("server:\n  cors-origins: " + list([]string{origin.Text()}) + "\n"); fault != "" {
			origin.Partly("%s", fault)
			continue
		}
		d.origins = append(d.origins, origin.Text())
	}
	n.Taken("server.cors-origins")
}

// bifrostProvider makes instances of a provider's models, if there can be any.
func (d *draft) bifrostProvider(n reading.Setting, allowsByDefault bool) *bifrostProvider {
	p := &bifrostProvider{name: n.Key}
	custom, network := n.At("custom_provider_config"), n.At("network_config")
	kind := cmp.Or(custom.Text("base_provider_type"), n.Key)
	known := false
	if p.provider, known = services.Find(kind); !known {
		n.Unsupported("%s", reasons.ForProvider(kind))
		return p
	}
	if base := network.At("base_url"); base.Text() != "" {
		p.provider.BaseURL, p.provider.Path = d.address(base, ""), ""
	}
	p.shared = instance{baseURL: p.provider.BaseURL, path: p.provider.Path, adapter: p.provider.Adapter,
		timeouts: members{{"first-byte", network.Seconds("default_request_timeout_in_seconds")},
			{"idle", network.Seconds("stream_idle_timeout_in_seconds")}},
		headers: d.secretHeaders(network.At("extra_headers").Entries(), p.name+"_"),
		proxy:   d.bifrostProxy(p.name, n.At("proxy_config"))}
	retries := network.At("max_retries")
	if value, given := retries.Number(); given && value >= 0 {
		d.maxAttempts = max(d.maxAttempts, min(int(value)+1, 10))
		retries.Changed("limits.max-attempts: the greatest of all providers and one, each at another instance")
	}
	p.readRequests(custom)
	keys := n.At("keys").Items()
	for _, key := range keys {
		d.bifrostModels(key, p, allowsByDefault)
	}
	keyless := custom.At("is_key_less")
	switch {
	case len(keys) > 0:
	case keyless.IsOn() || p.provider.Variable == "" && p.provider.BaseURL != "":
		keyless.Use()
		i := p.shared
		i.origin = p.origin()
		d.bifrostDiscover(n, p, i)
	default:
		n.Unsupported("it lists no keys and no models; add it with patchbay add")
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

// bifrostRequests returns the service types of Bifrost's names of requests.
func bifrostRequests() map[string]schema.ServiceType {
	return map[string]schema.ServiceType{
		"chat_completion": schema.Chat, "embedding": schema.Embedding, "speech": schema.TTS,
		"transcription": schema.STT, "image_generation": schema.ImgGen, "image_edit": schema.ImgEdit,
		"rerank": schema.Rerank,
	}
}

// readRequests reads which requests a provider gets, all or those that are listed as true, and their paths.
func (p *bifrostProvider) readRequests(custom reading.Setting) {
	types := bifrostRequests()
	p.paths = map[schema.ServiceType]string{}
	for _, path := range custom.At("request_path_overrides").Entries() {
		if serviceType, ok := types[path.Key]; ok { // the leftovers report others
			p.paths[serviceType] = escaped(path.Text())
		}
	}
	allowed := custom.At("allowed_requests")
	if allowed.IsEmpty() {
		return
	}
	p.allowed = map[schema.ServiceType]bool{}
	var names []string
	for _, request := range allowed.Entries() {
		name := strings.TrimSuffix(request.Key, "_stream")
		if name == "text_completion" || name == "responses" {
			name = "chat_completion"
		}
		request.Use()
		serviceType, isKnown := types[name]
		if isKnown && !request.IsOff() && !p.allowed[serviceType] {
			names = append(names, serviceType.String())
			p.allowed[serviceType] = true
		}
	}
	allowed.Changed("instances of %s only", strings.Join(names, ", "))
}

// serves reports whether the provider may get requests of a service type.
func (p *bifrostProvider) serves(serviceType schema.ServiceType) bool {
	return p.allowed == nil || p.allowed[serviceType]
}

// bifrostProxy returns the proxy of a provider.
func (d *draft) bifrostProxy(name string, n reading.Setting) string {
	switch kind := n.Text("type"); kind {
	case "", "environment":
		return ""
	case "none":
		return "none"
	case "http":
	default:
		n.Unsupported("only proxies that speak HTTP are used, not %s", kind)
		return ""
	}
	address, user, password := n.Text("url"), n.Text("username"), n.Text("password")
	parsed, err := url.Parse(address)
	switch {
	case user == "" && d.variableIn(address) == "":
		return escaped(address)
	case err != nil || d.variableIn(address) != "" || d.variableIn(user) != "" || d.variableIn(password) != "":
		n.Unsupported("parts of it are in variables: write it as proxy of the instances, " +
			"http://user:password@host:port")
		return ""
	}
	parsed.User = url.UserPassword(user, password)
	return d.secretProxy(n.With(parsed.String()), name+"_PROXY")
}

// bifrostModels makes an instance of every model of a key.
func (d *draft) bifrostModels(n reading.Setting, p *bifrostProvider, allowsByDefault bool) {
	id, name := n.Text("id"), n.Text("name")
	if name := cmp.Or(name, id); name != "" {
		n.As(n.Name+".name").Changed("name and address tell instances apart; %s is not shown", name)
	}
	base, hasWeight := p.shared, false
	base.weight, hasWeight = n.Number("weight")
	base.noTraffic, base.disabled, base.origin = hasWeight && base.weight == 0, n.IsOff("enabled"), p.origin(id, name)
	azure := n.At("azure_key_config")
	for _, address := range []reading.Setting{n.At("ollama_key_config", "url"), n.At("sgl_key_config", "url"),
		n.At("vllm_key_config", "url"), azure.At("endpoint")} {
		if address.Text() != "" {
			base.baseURL = d.address(address, "")
		}
	}
	base.apiVersion = d.plain(azure.At("api_version"), "")
	if base.baseURL == "" {
		n.Unsupported("it has no address: network_config.base_url, or the url of its key, says where the " +
			"provider is")
		return
	}
	aliases := d.bifrostAliases(n, azure)
	models := n.Texts("models")
	if name := n.Text("vllm_key_config", "model_name"); name != "" &&
		(len(models) == 0 || slices.Contains(models, "*")) {
		models = []string{name}
	}
	blocked, blocks := n.At("blacklisted_models"), n.Texts("blacklisted_models")
	all := slices.Contains(models, "*") || len(models) == 0 && allowsByDefault
	if all {
		models = slices.Sorted(maps.Keys(aliases))
	}
	for _, name := range slices.Sorted(maps.Keys(aliases)) {
		if !slices.Contains(models, name) {
			n.As(n.Name + ".aliases." + name).Partly("the key is not for this model")
		}
	}
	models = slices.DeleteFunc(models, func(model string) bool {
		return slices.Contains(blocks, model) || slices.Contains(blocks, "*")
	})
	switch value := n.At("value"); {
	case !all && len(models) == 0:
		value.Use()
	case strings.HasPrefix(value.Text(), "vault."):
		value.Unsupported("it is in a vault that only Bifrost asks; put it into a variable and set api-key")
	default:
		base.apiKey = d.secret(value, p.name+"_API_KEY")
	}
	for _, model := range models {
		d.bifrostModel(n, p, base, model, aliases[model])
	}
	switch {
	case all && len(blocks) > 0:
		blocked.Unsupported("models that are discovered cannot be left out one by one; write down those that the " +
			"key is for")
	case all && p.provider.Adapter == "azure" && len(models) == 0:
		n.Unsupported("deployments of Azure cannot be discovered; write down those that you use")
	case all && p.provider.Adapter != "azure":
		d.bifrostDiscover(n, p, base)
	case len(models) == 0:
		n.NotInForce(`an empty list of models allows none, unless the configuration says "version": 1 as those ` +
			`of Bifrost 1.4 mean it`)
	}
}

// bifrostAlias is the provider's name of a model, and how it is called.
type bifrostAlias struct{ model, version, endpoint string }

// bifrostAliases returns the provider's names of models: the names of deployments at Azure,
// and other aliases.
func (d *draft) bifrostAliases(n, azure reading.Setting) map[string]bifrostAlias {
	names := map[string]bifrostAlias{}
	for _, e := range append(azure.At("deployments").Entries(), n.At("aliases").Entries()...) {
		alias := bifrostAlias{cmp.Or(e.Text(), e.Text("model_id")), d.plain(e.At("api_version"), ""), ""}
		if endpoint := e.At("endpoint"); endpoint.Text() != "" {
			alias.endpoint = d.address(endpoint, "")
		}
		names[e.Key] = alias
	}
	return names
}

func (d *draft) bifrostModel(n reading.Setting, p *bifrostProvider, i instance, model string, alias bifrostAlias) {
	serviceType := discover.GuessService(model)
	if err := kinds.Check(i.adapter, serviceType); err != nil {
		n.As(n.Name+" "+model).Partly("the adapter %s does not serve %s", i.adapter, serviceType)
		return
	}
	if !p.serves(serviceType) {
		d.about(n.Name+" "+model).NotInForce("allowed_requests of the provider does not list %s", serviceType)
		return
	}
	i.name = escaped(model)
	if alias.model != model {
		i.upstreamModel = escaped(alias.model)
	}
	i.baseURL, i.apiVersion = cmp.Or(alias.endpoint, i.baseURL), cmp.Or(alias.version, i.apiVersion)
	i.path = cmp.Or(p.paths[serviceType], i.path)
	i.origin.model = model
	p.hasInstances = d.addInstance(n, serviceType, i) || p.hasInstances
}

// bifrostDiscover makes instances that serve all models of the provider.
func (d *draft) bifrostDiscover(n reading.Setting, p *bifrostProvider, i instance) {
	i.name, i.models = discovered, []string{backend.Discover}
	for _, serviceType := range p.provider.Listed() {
		if p.serves(serviceType) {
			i.path = cmp.Or(p.paths[serviceType], p.provider.Path)
			p.hasInstances = d.addInstance(n, serviceType, i) || p.hasInstances
		}
	}
}
