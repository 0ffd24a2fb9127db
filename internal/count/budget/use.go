package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

// Use is how much of a budget is used.
type Use struct {
	// Account names the owner of the budget: see allowance.KeyName and
	// allowance.TenantName.
	Account string
	Window  quota.Window
	Unit    int
	// Limit is the budget, Used the spent part of it, and Reserved the amount that
	// requests may still spend that run or wait for admission. Some of the waiting ones
	// are refused: the sum of both may be more than the budget for a moment.
	Limit, Used, Reserved int64
	// Refused counts the requests that this gateway refused since it started because the
	// budget was used up, and Deferred the requests that found the rest of it reserved.
	Refused, Deferred int64
	// Reset is when the budget begins anew; zero means never.
	Reset time.Time
}

// WindowName returns DAY, MONTH or TOTAL.
func (u *Use) WindowName() string { return strings.TrimPrefix(u.Window.String(), "BUDGET_") }

// UnitName returns the unit of the budget.
func (u *Use) UnitName() string {
	return [units]string{"requests", "tokens", "cost", "overdraft"}[u.Unit]
}

// Uses returns how much of every budget is used now, in the order of the accounts. A nil
// Book has none.
func (b *Book) Uses() []Use {
	uses := []Use{}
	if b == nil {
		return uses
	}
	for _, account := range b.current() {
		uses = append(uses, account.uses(b.options.Now())...)
	}
	return uses
}

// current returns the accounts as they were opened last, in the order of their names.
func (b *Book) current() []*Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*Account
	for _, name := range slices.Sorted(maps.Keys(b.accounts)) {
		if found := b.accounts[name].latest.Load(); found != nil {
			all = append(all, found)
		}
	}
	return all
}

func (a *Account) uses(at time.Time) (uses []Use) {
	spans := a.lockSpans(at)
	defer a.mu.Unlock()
	for i, one := range spans.list() {
		used, spent := one.figures(a.book)
		for unit, limit := range a.limits[i] {
			if limit > 0 {
				use := one.use(a.name, unit, limit, used[unit], spent[unit])
				use.Refused, use.Deferred = a.refused[i][unit].Load(), a.deferred[i][unit].Load()
				uses = append(uses, use)
			}
		}
	}
	return uses
}

func (s *span) use(account string, unit int, limit, used, spent int64) Use {
	u := Use{Account: account, Window: s.window, Unit: unit, Limit: limit, Used: spent, Reserved: max(0, used-spent)}
	if u.Window != quota.BudgetTotal {
		u.Reset = s.end()
	}
	return u
}

// Count counts the refusal of a request that is not tried in another way.
func (r *Refusal) Count() {
	counts := &r.state.refused
	if r.Held {
		counts = &r.state.deferred
	}
	counts[r.kind][r.Unit].Add(1)
}
