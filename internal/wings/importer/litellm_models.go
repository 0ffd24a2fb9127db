package importer

import (
	"cmp"
	"maps"
	"regexp"
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

// litellmEntry is an entry of the list of models.
type litellmEntry struct {
	reading.Setting
	params      reading.Setting
	credential  reading.Setting // the credential that litellm_credential_name names
	name        string          // that callers use
	provider    providers.Provider
	model       string // the provider's name of it
	serviceType schema.ServiceType
}

// param returns a parameter of the entry, or of the credential that it names. It has the name of a
// parameter of the entry.
func (e *litellmEntry) param(names ...string) reading.Setting {
	for _, name := range names {
		for _, n := range []reading.Setting{e.params.At(name), e.credential.At(name)} {
			if !n.IsEmpty() {
				return n.As(e.params.At(names[0]).Name)
			}
		}
	}
	return e.params.At(names[0]).With("")
}

// address returns the parameter with the address of the provider.
func (e *litellmEntry) address() reading.Setting { return e.param("api_base", "base_url") }

// litellmModel reads one entry of the list of models.
func (d *draft) litellmModel(root, n reading.Setting) {
	e := &litellmEntry{Setting: n, params: n.At("litellm_params"), name: n.Text("model_name")}
	full := e.params.Text("model")
	if e.name == "" || full == "" {
		n.Unsupported("it has no model_name or no litellm_params.model")
		return
	}
	if d.variableIn(full) != "" {
		n.Unsupported("its model is in the variable %s, so that its provider is not known; write the "+
			"model into the file", d.variableIn(full))
		return
	}
	if named := e.params.At("litellm_credential_name"); named.Text() != "" {
		for _, item := range root.At("credential_list").Items() {
			if item.Text("credential_name") == named.Text() {
				e.credential = item.At("credential_values")
			}
		}
		if !e.credential.Exists() {
			named.Unsupported("%s is not in credential_list; LiteLLM may have it in its database", named.Text())
		}
	}
	if !d.litellmProvider(e, full) {
		return
	}
	pattern := ""
	if strings.Contains(e.name, "*") && !strings.Contains(e.model, "*") {
		if name := strings.Trim(strings.Replace(e.name, "*", "", 1), "-/.:_ "); name != "" {
			pattern, e.name = e.name, name // names of this form lead to the model
		}
	}
	if strings.Contains(e.name+e.model, "*") {
		d.litellmWildcard(e)
		return
	}
	mode, known := n.Text("model_info", "mode"), false
	if e.serviceType, known = services.ServiceTypeOf(mode, e.model); !known {
		n.Unsupported("there is no service type for the mode %s", mode)
		return
	}
	i, ok := d.litellmInstance(e)
	if !ok {
		return
	}
	i.name = escaped(e.name)
	if e.model != e.name {
		i.upstreamModel = escaped(e.model)
	}
	if !d.addInstance(n, e.serviceType, i) {
		n.Use()
		return
	}
	if pattern != "" {
		d.service(e.serviceType).alias(escaped(pattern), i.name)
	}
	d.litellmPrice(e)
}

// litellmProvider finds the provider of a model: custom_llm_provider, the word before the
// first slash, or the provider that LiteLLM knows by the name of the model.
func (d *draft) litellmProvider(e *litellmEntry, full string) bool {
	prefix, model, hasPrefix := strings.Cut(full, "/")
	if custom := e.params.Text("custom_llm_provider"); custom != "" {
		if !strings.EqualFold(custom, prefix) {
			model = full
		}
		prefix, hasPrefix = custom, true
	}
	if !hasPrefix {
		prefix, model = services.ByModel(full), full
	}
	p, known := services.Find(prefix)
	switch {
	case known:
	case !e.address().IsEmpty() && !services.IsForeign(prefix):
		p, _ = services.Find("openai")
		if !hasPrefix {
			break
		}
		e.params.At("model").Changed(
			"the provider %s is taken for an OpenAI-compatible server, because it has an api_base", prefix)
	case prefix == "":
		e.Unsupported("its name does not say which provider has it; write it as provider/model")
		return false
	default:
		e.Unsupported("%s", reasons.ForProvider(prefix))
		return false
	}
	if p.Name == "openai" {
		model = strings.TrimPrefix(model, "responses/") // names the API, not the model
	}
	e.provider, e.model = p, model
	if model == "" {
		e.Unsupported("it names no model of the provider %s", prefix)
		return false
	}
	return true
}

// litellmWildcard reads an entry for all models of a provider, or for a pattern.
func (d *draft) litellmWildcard(e *litellmEntry) {
	switch {
	case strings.Count(e.name, "*") != 1 || strings.Count(e.model, "*") != 1:
		e.Unsupported("an alias has more than a * on the left, and at most one * on each side; " +
			"name the models one by one")
		return
	case e.provider.Path != "":
		e.Unsupported("the models of %s cannot be discovered; add those that you use", e.provider.Title)
		return
	case strings.HasPrefix(e.provider.Name, "azure"):
		e.Unsupported("deployments of Azure cannot be discovered; add those that you use")
		return
	}
	from := origin{asked: []string{escaped(e.name)}, prefix: e.provider.Name + "/", families: e.provider.Distinct()}
	if prefix, isBefore := strings.CutSuffix(e.name, e.model); isBefore && prefix != "" {
		from.prefix = escaped(prefix)
	}
	for _, serviceType := range e.provider.Listed() {
		if e.model != "*" && serviceType != discover.GuessService(e.model) {
			continue
		}
		e.serviceType = serviceType
		i, ok := d.litellmInstance(e)
		if !ok {
			return
		}
		i.name, i.models, i.origin = discovered, []string{backend.Discover}, from
		if e.model != "*" {
			i.models = []string{e.model}
		}
		d.addInstance(e.Setting, serviceType, i)
	}
}

// litellmInstance reads where a model is and how it is called.
func (d *draft) litellmInstance(e *litellmEntry) (instance, bool) {
	i := instance{adapter: e.provider.Adapter}
	if kinds.Check(i.adapter, e.serviceType) != nil {
		e.Unsupported("the adapter %s does not serve %s", i.adapter, e.serviceType)
		return i, false
	}
	d.litellmAddress(e, &i)
	key, address := e.param("api_key"), e.address()
	switch {
	case slices.Contains([]string{"none", "empty", "null"}, strings.ToLower(key.Text())):
	case key.Text() != "":
		i.apiKey = d.secret(key, e.name+"_API_KEY")
	case e.provider.Variable != "" && (address.IsEmpty() || e.provider.Name == "azure" ||
		d.variableIn(address.Text()) != ""):
		i.apiKey = d.known(cmp.Or(e.provider.LiteLLM, e.provider.Variable),
			e.Name+": LiteLLM takes this key from the environment by itself", ":")
	}
	version := e.param("api_version")
	if i.adapter == "azure" {
		i.apiVersion = d.plain(version, "")
	}
	if e.provider.Name == "azure_ai" {
		d.litellmFoundry(e, version, &i)
	}
	d.litellmDetails(e, &i)
	return i, true
}

// endsInVersion matches addresses below which there is an API of OpenAI.
var endsInVersion = regexp.MustCompile(`/v[0-9]+([a-z-][^/]*)?$`)

// litellmAddress sets the address and, if the one that LiteLLM has does not say it, the
// path: LiteLLM appends /chat/completions and the like to an address, with or without a
// version in it.
func (d *draft) litellmAddress(e *litellmEntry, i *instance) {
	p := e.provider
	i.baseURL, i.path = p.BaseURL, p.Path
	n := e.address()
	base := strings.TrimRight(n.Text(), "/")
	if base == "" && p.Address == "" {
		return
	}
	end := strings.TrimPrefix(services.OpenAIPath(e.serviceType), "/v1")
	usual, isOpenAI := p.BaseURL, services.IsOpenAI(p, e.serviceType)
	if isOpenAI && usual != "" && p.Path == "" {
		usual += "/v1"
	}
	if base == "" { // LiteLLM looks at a variable by itself
		i.baseURL = d.address(n.With("os.environ/"+p.Address).As(e.Name+
			": LiteLLM takes this address from the environment by itself"), usual)
		if isOpenAI {
			i.path = end
		}
		if usual == "" {
			e.As(n.Name).Changed("the variable %s, in which LiteLLM looks for the address; where it is not set, %s",
				p.Address, withDefaults(i.baseURL))
		}
		return
	}
	i.path = ""
	if isOpenAI {
		if base = strings.TrimSuffix(base, end); !endsInVersion.MatchString(base) {
			i.path = end
		}
	} else {
		for _, whole := range []string{"/v1/messages", "/v1/rerank", "/v2/rerank"} {
			base = strings.TrimSuffix(base, whole)
		}
	}
	i.baseURL = d.address(n.With(base), usual)
	if name := d.variableIn(base); name != "" {
		n.Changed("the variable %s; where it is not set, %s", name, withDefaults(i.baseURL))
	}
	if p.Name == "azure" && strings.Contains(base, "gateway.ai.cloudflare.com") {
		i.path = "/" + escaped(e.model) + end // Cloudflare has the deployment right behind the address
	}
}

// litellmFoundry adds the settings for models of Azure AI Foundry: those of Anthropic have
// an API of their own, and the key is in the header of Azure.
func (d *draft) litellmFoundry(e *litellmEntry, version reading.Setting, i *instance) {
	if strings.HasPrefix(e.model, "claude") {
		i.adapter = "anthropic"
		i.path = "/anthropic/v1/messages"
		if strings.HasSuffix(i.baseURL, "/anthropic") {
			i.path = "/v1/messages"
		}
	} else if i.path != "" && !strings.Contains(i.baseURL, "${") &&
		strings.Contains(i.baseURL, "services.ai.azure.com") {
		i.path = "/models" + i.path
		if version.Text() != "" {
			i.path += "?api-version=" + d.plain(version, "2024-05-01-preview")
		}
	}
	if i.apiKey != "" && (i.adapter == "anthropic" || strings.Contains(i.baseURL, ".azure.com")) {
		i.headers, i.apiKey = map[string]string{"api-key": i.apiKey}, ""
	}
}

// litellmDetails reads the weight, the limits and the headers of an instance.
func (d *draft) litellmDetails(e *litellmEntry, i *instance) {
	d.litellmShare(e, i)
	if value, given := e.params.Number("max_parallel_requests"); given && value > 0 {
		i.maxConcurrency = int(value)
	}
	general := e.params.At("request_timeout")
	total := e.params.Seconds("timeout")
	if _, given := general.Number(); given && total != "" {
		general.NotInForce("timeout goes before it")
	}
	i.timeouts = members{{"total", cmp.Or(total, general.Seconds())},
		{"first-token", e.params.Seconds("stream_timeout")}}
	if i.headers == nil {
		i.headers = map[string]string{}
	}
	if organization := d.secret(e.params.At("organization"), "OPENAI_ORGANIZATION"); organization != "" {
		i.headers["OpenAI-Organization"] = organization
	}
	for _, name := range []string{"extra_headers", "headers"} {
		maps.Copy(i.headers, d.secretHeaders(e.params.At(name).Entries(), e.name+"/"))
	}
}
