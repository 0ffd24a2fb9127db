package importer

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/dialect/kinds"
	"github.com/patchbay-ai/patchbay/internal/discover"
)

// bifrost reads the configuration file of Bifrost.
func (d *draft) bifrost(root *yaml.Node) error {
	list := at(root, "providers")
	if list == nil {
		return errors.New("there are no providers, which every configuration of Bifrost has")
	}
	d.use(at(root, "$schema"))
	for _, e := range entries(list) {
		d.bifrostProvider(e.key, e.value)
	}
	client := at(root, "client")
	if origins := at(client, "allowed_origins"); origins != nil {
		for _, origin := range items(origins) {
			d.origins = append(d.origins, d.text(origin))
		}
		d.use(origins)
		d.taken(origins, "client.allowed_origins", "server.cors-origins")
	}
	if size, given := d.number(client, "max_request_body_size_mb"); given && size >= 1 {
		d.jsonBody = fmt.Sprintf("%dMiB", int(size))
		d.taken(at(client, "max_request_body_size_mb"), "client.max_request_body_size_mb", "limits.json-body: %s", d.jsonBody)
	}
	for i, key := range items(at(root, "governance", "virtual_keys")) {
		d.bifrostKey(key, fmt.Sprintf("governance.virtual_keys[%d]", i))
	}
	return nil
}

func (d *draft) bifrostKey(n *yaml.Node, setting string) {
	value := d.text(n, "value")
	name := firstOf(d.text(n, "id"), d.text(n, "name"))
	d.text(n, "name")
	switch {
	case d.isOff(n, "is_active"):
		d.unsupported(n, setting, "it is not active; issue a key when it is needed (patchbay keys create)")
		return
	case value == "":
		d.unsupported(n, setting, "it has no value; issue a new key with patchbay keys create")
		return
	}
	d.keys = append(d.keys, credential{name: name, hash: d.hash(value, setting+".value")})
	d.changed(n, setting, "API key %s, of which only the hash is stored", name)
}

func (d *draft) bifrostProvider(name string, n *yaml.Node) {
	setting := "providers." + name
	kind := firstOf(d.text(n, "custom_provider_config", "base_provider_type"), name)
	p, known := providerOf(kind)
	if !known {
		d.unsupported(n, setting, "no adapter speaks to the provider %s; if it has an OpenAI-compatible endpoint, add it with that address", kind)
		return
	}
	if base := d.text(n, "network_config", "base_url"); base != "" {
		p.baseURL, p.path = plainReference(base), ""
	}
	var timeouts []string
	if value, given := d.number(n, "network_config", "default_request_timeout_in_seconds"); given && value > 0 {
		timeouts = []string{"total: " + seconds(value)}
	}
	for i, key := range items(at(n, "keys")) {
		d.bifrostModels(key, fmt.Sprintf("%s.keys[%d]", setting, i), name, p, timeouts)
	}
	if len(items(at(n, "keys"))) == 0 {
		d.unsupported(n, setting, "it lists no keys and no models; add it with patchbay add")
	}
}

// bifrostModels makes an instance of every model of a key.
func (d *draft) bifrostModels(n *yaml.Node, setting, providerName string, p provider, timeouts []string) {
	weight, hasWeight := d.number(n, "weight")
	value := d.text(n, "value")
	for _, unused := range []string{"id", "name", "use_for_batch_api"} {
		d.use(at(n, unused))
	}
	deployments := map[string]string{}
	azure := at(n, "azure_key_config")
	for _, e := range entries(at(azure, "deployments")) {
		deployments[e.key] = d.text(e.value)
	}
	var models []string
	for _, model := range items(at(n, "models")) {
		models = append(models, d.text(model))
	}
	d.use(at(n, "models"))
	if len(models) == 0 || slices.Contains(models, "*") {
		models = nil
		for model := range deployments {
			models = append(models, model)
		}
		slices.Sort(models)
	}
	if len(models) == 0 {
		d.unsupported(n, setting, "it is for all models, and instances have the names of models; patchbay add %s --key-env NAME adds those that there are", firstOf(p.baseURL, providerName))
		return
	}
	isAzure := p.names[0] == "azure"
	if isAzure {
		p.baseURL = plainReference(firstOf(d.text(azure, "endpoint"), p.baseURL))
	}
	if p.baseURL == "" {
		d.unsupported(n, setting, "it has no base_url, and its provider no usual address")
		return
	}
	for _, model := range models {
		serviceType := discover.GuessService(model)
		if err := kinds.Check(p.adapter, serviceType); err != nil {
			d.unsupported(n, setting+" "+model, "the adapter %s does not serve %s", p.adapter, serviceType)
			continue
		}
		i := instance{name: model, baseURL: p.baseURL, path: p.path, adapter: p.adapter, timeouts: timeouts, weight: weight, noTraffic: hasWeight && weight == 0}
		secret := d.secret(value, setting+".value", providerName+"_API_KEY")
		if isAzure {
			path, known := azurePath(serviceType, firstOf(deployments[model], model), firstOf(d.text(azure, "api_version"), "2024-10-21"))
			if !known {
				d.unsupported(n, setting+" "+model, "Azure has no deployments for %s", serviceType)
				continue
			}
			i.path, i.headers = path, map[string]string{"api-key": secret}
		} else {
			i.apiKey = secret
		}
		d.addInstance(n, setting, serviceType, i)
	}
}
