package spend

import (
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

// caps are the shares of their pace that accounts can go on spending at, by the names of
// the accounts: budgets of money refuse the rest. An account that is not among them goes on
// as it did.
type caps map[string]float64

// of returns the share for the requests of a key. The share of its tenant bounds it too.
func (c caps) of(k *quota.Key) float64 {
	share := 1.0
	for _, account := range []string{allowance.KeyName(k.APIKey), allowance.TenantName(k.Tenant)} {
		if own, bounded := c[account]; bounded {
			share = min(share, own)
		}
	}
	return share
}

// capped returns the share of the pace in some windows that the budgets of money allow until
// the end of a period. All requests of an account count, whichever the question is about.
func (r *Reader) capped(ctx context.Context, windows []quota.CalendarWindow, begun, now, end time.Time) (caps, error) {
	rest := map[string]float64{}
	for _, use := range r.budgets() {
		if use.Unit != budget.Cost {
			continue
		}
		if left, known := rest[use.Account]; !known || restOf(&use, end) < left {
			rest[use.Account] = restOf(&use, end)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	recent := map[string]float64{}
	_, err := r.ledger.EachUsageIn(ctx, quota.UsageQuery{}, windows, func(u quota.Usage) {
		recent[allowance.KeyName(u.Key.APIKey)] += float64(u.Cost)
		recent[allowance.TenantName(u.Key.Tenant)] += float64(u.Cost)
	})
	shares, elapsed := caps{}, now.Sub(begun).Seconds()
	for account, left := range rest {
		if more := recent[account] / elapsed * end.Sub(now).Seconds(); more > left {
			shares[account] = left / more
		}
	}
	return shares, err
}

// restOf returns the money that a budget lets its account spend until the end of a period:
// the rest of the present budget, and the new ones until then.
func restOf(use *budget.Use, end time.Time) float64 {
	left := float64(max(0, use.Limit-use.Used))
	if use.Reset.IsZero() || !use.Reset.Before(end) {
		return left
	}
	length := use.Window.End(use.Reset).Sub(use.Reset)
	return left + float64(use.Limit)*float64(end.Sub(use.Reset))/float64(length)
}
