package account

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// takeAllowance counts the request in the limits of its key and its tenant, or in none if
// one of them is reached, and reserves its possible use of their budgets.
func (a *Account) takeAllowance(ctx context.Context, now time.Time) error {
	if err := a.enterRun(ctx); err != nil {
		return err
	}
	if a.Asks.Uncounted {
		if refusal := a.takeRequest(now); refusal != nil {
			return refusal
		}
		return a.takeRun(ctx, now)
	}
	grant := a.Caller.Grant
	if a.isMeasured = grant != nil && grant.CountsTokens() || a.turn != nil || a.mayCost(); a.isMeasured {
		var unbounded int64
		if grant != nil {
			unbounded = grant.ReserveTokens
		} else if a.turn != nil {
			unbounded = a.turn.Unbounded()
		}
		a.door, a.most = a.Asks.Door, estimate.Most(a.Asks, a.Recalled(), unbounded)
		a.most.Written = a.most.Prompt // all of it may be written to a cache, which costs more
	}
	if grant == nil {
		return a.reserve(ctx, [2]*budget.Account{}, now)
	}
	take := a.use.Take
	if a.Class == schema.Spare { // a line of a batch, which leaves others a part of the limits
		take = a.use.TakeSpare
	}
	if refusal := take(grant.Accounts, a.most.Tokens(), now); refusal != nil {
		return keyLimited(refusal)
	}
	return a.reserve(ctx, grant.Budgets, now)
}

// takeRequest counts a request that is no use of a model in the limits of requests of its key
// and its tenant alone: it takes time of a backend like any other.
func (a *Account) takeRequest(now time.Time) *schema.Error {
	if a.Caller.Grant == nil {
		return nil
	}
	if refusal := a.use.Take(a.Caller.Grant.Accounts, allowance.NoTokens, now); refusal != nil {
		return keyLimited(refusal)
	}
	return nil
}

// Recalled returns the messages that the gateway itself adds to the conversation.
func (a *Account) Recalled() [][]byte {
	if a.Client != nil && a.Client.Recalled != nil {
		return a.Client.Recalled(a.Asks)
	}
	return nil
}

// unreserved returns the error of a request that cannot reserve anything.
func (a *Account) unreserved(err error) error {
	if errors.Is(err, budget.ErrUnavailable) {
		return ledgerUnavailable()
	}
	return err
}

// reserve reserves the possible use of the request from the budgets of its key, its tenant and
// its run: at the price of the dearest model that may serve it and that the budgets can pay.
// Dearer models then do not serve it.
func (a *Account) reserve(ctx context.Context, of [2]*budget.Account, now time.Time) error {
	if of == [2]*budget.Account{} && a.turn == nil {
		return nil
	}
	own := a.ownCost()
	a.isBudgeted = true
	var asked *budget.Refusal // for the model that was asked for
	for more, most := true, prices.Amount(math.MaxInt64); more; most = a.cost - 1 {
		if a.cost, more = a.dearest(most); !more {
			break
		}
		want := budget.Amounts{1, a.most.Tokens(), int64(a.cost)}
		refusal, err := a.charge.Reserve(ctx, of, want, a.Record.Started)
		switch {
		case err != nil:
			return a.unreserved(err)
		case refusal == nil && a.cost < own:
			a.tooDear = asked
			return a.confirmRun()
		case refusal == nil:
			return a.confirmRun()
		}
		if a.cost >= own {
			asked, a.tooMuch = refusal, want
		}
		more = refusal.Unit == budget.Cost
	}
	if asked == nil { // there is no model that may serve the request
		return a.unknownModel()
	}
	return a.overBudget(asked, a.tooMuch, now)
}

// ownCost returns the highest cost of the request at the model it asked for or, where no
// instance serves that, at the first model that takes over.
func (a *Account) ownCost() prices.Amount {
	if a.Pool != nil {
		return a.Pool.Price.Cost(a.most.Quantity)
	}
	for _, to := range a.takeovers() {
		if price, mayServe := a.priceOf(to); mayServe {
			return price.Cost(a.most.Quantity)
		}
	}
	return 0
}

// dearest returns the highest cost of the request at the dearest model that may serve it for
// at most an amount, and false if there is none.
func (a *Account) dearest(most prices.Amount) (cost prices.Amount, found bool) {
	consider := func(price *prices.Price) {
		if c := price.Cost(a.most.Quantity); c <= most && (!found || c > cost) {
			cost, found = c, true
		}
	}
	if a.Pool != nil {
		consider(a.Pool.Price)
	}
	for _, to := range a.takeovers() {
		if price, mayServe := a.priceOf(to); mayServe {
			consider(price)
		}
	}
	return cost, found
}

// priceOf returns the price of a fallback, nil where it has none, and whether it can serve
// the request.
func (a *Account) priceOf(to routing.Fallback) (*prices.Price, bool) {
	pool := a.service().Find(to.Model)
	if pool == nil || !a.MayUse(to) {
		return nil, false
	}
	return pool.Price, true
}

// mayCost reports whether the model, or one that may take over from it, has a price.
func (a *Account) mayCost() bool {
	if a.Pool != nil && a.Pool.Price != nil {
		return true
	}
	for _, to := range a.takeovers() {
		if price, _ := a.priceOf(to); price != nil {
			return true
		}
	}
	return false
}

// Allows reports whether the amounts reserved from the budgets suffice for the model of a
// pool.
func (a *Account) Allows(by *routing.Pool) bool {
	return !a.isBudgeted || by.Price.Cost(a.most.Quantity) <= a.cost
}

// Costs reports whether a call for the request may cost money.
func (a *Account) Costs() bool { return a.isMeasured && a.price().Cost(a.most.Quantity) > 0 }

// spent returns the use of the request, as limits and budgets count it: the usage that
// the backend reported, or else an estimate from the bytes sent both ways. For an
// incomplete answer a backend may have reported less than it sent. A request that no
// backend answered used nothing, unless the client did not wait for the answer.
func (a *Account) spent(reported schema.Usage, complete, answered bool) schema.Usage {
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
		spent = schema.Usage{Prompt: a.most.Prompt + a.again.prompt}
	}
	spent.Completion = max(spent.Completion, a.answer.Tokens()-a.most.Echoed-a.again.before)
	spent.Total = max(spent.Total, spent.Prompt+spent.Completion)
	return spent
}

// costOf returns the cost of the request at a pool, from the tokens it spent and from the things
// it asked for that are not counted in tokens.
func (a *Account) costOf(by *routing.Pool, spent schema.Usage, answered bool) prices.Amount {
	if by == nil || by.Price == nil || !answered {
		return 0
	}
	used := a.most.Quantity
	used.Prompt, used.Cached, used.Completion = spent.Prompt, spent.Cached, spent.Completion
	used.Written = spent.Written
	if spent.Total > 0 || spent.Seconds > 0 {
		used.Seconds = spent.Seconds
	}
	return by.Price.Cost(used)
}
