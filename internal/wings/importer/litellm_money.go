package importer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// litellmPrice reads the costs of a model, which are among its parameters or its notes.
func (d *draft) litellmPrice(e *litellmEntry) {
	entry := map[string]jsontext.Value{}
	var at *yaml.Node
	for _, n := range []*yaml.Node{reading.At(e.node, "model_info"), e.params} {
		for _, member := range reading.Entries(n) {
			value, given := 0.0, false
			if slices.Contains(prices.Listed(), member.Key) {
				value, given = d.Number(member.Value)
			}
			if given {
				entry[member.Key] = jsontext.Value(strconv.FormatFloat(value, 'g', -1, 64))
				at = member.Value
			}
		}
	}
	if at == nil {
		return
	}
	entry["mode"] = jsontext.Value(strconv.Quote(d.Text(e.node, "model_info", "mode")))
	written, err := json.Marshal(entry)
	if err != nil {
		d.Unsupported(at, e.setting, "its costs cannot be read: %v", err)
		return
	}
	d.addPrice(at, e.setting+" costs", e.name, written)
}

// addPrice adds the price of a model, or of a pattern, given an entry of LiteLLM's price list.
func (d *draft) addPrice(n *yaml.Node, setting, model string, entry jsontext.Value) {
	written, err := json.Marshal(map[string]jsontext.Value{"model": entry})
	if err != nil {
		d.Unsupported(n, setting, "the price cannot be read: %v", err)
		return
	}
	read, problems, err := prices.Import(written)
	price := prices.Model{Model: escaped(model)}
	switch at := slices.IndexFunc(d.prices, func(p prices.Model) bool { return p.Model == price.Model }); {
	case err != nil || len(problems) > 0:
		d.Unsupported(n, setting, "the price cannot be read: %v %s", err, strings.Join(problems, ", "))
		return
	case len(read) == 0:
		d.Taken(n, setting, "%s costs nothing, as without a price", model)
		return
	case at < 0:
		price.Price = read[0].Price
		d.prices = append(d.prices, price)
	case d.prices[at].Price != read[0].Price:
		d.Changed(n, setting, "a model has one price here: that of its first entry")
		return
	}
	d.Taken(n, setting, "prices.models: %s; it counts in budgets of money", model)
}

// litellmCache reads which answers are kept.
func (d *draft) litellmCache(settings *yaml.Node) {
	n, params := reading.At(settings, "cache"), reading.At(settings, "cache_params")
	if n == nil || d.IsOff(n) {
		return
	}
	const setting = "litellm_settings.cache"
	switch kind := d.Text(params, "type"); {
	case strings.Contains(kind, "semantic"):
		d.Unsupported(n, setting, "there is no cache by meaning; answer-cache keeps answers of equal requests; "+
			"docs/caching.md")
		return
	case d.Text(params, "mode") == "default_off":
		d.Unsupported(n, setting, "requests cannot ask for the cache; answer-cache.keys keeps answers of some keys")
		return
	}
	calls, kept := strings.Join(d.Texts(params, "supported_call_types"), " "), []string{}
	for _, one := range []struct {
		serviceType schema.ServiceType
		call        string
	}{{schema.Chat, "completion"}, {schema.Embedding, "embedding"}, {schema.Rerank, "rerank"}} {
		if d.services[one.serviceType] != nil && (calls == "" || strings.Contains(calls, one.call)) {
			kept = append(kept, one.serviceType.String())
		}
	}
	if len(kept) == 0 {
		d.Unsupported(n, setting, "no service type that is imported has answers that are kept; docs/caching.md")
		return
	}
	cache := map[string]string{"services": list(kept)}
	if ttl, given := d.Number(params, "ttl"); given && ttl > 0 {
		cache["ttl"] = seconds(ttl)
	}
	var written strings.Builder
	section(&written, "answer-cache", cache)
	if err := check(written.String()); err != nil {
		d.Unsupported(n, setting, "%s", faultOf(err))
		return
	}
	d.answerCache = cache
	d.Changed(n, setting, "answer-cache.services: %s. It keeps answers of deterministic requests only, for each "+
		"tenant apart, in memory (answer-cache.shared: in Redis); docs/caching.md", list(kept))
}
