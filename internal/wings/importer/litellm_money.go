package importer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// litellmPrice reads the costs of a model, which are among its parameters or its notes.
func (d *draft) litellmPrice(e *litellmEntry) {
	entry := map[string]jsontext.Value{}
	var at reading.Setting
	for _, member := range append(e.At("model_info").Entries(), e.params.Entries()...) {
		if !slices.Contains(prices.Listed(), member.Key) {
			continue
		}
		if value, given := member.Number(); given {
			entry[member.Key] = jsontext.Value(strconv.FormatFloat(value, 'g', -1, 64))
			at = member
		}
	}
	if !at.Exists() {
		return
	}
	at = at.As(e.Name + " costs")
	entry["mode"] = jsontext.Value(strconv.Quote(e.Text("model_info", "mode")))
	written, err := json.Marshal(entry)
	if err != nil {
		at.Unsupported("its costs cannot be read: %v", err)
		return
	}
	d.addPrice(at, e.name, written)
}

// addPrice adds the price of a model, or of a pattern, given an entry of LiteLLM's price list.
func (d *draft) addPrice(n reading.Setting, model string, entry jsontext.Value) {
	written, err := json.Marshal(map[string]jsontext.Value{"model": entry})
	if err != nil {
		n.Unsupported("the price cannot be read: %v", err)
		return
	}
	read, problems, err := prices.Import(written)
	price := prices.Model{Model: escaped(model)}
	switch at := slices.IndexFunc(d.prices, func(p prices.Model) bool { return p.Model == price.Model }); {
	case err != nil || len(problems) > 0:
		n.Unsupported("the price cannot be read: %v %s", err, strings.Join(problems, ", "))
		return
	case len(read) == 0:
		n.Taken("%s costs nothing, as without a price", model)
		return
	case at < 0:
		price.Price = read[0].Price
		d.prices = append(d.prices, price)
	case d.prices[at].Price != read[0].Price:
		n.Changed("a model has one price here: that of its first entry")
		return
	}
	n.Taken("prices.models: %s; it counts in budgets of money", model)
}

// litellmCache reads which answers are kept.
func (d *draft) litellmCache(settings reading.Setting) {
	n, params := settings.At("cache"), settings.At("cache_params")
	if !n.IsOn() {
		return
	}
	switch kind := params.Text("type"); {
	case strings.Contains(kind, "semantic"):
		n.Unsupported("there is no cache by meaning; answer-cache keeps answers of equal requests; " +
			"docs/caching.md")
		return
	case params.Text("mode") == "default_off":
		n.Unsupported("requests cannot ask for the cache; answer-cache.keys keeps answers of some keys")
		return
	}
	calls, kept := strings.Join(params.Texts("supported_call_types"), " "), []string{}
	for _, one := range []struct {
		serviceType schema.ServiceType
		call        string
	}{{schema.Chat, "completion"}, {schema.Embedding, "embedding"}, {schema.Rerank, "rerank"}} {
		if d.services[one.serviceType] != nil && (calls == "" || strings.Contains(calls, one.call)) {
			kept = append(kept, one.serviceType.String())
		}
	}
	if len(kept) == 0 {
		n.Unsupported("no service type that is imported has answers that are kept; docs/caching.md")
		return
	}
	cache := members{{"services", list(kept)}, {"ttl", params.Seconds("ttl")}}.section("answer-cache")
	if fault := faultOf(cache); fault != "" {
		n.Unsupported("%s", fault)
		return
	}
	d.answerCache = cache
	n.Changed("answer-cache.services: %s. It keeps answers of deterministic requests only, for each "+
		"tenant apart, in memory (answer-cache.shared: in Redis); docs/caching.md", list(kept))
}
