package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
)

// governance is the part of Bifrost's configuration about virtual keys and their owners.
type governance struct {
	root            *yaml.Node
	providers       map[string]*bifrostProvider
	allowsByDefault bool
}

// bifrostGovernance reads virtual keys, teams and customers.
func (d *draft) bifrostGovernance(root, client *yaml.Node, known map[string]*bifrostProvider, allowsByDefault bool) {
	g := &governance{root, known, allowsByDefault}
	keys := reading.Items(reading.At(root, "virtual_keys"))
	for i, key := range keys {
		d.bifrostKey(g, key, fmt.Sprintf("governance.virtual_keys[%d]", i))
	}
	for _, group := range []string{"teams", "customers"} {
		for i, n := range reading.Items(reading.At(root, group)) {
			d.bifrostTenant(g, n, strings.TrimSuffix(group, "s"), fmt.Sprintf("governance.%s[%d]", group, i))
		}
	}
	for i, n := range reading.Items(reading.At(root, "pricing_overrides")) {
		d.bifrostPrice(n, fmt.Sprintf("governance.pricing_overrides[%d]", i))
	}
	for _, name := range []string{"enforce_auth_on_inference", "enforce_governance_header"} {
		n := reading.At(client, name)
		if d.Use(n); n != nil && !d.IsOff(n) {
			d.isSecured = true
			d.Taken(n, "client."+name, "security.enabled: true")
		} else if n != nil && len(d.keys) == 0 {
			d.Taken(n, "client."+name, "security.enabled: false, which is the default")
		}
	}
	if len(d.keys) > 0 && !d.isSecured {
		d.Changed(reading.At(root, "virtual_keys"), "governance.virtual_keys",
			"callers need a key as soon as there are any, which Bifrost asks for only with "+
				"client.enforce_auth_on_inference")
	}
}

// bifrostPrice reads a price, which is text in the form of LiteLLM's price list.
func (d *draft) bifrostPrice(n *yaml.Node, setting string) {
	pattern, patch, scope := d.Text(n, "pattern"), d.Text(n, "pricing_patch"), d.Text(n, "scope_kind")
	if pattern == "" || patch == "" || scope != "global" && scope != "provider" {
		d.Unsupported(n, setting, "a model has one price, for all keys")
		return
	}
	for _, name := range []string{"id", "name", "match_type", "request_types", "provider_id"} {
		d.Use(reading.At(n, name))
	}
	d.addPrice(n, setting, pattern, jsontext.Value(patch))
	d.addPrice(n, setting, "*/"+pattern, jsontext.Value(patch)) // its name with a provider
}

func (d *draft) bifrostKey(g *governance, n *yaml.Node, setting string) {
	id, name, value := d.Text(n, "id"), d.Text(n, "name"), d.Text(n, "value")
	if id == value { // the id is shown where the value must not be
		id = ""
	}
	key := credential{name: cmp.Or(id, name, "bifrost"), tenant: cmp.Or(d.Text(n, "team_id"), d.Text(n, "customer_id"))}
	switch {
	case d.IsOff(n, "is_active"):
		d.NotInForce(n, setting, "it is not active")
		return
	case value == "":
		d.Unsupported(n, setting, "it has no value here; issue a new key with patchbay keys create")
		return
	case strings.HasPrefix(value, "vault."):
		d.Unsupported(n, setting, "its value is in a vault that only Bifrost asks; issue a new key with patchbay "+
			"keys create")
		return
	}
	if !d.bifrostAllowed(g, n, setting, &key.terms) {
		return
	}
	key.terms.expires = d.Text(n, "expires_at")
	key.hash = d.hash(value, setting+".value")
	d.bifrostTerms(g, n, setting, "virtual_key_id", cmp.Or(id, value), &key.terms)
	if d.addKey(n, setting, key) && name != "" && name != key.name {
		d.Changed(reading.At(n, "name"), setting+".name", "a key is called by its id, %s, and not %s", key.name, name)
	}
}

// allowance holds the models and keys of one provider that a virtual key may use.
type allowance struct {
	provider     *bifrostProvider
	models, keys []string // "*" is all
	blocked      []string
}

// includes reports whether the virtual key may use an instance.
func (a *allowance) includes(i instance) bool {
	is := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(one string) bool { return one == "*" || slices.Contains(names, one) })
	}
	if i.origin.provider != a.provider.name || !is(a.keys, i.origin.key...) || is(a.blocked, i.origin.model) {
		return false
	}
	return is(a.models, i.origin.model) || len(i.models) > 0 && len(a.models) > 0
}

// names returns the names under which the virtual key may use an instance, and whether they
// can be told.
func (a *allowance) names(i instance) (names []string, areTold bool) {
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
func (d *draft) bifrostAllowed(g *governance, n *yaml.Node, setting string, t *terms) bool {
	configs := reading.At(n, "provider_configs")
	if len(reading.Items(configs)) == 0 {
		if !g.allowsByDefault {
			d.NotInForce(
				n, setting, `it has no provider_configs, which allows it nothing, unless the configuration says `+
					`"version": 1 as those of Bifrost 1.4 mean it`)
		}
		return g.allowsByDefault
	}
	var allowances []allowance
	isLacking := false
	for i, item := range reading.Items(configs) {
		isLacking = isLacking || g.providers[d.Peek(item, "provider")] == nil
		if a, ok := d.bifrostAllowance(g, item, fmt.Sprintf("%s.provider_configs[%d]", setting, i)); ok {
			allowances = append(allowances, a)
		}
	}
	if len(allowances) == 0 && !isLacking {
		d.NotInForce(n, setting, "it allows no model of any provider")
		return false
	}
	var own, others []instance
	areTold := true
	for _, serviceType := range schema.ServiceTypes() {
		for _, i := range d.instancesOf(serviceType) {
			at := slices.IndexFunc(allowances, func(a allowance) bool { return a.includes(i) })
			if at < 0 {
				others = append(others, i)
				continue
			}
			names, told := allowances[at].names(i)
			own, areTold, t.models = append(own, i), areTold && told, append(t.models, names...)
		}
	}
	if len(own) == 0 {
		d.Unsupported(n, setting, "none of the models that it is for is here; issue a key with patchbay keys create "+
			"--model")
		return false
	}
	slices.Sort(t.models)
	if t.models = slices.Compact(t.models); !areTold || len(others) == 0 {
		t.models = nil
	}
	t.keepApart(own, others)
	d.Taken(configs, setting+".provider_configs", "models: %s; instances: %s",
		cmp.Or(strings.Join(t.models, ", "), "all"), cmp.Or(strings.Join(t.instances, ", "), "all"))
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
func (d *draft) bifrostAllowance(g *governance, n *yaml.Node, setting string) (a allowance, ok bool) {
	name := d.Text(n, "provider")
	d.Use(reading.At(n, "id"))
	d.Use(reading.At(n, "virtual_key_id"))
	a = allowance{provider: g.providers[name], keys: d.Texts(n, "key_ids"), blocked: d.Texts(n, "blacklisted_models")}
	if a.provider == nil {
		d.Unsupported(n, setting, "the provider %s has no instances here", name)
		return a, false
	}
	if weight := reading.At(n, "weight"); weight != nil && len(g.providers) > 1 {
		d.Unsupported(weight, setting+".weight", "weights are those of instances, the same for all keys")
	} else {
		d.Use(weight)
	}
	for _, model := range d.Texts(n, "allowed_models") {
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
		d.NotInForce(n, setting, "it has no key_ids, which allows it nothing")
	case len(a.models) == 0:
		d.NotInForce(n, setting, "an empty list of allowed_models allows none")
	default:
		if len(a.blocked) > 0 && slices.Contains(a.models, "*") && d.discovers(name) {
			d.Unsupported(reading.At(n, "blacklisted_models"), setting+".blacklisted_models",
				"all models of %s but some cannot be said, because they are discovered; name those that the key is for",
				name)
		}
		return a, true
	}
	return a, false
}

// instancesOf returns the instances of a service type.
func (d *draft) instancesOf(serviceType schema.ServiceType) []instance {
	if s := d.services[serviceType]; s != nil {
		return s.instances
	}
	return nil
}

// discovers reports whether models of a provider are discovered.
func (d *draft) discovers(provider string) bool {
	return slices.ContainsFunc(schema.ServiceTypes(), func(serviceType schema.ServiceType) bool {
		return slices.ContainsFunc(d.instancesOf(serviceType), func(i instance) bool {
			return i.origin.provider == provider && len(i.models) > 0
		})
	})
}

// bifrostTenant makes a team or a customer a tenant, if a key belongs to it.
func (d *draft) bifrostTenant(g *governance, n *yaml.Node, kind, setting string) {
	id, name := d.Text(n, "id"), d.Text(n, "name")
	if !slices.ContainsFunc(d.keys, func(key credential) bool { return key.tenant == id }) {
		d.Unsupported(n, setting, "no key that was imported belongs to it; keys have one tenant, so that what a "+
			"customer has for all teams has no place")
		return
	}
	if customer := reading.At(n, "customer_id"); customer != nil {
		d.Unsupported(customer, setting+".customer_id",
			"a tenant belongs to no other one; the limits of the customer hold for its own keys only")
	}
	t := tenant{name: id}
	d.bifrostTerms(g, n, setting, kind+"_id", id, &t.terms)
	d.tenants = append(d.tenants, t)
	d.Taken(n, setting, "tenant %s (%s)", id, name)
}

// bifrostTerms reads the budgets and limits of a virtual key, a team or a customer: its own
// ones, the ones that it names, and budgets that name it.
func (d *draft) bifrostTerms(g *governance, n *yaml.Node, setting, owner, id string, t *terms) {
	isAligned := reading.At(n, "calendar_aligned") != nil && !d.IsOff(n, "calendar_aligned")
	d.Use(reading.At(n, "calendar_aligned"))
	if budget := reading.At(n, "budget"); budget != nil {
		d.bifrostBudget(budget, setting+".budget", isAligned, t)
	}
	for i, budget := range reading.Items(reading.At(n, "budgets")) {
		d.bifrostBudget(budget, fmt.Sprintf("%s.budgets[%d]", setting, i), isAligned, t)
	}
	named := d.Text(n, "budget_id")
	for i, budget := range reading.Items(reading.At(g.root, "budgets")) {
		// A budget that is read for one owner may belong to another one, too.
		if wanted := d.Peek(budget, owner) == id || named != "" && d.Peek(budget, "id") == named; wanted {
			d.bifrostBudget(budget, fmt.Sprintf("governance.budgets[%d]", i), isAligned, t)
			d.Use(reading.At(budget, owner))
			d.Use(reading.At(budget, "id"))
		}
	}
	if limit := reading.At(n, "rate_limit"); limit != nil {
		d.bifrostLimit(limit, setting+".rate_limit", t)
	}
	named = d.Text(n, "rate_limit_id")
	for i, limit := range reading.Items(reading.At(g.root, "rate_limits")) {
		if named != "" && d.Peek(limit, "id") == named {
			d.bifrostLimit(limit, fmt.Sprintf("governance.rate_limits[%d]", i), t)
			d.Use(reading.At(limit, "id"))
		}
	}
	for i, model := range reading.Items(reading.At(g.root, "model_configs")) {
		if owner != "virtual_key_id" || d.Peek(model, "scope") != "virtual_key" || d.Peek(model, "scope_id") != id ||
			d.Peek(model, "model_name") != "*" || d.Peek(model, "provider") != "" {
			continue
		}
		for _, name := range []string{"id", "scope", "scope_id", "model_name"} {
			d.Use(reading.At(model, name))
		}
		d.bifrostTerms(g, model, fmt.Sprintf("governance.model_configs[%d]", i), "model_config_id", d.Peek(model, "id"),
			t)
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

func (d *draft) bifrostBudget(n *yaml.Node, setting string, isAligned bool, t *terms) {
	amount, given := d.Number(n, "max_limit")
	duration := d.Text(n, "reset_duration")
	window := windowOf(duration)
	if aligned := reading.At(n, "calendar_aligned"); aligned != nil {
		isAligned = isAligned || !d.IsOff(aligned)
	}
	if !given || amount <= 0 || window != "day" && window != "month" {
		d.Unsupported(n, setting, "a budget is for a day, a month or in all, not for %s", cmp.Or(duration, "no time"))
		return
	}
	if !t.add(window, "cost", strconv.FormatFloat(amount, 'f', -1, 64)) {
		d.Unsupported(n, setting, "there is a budget of money for the same time already")
		return
	}
	text := fmt.Sprintf("budgets.%s.cost: %s; models cost what prices say, and nothing without (patchbay prices "+
		"import)", window, strconv.FormatFloat(amount, 'f', -1, 64))
	if !isAligned {
		text += ". It begins anew with each " + window + " (UTC)"
	}
	d.Changed(n, setting, "%s", text)
}

func (d *draft) bifrostLimit(n *yaml.Node, setting string, t *terms) {
	for _, unit := range []struct{ prefix, plural string }{{"request", "requests"}, {"token", "tokens"}} {
		limit := reading.At(n, unit.prefix+"_max_limit")
		amount, given := d.Number(limit)
		duration := d.Text(n, unit.prefix+"_reset_duration")
		if !given || amount <= 0 {
			continue
		}
		where := setting + "." + unit.prefix + "_max_limit"
		written := strconv.FormatFloat(amount, 'f', 0, 64)
		window := windowOf(duration)
		switch {
		case window == "":
			d.Unsupported(limit, where, "limits are for a minute, and budgets for a day, a month or in all, not for %s",
				cmp.Or(duration, "no time"))
		case window == "minute":
			t.perMinute = append(t.perMinute, unit.plural+"-per-minute: "+written)
			d.Taken(limit, where, "limits.%s-per-minute: %s", unit.plural, written)
		case t.add(window, unit.plural, written):
			d.Changed(limit, where, "budgets.%s.%s: %s", window, unit.plural, written)
		default:
			d.Unsupported(limit, where, "there is a budget of %s for the same time already", unit.plural)
		}
	}
}

// add adds a budget, and reports whether there was none of its kind.
func (t *terms) add(window, unit, amount string) bool {
	if slices.ContainsFunc(t.budgets[window], func(line string) bool { return strings.HasPrefix(line, unit+": ") }) {
		return false
	}
	if t.budgets == nil {
		t.budgets = map[string][]string{}
	}
	t.budgets[window] = append(t.budgets[window], unit+": "+amount)
	return true
}
