package allowance

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tenantPrefix begins the names of the accounts of tenants.
const tenantPrefix = "tenant/"

// KeyName returns the name of the account of an API key, such as "key/team-a". Limits and
// budgets use the same names, which operators see.
func KeyName(id string) string { return "key/" + id }

// TenantName returns the name of the account of a tenant, such as "tenant/acme".
func TenantName(tenant string) string { return tenantPrefix + tenant }

// TenantOf returns the tenant whose account has this name, and false if it is that of a
// key.
func TenantOf(account string) (tenant string, isTenant bool) {
	return strings.CutPrefix(account, tenantPrefix)
}

// Account is a key or a tenant with its limits. It is immutable apart from its counts,
// which it shares with the accounts of the same name that were made before it.
type Account struct {
	// Name is that of the account: see KeyName and TenantName.
	Name   string
	Limits Limits
	*counts
}

// counts outlive changes of the limits.
type counts struct {
	requests, tokens Meter
	running          atomic.Int64
	spare            sync.Mutex // see TakeSpare
}

// Accounts keeps the counts of all accounts while their limits change.
type Accounts struct {
	newMeter func(name string, now time.Time) Meter

	mu     sync.Mutex
	counts map[string]*counts
}

// NewAccounts returns an Accounts whose meters are made by a function, which is called
// with the name of the meter: that of the account, and "/requests" or "/tokens".
func NewAccounts(newMeter func(name string, now time.Time) Meter) *Accounts {
	return &Accounts{newMeter: newMeter, counts: make(map[string]*counts)}
}

// Open returns the account of a name with these limits. Its counts are those that the
// name had before. It returns nil if there is no limit.
func (a *Accounts) Open(name string, limits Limits, now time.Time) *Account {
	if limits.RequestsPerMinute <= 0 && limits.TokensPerMinute <= 0 && limits.ConcurrentRequests <= 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.counts[name]
	if state == nil {
		state = &counts{requests: a.newMeter(name+"/requests", now), tokens: a.newMeter(name+"/tokens", now)}
		a.counts[name] = state
	}
	if limits.RequestsPerMinute > 0 {
		state.requests.Resize(limits.RequestsPerMinute)
	}
	if limits.TokensPerMinute > 0 {
		state.tokens.Resize(limits.TokensPerMinute)
	}
	return &Account{Name: name, Limits: limits, counts: state}
}

// Keep forgets the counts of all names but those that are in use.
func (a *Accounts) Keep(inUse func(name string) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.counts {
		if inUse(name) {
			continue
		}
		for _, meter := range []Meter{a.counts[name].requests, a.counts[name].tokens} {
			if shared, isShared := meter.(*sharedMeter); isShared {
				shared.close()
			}
		}
		delete(a.counts, name)
	}
}

// Running returns how many requests of the account run now.
func (a *Account) Running() int64 { return a.running.Load() }
