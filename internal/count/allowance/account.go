package allowance

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// tenantPrefix begins the names of the accounts of tenants.
const tenantPrefix = "tenant/"

// KeyName returns the name of the account of an API key, such as "key/team-a". Limits and
// budgets use the same names, which operators see.
func KeyName(id string) string { return "key/" + id }

// TenantName returns the name of the account of a tenant, such as "tenant/acme".
func TenantName(tenant string) string { return tenantPrefix + tenant }

// TenantOf returns the tenant of the account with this name, and false if it is the
// account of a key.
func TenantOf(account string) (tenant string, isTenant bool) {
	return strings.CutPrefix(account, tenantPrefix)
}

// Account is a key or a tenant with its limits. It is immutable apart from its counts,
// which it shares with the accounts of the same name that were made before it.
type Account struct {
	// Name is the name of the account: see KeyName and TenantName.
	Name   string
	Limits Limits
	*counts
}

// counts outlive changes of the limits.
type counts struct {
	// requests and tokens are nil while the account never had such a limit.
	requests, tokens meter
	running          atomic.Int64
	spare            sync.Mutex // see TakeSpare
}

// Accounts keeps the counts of all accounts while their limits change.
type Accounts struct {
	shared *tally.Pool // nil where limits belong to this gateway alone

	mu     sync.Mutex
	counts map[string]*counts
}

// NewAccounts returns an Accounts with the limits of all gateways of a pool together, or
// of this gateway alone if there is no pool.
func NewAccounts(shared *tally.Pool) *Accounts {
	return &Accounts{shared: shared, counts: make(map[string]*counts)}
}

// Open returns the account of a name with these limits. It goes on with the earlier
// counts of the name. It returns nil if there is no limit.
func (a *Accounts) Open(name string, limits Limits, now time.Time) *Account {
	if limits.RequestsPerMinute <= 0 && limits.TokensPerMinute <= 0 && limits.ConcurrentRequests <= 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.counts[name]
	if state == nil {
		state = &counts{}
		a.counts[name] = state
	}
	a.resize(&state.requests, name+"/requests", limits.RequestsPerMinute, now)
	a.resize(&state.tokens, name+"/tokens", limits.TokensPerMinute, now)
	return &Account{Name: name, Limits: limits, counts: state}
}

// resize makes the meter of a limit follow it, if there is one.
func (a *Accounts) resize(to *meter, name string, limit int64, now time.Time) {
	switch {
	case limit <= 0:
	case *to == nil:
		*to = a.newMeter(name, limit, now)
	default:
		(*to).Resize(limit)
	}
}

// Keep forgets the counts of all names but the ones in use.
func (a *Accounts) Keep(inUse func(name string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.counts {
		if inUse(name) {
			continue
		}
		for _, one := range [...]meter{a.counts[name].requests, a.counts[name].tokens} {
			if shared, isShared := one.(sharedMeter); isShared {
				shared.Remove()
			}
		}
		delete(a.counts, name)
	}
}

// Running returns how many requests of the account run now.
func (a *Account) Running() int64 { return a.running.Load() }
