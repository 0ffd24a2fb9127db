package admit

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/budget"
	"github.com/patchbay-ai/patchbay/internal/estimate"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// taken is what a request took from the limits of its key and its tenant.
type taken struct {
	use allowance.Use
	// counted says that what the request uses matters to a limit or has a price. Then most
	// is the most that it may use, and answer what it was sent.
	counted bool
	door    schema.Door
	most    estimate.Use
	answer  estimate.Answer
	charge  budget.Charge
	// isBudgeted says that cost was reserved of the budgets of money. No model takes over
	// that may cost more.
	isBudgeted bool
	cost       prices.Amount
}

// takeAllowance counts the request in the limits of its key and its tenant, or in none if
// one of them is reached, and reserves what it may use of their budgets.
func (r *Request) takeAllowance(ctx context.Context, now time.Time) error {
	a, grant := &r.taken, r.Caller.Grant
	if a.counted = grant.CountsTokens() || r.mayCost(); a.counted {
		var unbounded int64
		if grant != nil {
			unbounded = grant.ReserveTokens
		}
		a.door, a.most = r.Asks.Door, estimate.Most(r.Asks, r.Recalled(), unbounded)
	}
	if grant == nil {
		return nil
	}
	if refusal := a.use.Take(grant.Accounts, a.most.Tokens(), now); refusal != nil {
		return keyLimited(refusal)
	}
	if !grant.HasBudgets() {
		return nil
	}
	return r.reserve(ctx, grant, now)
}

// Recalled returns what the gateway itself adds to the conversation.
func (r *Request) Recalled() [][]byte {
	if r.Client != nil && r.Client.Recalled != nil {
		return r.Client.Recalled(r.Asks)
	}
	return nil
}

// reserve reserves what the request may use of the budgets: with the price of the dearest
// model that may serve it and for which there is enough. Models that cost more do not.
func (r *Request) reserve(ctx context.Context, grant *access.Grant, now time.Time) error {
	a, own := &r.taken, r.ownCost()
	a.isBudgeted = true
	var asked *budget.Refusal // for the model that was asked for
	for more, below := true, prices.Amount(math.MaxInt64); more; below = a.cost {
		if a.cost, more = r.dearest(below); !more {
			break
		}
		refusal, err := a.charge.Reserve(ctx, grant.Budgets, budget.Amounts{1, a.most.Tokens(), int64(a.cost)}, r.Record.Started)
		switch {
		case errors.Is(err, budget.ErrUnavailable):
			return ledgerUnavailable()
		case err != nil:
			return err
		case refusal == nil && a.cost < own:
			r.barred = func() error { return overBudget(asked, now) }
			return nil
		case refusal == nil:
			return nil
		}
		if a.cost >= own {
			asked = refusal
		}
		more = refusal.Unit == budget.Cost
	}
	return overBudget(asked, now)
}

// ownCost returns what the request may cost at the model that was asked for or, where no
// instance serves that, at the first one that takes over.
func (r *Request) ownCost() prices.Amount {
	if r.Pool != nil {
		return r.Pool.Price.Cost(r.taken.most.Quantity)
	}
	for _, to := range r.takeovers() {
		if price, mayServe := r.priceOf(to); mayServe {
			return price.Cost(r.taken.most.Quantity)
		}
	}
	return 0
}

// dearest returns what the request may cost at the dearest model that may serve it for less
// than an amount, and false if there is none.
func (r *Request) dearest(below prices.Amount) (cost prices.Amount, found bool) {
	consider := func(price *prices.Price) {
		if c := price.Cost(r.taken.most.Quantity); c < below && (!found || c > cost) {
			cost, found = c, true
		}
	}
	if r.Pool != nil {
		consider(r.Pool.Price)
	}
	for _, to := range r.takeovers() {
		if price, mayServe := r.priceOf(to); mayServe {
			consider(price)
		}
	}
	return cost, found
}

// priceOf returns the price of a fallback, nil where it has none, and whether it can serve
// the request.
func (r *Request) priceOf(to routing.Fallback) (*prices.Price, bool) {
	pool := r.service().Find(to.Model)
	if pool == nil || !r.MayUse(to) {
		return nil, false
	}
	return pool.Price, true
}

// mayCost reports whether the model, or one that may take over from it, has a price.
func (r *Request) mayCost() bool {
	if r.Pool != nil && r.Pool.Price != nil {
		return true
	}
	for _, to := range r.takeovers() {
		if price, _ := r.priceOf(to); price != nil {
			return true
		}
	}
	return false
}

// Allows reports whether what was reserved of the budgets is enough for a model of this
// price.
func (r *Request) Allows(price *prices.Price) bool {
	return !r.taken.isBudgeted || price.Cost(r.taken.most.Quantity) <= r.taken.cost
}

// spent returns what the request used, as limits and budgets count it: what the backend
// reported, or else an estimate of what was sent both ways. Of an answer that is not
// complete a backend may have reported less than it sent. A request that no backend
// answered used nothing, unless the client did not wait for the answer.
func (a *taken) spent(reported schema.Usage, complete, answered bool) schema.Usage {
	switch {
	case reported.Known && complete:
		return reported
	case !answered:
		return schema.Usage{}
	case !estimate.IsCountedInTokens(a.door):
		return reported
	}
	spent := reported
	if !spent.Known {
		spent = schema.Usage{Prompt: a.most.Prompt}
	}
	spent.Completion = max(spent.Completion, a.answer.Tokens()-a.most.Echoed)
	spent.Total = max(spent.Total, spent.Prompt+spent.Completion)
	return spent
}

// costOf returns what the request cost, by what it spent and what it asked for that is
// not counted in tokens.
func (a *taken) costOf(price *prices.Price, spent schema.Usage, answered bool) prices.Amount {
	if price == nil || !answered {
		return 0
	}
	used := a.most.Quantity
	used.Prompt, used.Cached, used.Completion = spent.Prompt, spent.Cached, spent.Completion
	if spent.Total > 0 || spent.Seconds > 0 {
		used.Seconds = spent.Seconds
	}
	return price.Cost(used)
}
