package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// governance is the part of Bifrost's configuration about virtual keys and their owners.
type governance struct {
	reading.Setting
	providers       map[string]*bifrostProvider
	allowsByDefault bool
}

// bifrostGovernance reads virtual keys, teams and customers.
func (d *draft) bifrostGovernance(root, client reading.Setting, known map[string]*bifrostProvider,
	allowsByDefault bool) {
	g := &governance{root, known, allowsByDefault}
	keys := root.At("virtual_keys")
	for _, key := range keys.Items() {
		d.bifrostKey(g, key)
	}
	for _, kind := range []string{"team", "customer"} {
		for _, n := range root.At(kind + "s").Items() {
			d.bifrostTenant(g, n, kind)
		}
	}
	for _, price := range root.At("pricing_overrides").Items() {
		d.bifrostPrice(price)
	}
	for _, name := range []string{"enforce_auth_on_inference", "enforce_governance_header"} {
		n := client.At(name)
		if n.Use(); n.IsOn() {
			d.isSecured = true
			n.Taken("security.enabled: true")
		} else if n.Exists() && len(d.keys) == 0 {
			n.Taken("security.enabled: false, which is the default")
		}
	}
	if len(d.keys) > 0 && !d.isSecured {
		keys.Changed("callers need a key as soon as there are any, which Bifrost asks for only with " +
			"client.enforce_auth_on_inference")
	}
}

// bifrostPrice reads a price, which is text in the form of LiteLLM's price list.
func (d *draft) bifrostPrice(n reading.Setting) {
	pattern, patch, scope := n.Text("pattern"), n.Text("pricing_patch"), n.Text("scope_kind")
	if pattern == "" || patch == "" || scope != "global" && scope != "provider" {
		n.Unsupported("a model has one price, for all keys")
		return
	}
	n.Use("id", "name", "match_type", "request_types", "provider_id")
	d.addPrice(n, pattern, jsontext.Value(patch))
	d.addPrice(n, "*/"+pattern, jsontext.Value(patch)) // its name with a provider
}

func (d *draft) bifrostKey(g *governance, n reading.Setting) {
	id, name, value := n.Text("id"), n.At("name"), n.At("value")
	if id == value.Text() { // the id is shown where the value must not be
		id = ""
	}
	key := credential{name: cmp.Or(id, name.Text(), "bifrost"),
		tenant: cmp.Or(n.Text("team_id"), n.Text("customer_id"))}
	switch {
	case n.IsOff("is_active"):
		n.NotInForce("it is not active")
		return
	case value.Text() == "":
		n.Unsupported("it has no value here; issue a new key with patchbay keys create")
		return
	case strings.HasPrefix(value.Text(), "vault."):
		n.Unsupported("its value is in a vault that only Bifrost asks; issue a new key with patchbay " +
			"keys create")
		return
	}
	if !d.bifrostAllowed(g, n, &key.terms) {
		return
	}
	key.terms.expires = n.Text("expires_at")
	key.hash = d.hash(value)
	g.readTerms(n, "virtual_key_id", cmp.Or(id, value.Text()), &key.terms)
	if d.addKey(n, key) && name.Text() != "" && name.Text() != key.name {
		name.Changed("a key is called by its id, %s, and not %s", key.name, name.Text())
	}
}

// allowance holds the models and keys of one provider that a virtual key may use.
type allowance struct {
	provider     string
	models, keys []string // "*" is all
	blocked      []string
}

// includes reports whether the virtual key may use an instance.
func (a *allowance) includes(i instance) bool {
	is := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(one string) bool { return one == "*" || slices.Contains(names, one) })
	}
	if i.origin.provider != a.provider || !is(a.keys, i.origin.key...) || is(a.blocked, i.origin.model) {
		return false
	}
	return is(a.models, i.origin.model) || len(i.models) > 0 && len(a.models) > 0
}

// names returns the names under which the virtual key may use an instance, and whether they
// are known.
func (a *allowance) names(i instance) (names []string, areKnown bool) {
	if len(i.models) == 0 {
		return []string{i.name}, true
	}
	if !slices.Contains(a.models, "*") {
		for _, model := range a.models {
			names = append(names, strings.Replace(i.name, "*", escaped(model), 1))
		}
		return names, true
	}
	if i.name != discovered {
		return []string{i.name}, true
	}
	return i.origin.families, len(i.origin.families) > 0
}

// bifrostAllowed sets the models and instances that a virtual key is good for, and reports
// whether there are any. A key that may use all of them has neither.
func (d *draft) bifrostAllowed(g *governance, n reading.Setting, t *terms) bool {
	configs := n.At("provider_configs")
	if len(configs.Items()) == 0 {
		if !g.allowsByDefault {
			n.NotInForce(`it has no provider_configs, which allows it nothing, unless the configuration says ` +
				`"version": 1 as those of Bifrost 1.4 mean it`)
		}
		return g.allowsByDefault
	}
	var allowances []allowance
	isLacking := false
	for _, item := range configs.Items() {
		isLacking = isLacking || g.providers[item.Peek("provider")] == nil
		if a, ok := d.bifrostAllowance(g, item); ok {
			allowances = append(allowances, a)
		}
	}
	if len(allowances) == 0 && !isLacking {
		n.NotInForce("it allows no model of any provider")
		return false
	}
	var own, others []instance
	areKnown := true
	for _, i := range d.instances() {
		at := slices.IndexFunc(allowances, func(a allowance) bool { return a.includes(i) })
		if at < 0 {
			others = append(others, i)
			continue
		}
		names, known := allowances[at].names(i)
		own, areKnown, t.models = append(own, i), areKnown && known, append(t.models, names...)
	}
	if len(own) == 0 {
		n.Unsupported("none of the models that it is for is here; issue a key with patchbay keys create " +
			"--model")
		return false
	}
	slices.Sort(t.models)
	if t.models = slices.Compact(t.models); !areKnown || len(others) == 0 {
		t.models = nil
	}
	t.keepApart(own, others)
	configs.Taken("models: %s; instances: %s", cmp.Or(strings.Join(t.models, ", "), "all"),
		cmp.Or(strings.Join(t.instances, ", "), "all"))
	return true
}

// keepApart names the instances of a key, if its models are served by others too.
func (t *terms) keepApart(own, others []instance) {
	isOpen := func(i instance) bool {
		return len(t.models) == 0 || slices.ContainsFunc(t.models, func(model string) bool {
			return naming.NewPattern(model).Matches(i.name) ||
				i.finds(model) && (i.name != discovered || i.mayList(model))
		})
	}
	if !slices.ContainsFunc(others, isOpen) {
		return
	}
	for _, i := range own {
		id := i.name
		if !slices.ContainsFunc(others, func(other instance) bool { return other.baseURL == i.baseURL }) {
			id = "*"
		}
		t.instances = append(t.instances, id+"@"+i.baseURL)
	}
	slices.Sort(t.instances)
	t.instances = slices.Compact(t.instances)
}

// bifrostAllowance reads the allowance of a virtual key for one provider.
func (d *draft) bifrostAllowance(g *governance, n reading.Setting) (a allowance, ok bool) {
	name, weight := n.Text("provider"), n.At("weight")
	n.Use("id", "virtual_key_id")
	a = allowance{provider: name, keys: n.Texts("key_ids"), blocked: n.Texts("blacklisted_models")}
	if g.providers[name] == nil {
		n.Unsupported("the provider %s has no instances here", name)
		return a, false
	}
	if weight.Use(); weight.Exists() && len(g.providers) > 1 {
		weight.Unsupported("weights are those of instances, the same for all keys")
	}
	for _, model := range n.Texts("allowed_models") {
		a.models = append(a.models, strings.TrimPrefix(model, name+"/"))
	}
	if g.allowsByDefault && len(a.keys) == 0 {
		a.keys = []string{"*"}
	}
	if g.allowsByDefault && len(a.models) == 0 {
		a.models = []string{"*"}
	}
	switch {
	case len(a.keys) == 0:
		n.NotInForce("it has no key_ids, which allows it nothing")
		return a, false
	case len(a.models) == 0:
		n.NotInForce("an empty list of allowed_models allows none")
		return a, false
	case len(a.blocked) > 0 && slices.Contains(a.models, "*") &&
		slices.ContainsFunc(d.instances(), func(i instance) bool {
			return i.origin.provider == name && len(i.models) > 0
		}):
		n.At("blacklisted_models").Unsupported("all models of %s but some cannot be said, because they are "+
			"discovered; name those that the key is for", name)
	}
	return a, true
}

// instances returns the instances of all service types.
func (d *draft) instances() (all []instance) {
	for _, serviceType := range schema.ServiceTypes() {
		if s := d.services[serviceType]; s != nil {
			all = append(all, s.instances...)
		}
	}
	return all
}

// bifrostTenant makes a team or a customer a tenant, if a key belongs to it.
func (d *draft) bifrostTenant(g *governance, n reading.Setting, kind string) {
	t := tenant{name: n.Text("id")}
	if !slices.ContainsFunc(d.keys, func(key credential) bool { return key.tenant == t.name }) {
		n.Unsupported("no key that was imported belongs to it; keys have one tenant, so that what a " +
			"customer has for all teams has no place")
		return
	}
	if customer := n.At("customer_id"); customer.Exists() {
		customer.Unsupported("a tenant belongs to no other one; the limits of the customer hold for its own keys only")
	}
	g.readTerms(n, kind+"_id", t.name, &t.terms)
	d.tenants = append(d.tenants, t)
	n.Taken("tenant %s (%s)", t.name, n.Text("name"))
}

// readTerms reads the budgets and limits of a virtual key, a team or a customer: its own
// ones, the ones that it names, and budgets that name it.
func (g *governance) readTerms(n reading.Setting, owner, id string, t *terms) {
	isAligned := n.IsOn("calendar_aligned")
	if budget := n.At("budget"); budget.Exists() {
		readBudget(budget, isAligned, t)
	}
	for _, budget := range n.At("budgets").Items() {
		readBudget(budget, isAligned, t)
	}
	named := n.Text("budget_id")
	for _, budget := range g.At("budgets").Items() {
		// A budget that is read for one owner may belong to another one, too.
		if budget.Peek(owner) == id || named != "" && budget.Peek("id") == named {
			readBudget(budget, isAligned, t)
			budget.Use(owner, "id")
		}
	}
	if limit := n.At("rate_limit"); limit.Exists() {
		readLimit(limit, t)
	}
	named = n.Text("rate_limit_id")
	for _, limit := range g.At("rate_limits").Items() {
		if named != "" && limit.Peek("id") == named {
			readLimit(limit, t)
			limit.Use("id")
		}
	}
	for _, model := range g.At("model_configs").Items() {
		if owner == "virtual_key_id" && model.Peek("scope") == "virtual_key" && model.Peek("scope_id") == id &&
			model.Peek("model_name") == "*" && model.Peek("provider") == "" {
			model.Use("id", "scope", "scope_id", "model_name")
			g.readTerms(model, "model_config_id", model.Peek("id"), t)
		}
	}
}

// windowOf returns our window for a length of time of Bifrost: minute, day, month, or
// nothing. The caller reports other lengths as they are.
func windowOf(duration string) string {
	switch duration {
	case "1m", "60s":
		return "minute"
	case "1d", "24h":
		return "day"
	case "1M", "30d":
		return "month"
	}
	return ""
}

func readBudget(n reading.Setting, isAligned bool, t *terms) {
	amount, given := n.Number("max_limit")
	duration := n.Text("reset_duration")
	window := windowOf(duration)
	isAligned = n.IsOn("calendar_aligned") || isAligned
	if !given || amount <= 0 || window != "day" && window != "month" {
		n.Unsupported("a budget is for a day, a month or in all, not for %s", cmp.Or(duration, "no time"))
		return
	}
	written := strconv.FormatFloat(amount, 'f', -1, 64)
	if !t.add(window, "cost", written) {
		n.Unsupported("there is a budget of money for the same time already")
		return
	}
	text := fmt.Sprintf("budgets.%s.cost: %s; models cost what prices say, and nothing without (patchbay prices "+
		"import)", window, written)
	if !isAligned {
		text += ". It begins anew with each " + window + " (UTC)"
	}
	n.Changed("%s", text)
}

func readLimit(n reading.Setting, t *terms) {
	for _, unit := range []string{"request", "token"} {
		plural := unit + "s"
		limit := n.At(unit + "_max_limit")
		amount, given := limit.Number()
		duration := n.Text(unit + "_reset_duration")
		if !given || amount <= 0 {
			continue
		}
		written := strconv.FormatFloat(amount, 'f', 0, 64)
		window := windowOf(duration)
		switch {
		case window == "":
			limit.Unsupported("limits are for a minute, and budgets for a day, a month or in all, not for %s",
				cmp.Or(duration, "no time"))
		case window == "minute":
			t.perMinute = append(t.perMinute, [2]string{plural + "-per-minute", written})
			limit.Taken("limits.%s-per-minute: %s", plural, written)
		case t.add(window, plural, written):
			limit.Changed("budgets.%s.%s: %s", window, plural, written)
		default:
			limit.Unsupported("there is a budget of %s for the same time already", plural)
		}
	}
}

// add adds a budget, and reports whether there was none of its kind.
func (t *terms) add(window, unit, amount string) bool {
	if slices.ContainsFunc(t.budgets[window], func(one [2]string) bool { return one[0] == unit }) {
		return false
	}
	if t.budgets == nil {
		t.budgets = map[string]members{}
	}
	t.budgets[window] = append(t.budgets[window], [2]string{unit, amount})
	return true
}
