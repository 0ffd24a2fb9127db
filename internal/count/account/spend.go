package account

import (
	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// lost is what calls used whose answers the client does not get, such as one that was
// answered while another part of the same request failed. They are paid all the same.
type lost struct {
	reported schema.Usage // what backends said
	used     schema.Usage // the same, with estimates of what they did not say
	cost     prices.Amount
}

// Spend adds what a call used whose answer the client does not get, at the price of the
// model that serves the request now, to what the request is settled with. What is not Known
// was not reported but estimated: it counts in limits, budgets and costs, and not in the
// ledger's tokens.
func (r *Account) Spend(used schema.Usage) {
	if used.Known {
		r.lost.reported = addUsage(r.lost.reported, used)
		r.lost.reported.Known = true
	}
	if r.taken.counted {
		r.lost.used = addUsage(r.lost.used, used)
		r.lost.cost = r.lost.cost.Plus(r.taken.costOf(r.Price, used, true))
	}
}

// addUsage adds tokens and seconds to a usage.
func addUsage(to, more schema.Usage) schema.Usage {
	to.Prompt += more.Prompt
	to.Completion += more.Completion
	to.Total += more.Total
	to.Cached += more.Cached
	to.Seconds += more.Seconds
	return to
}

// Costs reports whether a call for the request may cost money.
func (r *Account) Costs() bool {
	return r.taken.counted && r.Price.Cost(r.taken.most.Quantity) > 0
}

// SpendSecond adds what one of two calls of the same request used whose answer the client does
// not get: what its backend reported or, of a call that was given up, an estimate of its
// prompt.
func (r *Account) SpendSecond(used schema.Usage) {
	if !used.Known && r.taken.counted {
		used.Prompt = r.taken.most.Prompt
		used.Total = used.Prompt
	}
	r.Spend(used)
}
