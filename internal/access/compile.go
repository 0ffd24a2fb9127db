package access

import (
	"net/textproto"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// compiler makes the grants of all keys. It runs when keys or settings change; requests then find
// everything in the grant of their key.
type compiler struct {
	accounts *allowance.Accounts
	book     *budget.Book
	defaults Terms
	tenants  map[string]compiledTenant
	now      time.Time
	inUse    map[string]bool // the names of accounts
	// activityOf returns where the calls with a key are counted, by its id.
	activityOf func(id string) *activity
}

type compiledTenant struct {
	rule    rule
	account *allowance.Account
	budgets *budget.Account
	// priority is the most urgent class of all keys of the tenant.
	priority schema.Class
	runs     budget.RunLimits
}

func (c *Credentials) newCompiler() *compiler {
	k := &compiler{
		accounts: c.accounts, book: c.book, defaults: c.settings.Defaults,
		now:     time.Now(),
		tenants: make(map[string]compiledTenant, len(c.settings.Tenants)), inUse: make(map[string]bool),
		activityOf: c.activityOf,
	}
	tenants := slices.Clone(c.settings.Tenants)
	for name := range c.teams {
		if !slices.ContainsFunc(tenants, func(t Tenant) bool { return t.Name == name }) {
			tenants = append(tenants, Tenant{Name: name})
		}
	}
	for i := range tenants {
		tenant := &tenants[i]
		tenant.Budgets = tenant.Budgets.Lesser(c.teams[tenant.Name].Budgets)
		k.tenants[tenant.Name] = compiledTenant{
			newRule(&tenant.Terms), k.open(allowance.TenantName(tenant.Name), &tenant.Terms),
			k.book.Open(allowance.TenantName(tenant.Name), budget.TenantSubject(tenant.Name), tenant.Budgets),
			tenant.Priority, tenant.Runs,
		}
	}
	return k
}

// open returns the account for the limits of terms, nil where there are none.
func (k *compiler) open(name string, t *Terms) *allowance.Account {
	if k.inUse != nil {
		k.inUse[name] = true
	}
	return k.accounts.Open(name, t.Limits, k.now)
}

func (k *compiler) compile(key Key) *Grant {
	key.Terms = key.Terms.Or(k.defaults)
	g := &Grant{Key: key, rules: []rule{newRule(&key.Terms)}, activity: k.activityOf(key.ID)}
	g.userHeader = textproto.CanonicalMIMEHeaderKey(key.UserHeader)
	g.Accounts[0] = k.open(allowance.KeyName(key.ID), &key.Terms)
	g.Budgets[0] = k.book.Open(allowance.KeyName(key.ID), budget.KeySubject(key.ID), key.Budgets)
	if tenant, known := k.tenants[key.Tenant]; known {
		g.Accounts[1], g.Budgets[1] = tenant.account, tenant.budgets
		g.rules = append(g.rules, tenant.rule)
		g.Priority = min(g.Priority.Or(tenant.priority), tenant.priority.Or(g.Priority))
		g.Runs = g.Runs.Lesser(tenant.runs)
	}
	g.isPlaced = slices.ContainsFunc(g.rules, func(r rule) bool { return len(r.instances) > 0 })
	return g
}

// until returns the grant with an earlier end.
func (g *Grant) until(end time.Time) *Grant {
	short := *g
	short.rules = append([]rule(nil), g.rules...)
	if first := &short.rules[0]; first.expires.IsZero() || end.Before(first.expires) {
		first.expires = end
	}
	return &short
}

// end forgets the counts of keys and tenants that are no more, and ends their budgets. The compiler
// then makes the grants of visitors, who are counted elsewhere.
func (k *compiler) end(isVisited func(name string) bool) {
	isInUse := func(name string) bool { return k.inUse[name] || isVisited(name) }
	k.accounts.Keep(isInUse)
	k.book.Keep(isInUse)
	k.inUse, k.activityOf = nil, func(string) *activity { return nil }
}
