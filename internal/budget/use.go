package budget

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
)

// Use is how much of a budget is used.
type Use struct {
	// Account is whose budget it is: see allowance.KeyName and allowance.TenantName.
	Account string
	Window  quota.Window
	Unit    int
	// Limit is the budget, and Used what was spent of it and is reserved for requests
	// that run.
	Limit, Used int64
	// Refused counts the requests that this gateway refused because of the budget since it
	// started.
	Refused int64
	// Reset is when the budget begins anew; zero means never.
	Reset time.Time
}

// WindowName returns DAY, MONTH or TOTAL.
func (u *Use) WindowName() string { return strings.TrimPrefix(u.Window.String(), "BUDGET_") }

// UnitName returns what the budget counts.
func (u *Use) UnitName() string { return [units]string{"requests", "tokens", "cost"}[u.Unit] }

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
		if found := b.accounts[name].latest; found != nil {
			all = append(all, found)
		}
	}
	return all
}

func (a *Account) uses(at time.Time) (uses []Use) {
	spans := a.lockSpans(at)
	defer a.mu.Unlock()
	for i, one := range spans {
		used := one.used(a.book)
		for unit, limit := range a.limits[i] {
			if limit > 0 {
				use := one.use(a.name, unit, limit, used[unit])
				use.Refused = a.refused[i][unit].Load()
				uses = append(uses, use)
			}
		}
	}
	return uses
}

func (s *span) use(account string, unit int, limit, used int64) Use {
	u := Use{Account: account, Window: s.window, Unit: unit, Limit: limit, Used: used}
	if s.window != quota.BudgetTotal {
		u.Reset = s.window.End(time.Unix(s.start, 0))
	}
	return u
}

// noteRefused counts a request that was refused, if it was.
func (s *state) noteRefused(r *Refusal) {
	if r == nil {
		return
	}
	if i := slices.Index(windows[:], r.Window); i >= 0 {
		s.refused[i][r.Unit].Add(1)
	}
}
