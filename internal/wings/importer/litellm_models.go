package importer

import (
	"cmp"
	"path"
	"regexp"
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

// litellmEntry is an entry of the list of models.
type litellmEntry struct {
	node, params *yaml.Node
	credential   *yaml.Node // the credential that litellm_credential_name names
	setting      string
	name         string // that callers use
	provider     providers.Provider
	model        string // the provider's name of it
	serviceType  schema.ServiceType
}

// param returns a parameter of the reading.Entry, or of the credential that it names.
func (e *litellmEntry) param(names ...string) *yaml.Node {
	for _, name := range names {
		if n := reading.At(e.params, name); !reading.IsEmpty(n) {
			return n
		}
		if n := reading.At(e.credential, name); !reading.IsEmpty(n) {
			return n
		}
	}
	return nil
}

// from returns the name of a parameter in rows.
func (e *litellmEntry) from(name string) string { return e.setting + ".litellm_params." + name }

// litellmModel reads one entry of the list of models.
func (d *draft) litellmModel(root, n *yaml.Node, setting string) {
	e := &litellmEntry{node: n, params: reading.At(n, "litellm_params"), setting: setting,
		name: d.Text(n, "model_name")}
	full := d.Text(e.params, "model")
	if e.name == "" || full == "" {
		d.Unsupported(n, setting, "it has no model_name or no litellm_params.model")
		return
	}
	if d.variableIn(full) != "" {
		d.Unsupported(n, setting, "its model is in the variable %s, so that its provider is not known; write the "+
			"model into the file", d.variableIn(full))
		return
	}
	if name := d.Text(e.params, "litellm_credential_name"); name != "" {
		for _, item := range reading.Items(reading.At(root, "credential_list")) {
			if d.Text(item, "credential_name") == name {
				e.credential = reading.At(item, "credential_values")
			}
		}
		if e.credential == nil {
			d.Unsupported(reading.At(e.params, "litellm_credential_name"), e.from("litellm_credential_name"),
				"%s is not in credential_list; LiteLLM may have it in its database", name)
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
	serviceType, known := services.ServiceTypeOf(d.Text(n, "model_info", "mode"), e.model)
	if !known {
		d.Unsupported(n, setting, "there is no service type for the mode %s", d.Text(n, "model_info", "mode"))
		return
	}
	e.serviceType = serviceType
	i, ok := d.litellmInstance(e)
	if !ok {
		return
	}
	i.name = escaped(e.name)
	if e.model != e.name {
		i.upstreamModel = escaped(e.model)
	}
	if !d.addInstance(n, setting, serviceType, i) {
		d.Use(n)
		return
	}
	if pattern != "" {
		d.service(serviceType).alias(escaped(pattern), i.name)
	}
	d.litellmPrice(e)
}

// litellmProvider finds the provider of a model: custom_llm_provider, the word before the
// first slash, or the provider that LiteLLM knows by the name of the model.
func (d *draft) litellmProvider(e *litellmEntry, full string) bool {
	prefix, model, hasPrefix := strings.Cut(full, "/")
	if custom := d.Text(e.params, "custom_llm_provider"); custom != "" {
		if !strings.EqualFold(custom, prefix) {
			model = full
		}
		prefix, hasPrefix = custom, true
	}
	if !hasPrefix {
		prefix, model = services.ByModel(full), full
	}
	p, known := services.Find(prefix)
	hasAddress := e.param("api_base", "base_url") != nil
	switch {
	case known:
	case hasAddress && !services.IsForeign(prefix):
		p, _ = services.Find("openai")
		if !hasPrefix {
			break
		}
		d.Changed(reading.At(e.params, "model"), e.from("model"),
			"the provider %s is taken for an OpenAI-compatible server, because it has an api_base", prefix)
	case prefix == "":
		d.Unsupported(e.node, e.setting, "its name does not say which provider has it; write it as provider/model")
		return false
	default:
		d.Unsupported(e.node, e.setting, "%s", reasons.ForProvider(prefix))
		return false
	}
	if p.Name == "openai" {
		model = strings.TrimPrefix(model, "responses/") // names the API, not the model
	}
	e.provider, e.model = p, model
	if model == "" {
		d.Unsupported(e.node, e.setting, "it names no model of the provider %s", prefix)
		return false
	}
	return true
}

// litellmWildcard reads an entry for all models of a provider, or for a pattern.
func (d *draft) litellmWildcard(e *litellmEntry) {
	switch {
	case strings.Count(e.name, "*") != 1 || strings.Count(e.model, "*") != 1:
		d.Unsupported(e.node, e.setting, "an alias has more than a * on the left, and at most one * on each side; "+
			"name the models one by one")
		return
	case e.provider.Path != "":
		d.Unsupported(e.node, e.setting, "the models of %s cannot be discovered; add those that you use",
			e.provider.Title)
		return
	case strings.HasPrefix(e.provider.Name, "azure"):
		d.Unsupported(e.node, e.setting, "deployments of Azure cannot be discovered; add those that you use")
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
		d.addInstance(e.node, e.setting, serviceType, i)
	}
}

// litellmInstance reads where a model is and how it is called.
func (d *draft) litellmInstance(e *litellmEntry) (instance, bool) {
	i := instance{adapter: e.provider.Adapter}
	if kinds.Check(i.adapter, e.serviceType) != nil {
		d.Unsupported(e.node, e.setting, "the adapter %s does not serve %s", i.adapter, e.serviceType)
		return i, false
	}
	d.litellmAddress(e, &i)
	key, hasAddress := d.Text(e.param("api_key")), e.param("api_base", "base_url") != nil
	switch {
	case slices.Contains([]string{"none", "empty", "null"}, strings.ToLower(key)):
	case key != "":
		i.apiKey = d.secret(key, e.from("api_key"), e.name+"_API_KEY")
	case e.provider.Variable != "" && (!hasAddress || e.provider.Name == "azure" ||
		d.variableIn(d.Text(e.param("api_base", "base_url"))) != ""):
		name := cmp.Or(e.provider.LiteLLM, e.provider.Variable)
		d.variable(Variable{Name: name, Value: d.environment[name], From: e.setting +
			": LiteLLM takes this key from the environment by itself"})
		i.apiKey = "${" + name + ":}"
	}
	if i.adapter == "azure" {
		i.apiVersion = d.plain(d.Text(e.param("api_version")), e.from("api_version"), "")
	}
	if e.provider.Name == "azure_ai" {
		d.litellmFoundry(e, &i)
	}
	d.litellmDetails(e, &i)
	return i, true
}

// endsInVersion matches addresses below which there is an API of OpenAI.
var endsInVersion = regexp.MustCompile(`/v[0-9]+([a-z-][^/]*)?$`)

// litellmAddress sets the address and, where the one that LiteLLM has does not say it, the
// path: LiteLLM appends /chat/completions and the like to an address, with or without a
// version in it.
func (d *draft) litellmAddress(e *litellmEntry, i *instance) {
	p := e.provider
	i.baseURL, i.path = p.BaseURL, p.Path
	n := e.param("api_base", "base_url")
	base := strings.TrimRight(d.Text(n), "/")
	if base == "" && p.Address == "" {
		return
	}
	end := strings.TrimPrefix(services.OpenAIPath(e.serviceType), "/v1")
	usual := p.BaseURL
	if services.IsOpenAI(p, e.serviceType) && usual != "" && p.Path == "" {
		usual += "/v1"
	}
	if base == "" { // LiteLLM looks at a variable by itself
		i.baseURL = d.address("os.environ/"+p.Address, e.setting+
			": LiteLLM takes this address from the environment by itself", usual)
		if services.IsOpenAI(p, e.serviceType) {
			i.path = end
		}
		if usual == "" {
			d.Changed(e.node, e.from("api_base"),
				"the variable %s, in which LiteLLM looks for the address; where it is not set, %s", p.Address,
				withDefaults(i.baseURL))
		}
		return
	}
	if services.IsOpenAI(p, e.serviceType) {
		base = strings.TrimSuffix(base, end)
		if i.path = end; endsInVersion.MatchString(base) {
			i.path = ""
		}
	} else {
		i.path = ""
		for _, whole := range []string{"/v1/messages", "/v1/rerank", "/v2/rerank"} {
			base = strings.TrimSuffix(base, whole)
		}
	}
	i.baseURL = d.address(base, e.from("api_base"), usual)
	if name := d.variableIn(base); name != "" {
		d.Changed(n, e.from("api_base"), "the variable %s; where it is not set, %s", name, withDefaults(i.baseURL))
	}
	if p.Name == "azure" && strings.Contains(base, "gateway.ai.cloudflare.com") {
		i.path = "/" + escaped(e.model) + end // Cloudflare has the deployment right behind the address
	}
}

// litellmFoundry adds the settings for models of Azure AI Foundry: those of Anthropic have
// an API of their own, and the key is in the header of Azure.
func (d *draft) litellmFoundry(e *litellmEntry, i *instance) {
	if strings.HasPrefix(e.model, "claude") {
		i.adapter = "anthropic"
		i.path = "/anthropic/v1/messages"
		if strings.HasSuffix(i.baseURL, "/anthropic") {
			i.path = "/v1/messages"
		}
	} else if i.path != "" && !strings.Contains(i.baseURL, "${") &&
		strings.Contains(i.baseURL, "services.ai.azure.com") {
		i.path = "/models" + i.path
		if version := d.Text(e.param("api_version")); version != "" {
			i.path += "?api-version=" + d.plain(version, e.from("api_version"), "2024-05-01-preview")
		}
	}
	if i.apiKey != "" && (i.adapter == "anthropic" || strings.Contains(i.baseURL, ".azure.com")) {
		i.headers, i.apiKey = map[string]string{"api-key": i.apiKey}, ""
	}
}

// litellmDetails reads the weight, the limits and the headers of an instance.
func (d *draft) litellmDetails(e *litellmEntry, i *instance) {
	d.litellmShare(e, i)
	if value, given := d.Number(e.params, "max_parallel_requests"); given && value > 0 {
		i.maxConcurrency = int(value)
	}
	timeout, hasTimeout := d.Number(e.params, "timeout")
	general, hasGeneral := d.Number(e.params, "request_timeout")
	switch {
	case hasTimeout && timeout > 0:
		i.timeouts = append(i.timeouts, "total: "+seconds(timeout))
		if hasGeneral {
			d.NotInForce(reading.At(e.params, "request_timeout"), e.from("request_timeout"), "timeout goes before it")
		}
	case hasGeneral && general > 0:
		i.timeouts = append(i.timeouts, "total: "+seconds(general))
	}
	if value, given := d.Number(e.params, "stream_timeout"); given && value > 0 {
		i.timeouts = append(i.timeouts, "first-token: "+seconds(value))
	}
	headers := map[string]string{}
	if organization := d.Text(e.params, "organization"); organization != "" {
		headers["OpenAI-Organization"] = d.secret(organization, e.from("organization"), "OPENAI_ORGANIZATION")
	}
	for _, name := range []string{"extra_headers", "headers"} {
		for _, header := range reading.Entries(reading.At(e.params, name)) {
			headers[header.Key] = d.secret(d.Text(header.Value), e.from(name)+"."+header.Key,
				path.Join(e.name, header.Key))
		}
	}
	for name, value := range headers {
		if i.headers == nil {
			i.headers = map[string]string{}
		}
		i.headers[name] = value
	}
}
