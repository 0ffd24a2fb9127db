package admit

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/budget"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/schema"
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
func (r *Request) Spend(used schema.Usage) {
	if used.Known {
		r.lost.reported = addUsage(r.lost.reported, used)
		r.lost.reported.Known = true
	}
	if r.taken.counted {
		r.lost.used = addUsage(r.lost.used, used)
		r.lost.cost += r.taken.costOf(r.Price, used, true)
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

// ReserveAgain reserves what a second call of the same request may use beside the first, and
// reports whether it may be made: a model that has a price is called twice only if paid says
// so, and nobody beyond a limit or a budget. SpendAgain follows if it was called.
func (r *Request) ReserveAgain(ctx context.Context, paid bool) bool {
	if !r.taken.counted {
		return true
	}
	cost := r.Price.Cost(r.taken.most.Quantity)
	if cost > 0 && !paid {
		return false
	}
	grant, tokens := r.Caller.Grant, r.taken.most.Tokens()
	if grant == nil {
		return true
	}
	if limit := r.taken.use.Tokens; limit.Limited && int64(limit.Remaining) < tokens {
		return false
	}
	if !grant.HasBudgets() {
		return true
	}
	if r.again == nil {
		r.again = new(budget.Charge)
	}
	refusal, err := r.again.Reserve(ctx, grant.Budgets, budget.Amounts{0, tokens, int64(cost)}, r.Record.Started)
	return refusal == nil && err == nil
}

// giveBackAgain gives back what was reserved for a second call, if anything was.
func (r *Request) giveBackAgain() {
	if r.again != nil {
		r.again.GiveBack()
	}
}

// SpendAgain adds what one of two calls of the same request used whose answer the client does
// not get: what its backend reported or, of a call that was given up, an estimate of its
// prompt.
func (r *Request) SpendAgain(used schema.Usage) {
	if !used.Known && r.taken.counted {
		used.Prompt = r.taken.most.Prompt
		used.Total = used.Prompt
	}
	r.Spend(used)
}
