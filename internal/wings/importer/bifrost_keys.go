package importer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/wings/importer/reading"
	"go.yaml.in/yaml/v3"
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
	models, some := d.bifrostAllowed(g, n, setting)
	if !some {
		return
	}
	key.terms.models = models
	key.terms.expires = d.Text(n, "expires_at")
	key.hash = d.hash(value, setting+".value")
	d.bifrostTerms(g, n, setting, "virtual_key_id", cmp.Or(id, value), &key.terms)
	if d.addKey(n, setting, key) && name != "" && name != key.name {
		d.Changed(reading.At(n, "name"), setting+".name", "a key is called by its id, %s, and not %s", key.name, name)
	}
}

// allowance lists the models of one provider that a virtual key may use.
type allowance struct {
	provider *bifrostProvider
	node     *yaml.Node
	setting  string
	models   []string
	isAll    bool // of its models, which models does not list where they are discovered
}

// bifrostAllowed returns the models that a virtual key is good for, and whether there are
// any; an empty list means all.
func (d *draft) bifrostAllowed(g *governance, n *yaml.Node, setting string) (models []string, some bool) {
	configs := reading.At(n, "provider_configs")
	if len(reading.Items(configs)) == 0 {
		if !g.allowsByDefault {
			d.NotInForce(
				n, setting, `it has no provider_configs, which allows it nothing, unless the configuration says `+
					`"version": 1 as those of Bifrost 1.4 mean it`)
		}
		return nil, g.allowsByDefault
	}
	var allowances []allowance
	isAll, isLacking := true, false
	for i, item := range reading.Items(configs) {
		isLacking = isLacking || g.providers[d.Peek(item, "provider")] == nil
		if a, ok := d.bifrostAllowance(g, item, fmt.Sprintf("%s.provider_configs[%d]", setting, i)); ok {
			allowances = append(allowances, a)
		}
	}
	if len(allowances) == 0 && !isLacking {
		d.NotInForce(n, setting, "it allows no model of any provider")
		return nil, false
	}
	for name := range g.providers {
		isAll = isAll && slices.ContainsFunc(allowances,
			func(a allowance) bool { return a.provider.name == name && a.isAll })
	}
	if isAll && len(allowances) > 0 {
		d.Taken(configs, setting+".provider_configs", "all models")
		return nil, true
	}
	for _, a := range allowances {
		models = append(models, a.models...)
		if !a.isAll || !a.provider.hasAll {
			continue
		}
		if families := a.provider.provider.Families; len(families) > 0 {
			models = append(models, families...)
			d.Changed(a.node, a.setting, "the models of %s by their names: %s", a.provider.name,
				strings.Join(families, ", "))
		} else {
			d.Unsupported(a.node, a.setting, "the models of %s are discovered, and their names cannot be told from "+
				"others; name those that the key is for", a.provider.name)
		}
	}
	slices.Sort(models)
	if models = slices.Compact(models); len(models) == 0 {
		d.Unsupported(n, setting, "none of the models that it is for can be named here; issue a key with patchbay "+
			"keys create --model")
		return nil, false
	}
	d.Taken(configs, setting+".provider_configs", "models: %s", strings.Join(models, ", "))
	return models, true
}

// bifrostAllowance reads the allowance of a virtual key for one provider.
func (d *draft) bifrostAllowance(g *governance, n *yaml.Node, setting string) (a allowance, ok bool) {
	name := d.Text(n, "provider")
	d.Use(reading.At(n, "id"))
	d.Use(reading.At(n, "virtual_key_id"))
	p := g.providers[name]
	if p == nil {
		d.Unsupported(n, setting, "the provider %s has no instances here", name)
		return a, false
	}
	if weight := reading.At(n, "weight"); weight != nil && len(g.providers) > 1 {
		d.Unsupported(weight, setting+".weight", "weights are those of instances, the same for all keys")
	} else {
		d.Use(weight)
	}
	if keys := d.Texts(n, "key_ids"); len(keys) == 0 && !g.allowsByDefault {
		d.NotInForce(n, setting, "it has no key_ids, which allows it nothing")
		return a, false
	} else if len(keys) > 0 && !slices.Contains(keys, "*") {
		d.Unsupported(reading.At(n, "key_ids"), setting+".key_ids",
			"a key is limited to models, not to the instances that serve them")
	}
	a = allowance{provider: p, node: n, setting: setting}
	for _, model := range d.Texts(n, "allowed_models") {
		a.models = append(a.models, strings.TrimPrefix(model, name+"/"))
	}
	a.isAll = slices.Contains(a.models, "*") || len(a.models) == 0 && g.allowsByDefault
	if len(a.models) == 0 && !a.isAll {
		d.NotInForce(n, setting, "an empty list of allowed_models allows none")
		return a, false
	}
	if a.isAll {
		a.models = slices.Clone(p.models)
	}
	if blocked := d.Texts(n, "blacklisted_models"); len(blocked) > 0 {
		a.models = slices.DeleteFunc(a.models, func(model string) bool {
			return slices.Contains(blocked, model) ||
				slices.Contains(blocked, "*")
		})
		if a.isAll && p.hasAll && !slices.Contains(blocked, "*") {
			d.Unsupported(reading.At(n, "blacklisted_models"), setting+".blacklisted_models",
				"all models of %s but some cannot be said, because they are discovered; name those that the key is for",
				name)
		}
		a.isAll = false
	}
	return a, true
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
