package account

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
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
	a.takeMost()
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

// takeMost estimates the most that the request may use, if its use matters.
func (a *Account) takeMost() {
	grant := a.Caller.Grant
	if a.isMeasured = grant != nil && grant.CountsTokens() || a.turn != nil || a.mayCost(); a.isMeasured {
		if grant != nil || a.turn != nil {
			a.likely = a.likelyAnswer()
		}
		a.door, a.most = a.Asks.Door, estimate.Most(a.Asks, a.Recalled(), a.likely)
		a.most.Written = a.most.Prompt // all of it may be written to a cache, which costs more
	}
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
		var price *prices.Price
		if price, more = a.dearest(most); !more {
			break
		}
		a.cost = price.Cost(a.most.Quantity)
		refusal, err := a.charge.Reserve(ctx, of, a.want(1, a.most, price), a.Record.Started)
		switch {
		case err != nil:
			return a.unreserved(err)
		case refusal == nil && a.cost < own:
			a.tooDear = asked
			return nil
		case refusal == nil:
			return nil
		}
		if a.cost >= own {
			asked = refusal
		}
		more = refusal.Unit == budget.Cost
	}
	if asked == nil { // there is no model that may serve the request
		return a.unknownModel()
	}
	if asked.Unit == budget.Cost && len(a.steps) > 0 {
		a.cost = 0
		refusal, err := a.charge.Reserve(ctx, of, a.want(1, a.most, nil), a.Record.Started)
		if err != nil {
			return a.unreserved(err)
		}
		if refusal == nil {
			a.unpaid = asked
			return nil
		}
	}
	return a.overBudget(asked, now)
}

// want returns the reservation for a call that uses most at a price.
func (a *Account) want(requests int64, most estimate.Use, price *prices.Price) budget.Want {
	full, likely := most, most
	if likely.Completion = min(likely.Completion, a.likely); most.IsOpen {
		full.Completion = max(full.Completion, estimate.Endless)
	}
	amounts := func(use estimate.Use) budget.Amounts {
		return budget.Amounts{requests, use.Tokens(), int64(price.Cost(use.Quantity))}
	}
	return budget.Want{Most: amounts(most), Full: amounts(full), Likely: amounts(likely)}
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

// dearest returns the price of the dearest model that may serve the request for at most an amount,
// nil for a model without a price, and false if there is none.
func (a *Account) dearest(most prices.Amount) (dearest *prices.Price, found bool) {
	consider := func(price *prices.Price) {
		if c := price.Cost(a.most.Quantity); c <= most && (!found || c > dearest.Cost(a.most.Quantity)) {
			dearest, found = price, true
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
	return dearest, found
}

// priceOf returns the price of a fallback, nil where it has none, and whether it can serve
// the request.
func (a *Account) priceOf(to routing.Fallback) (*prices.Price, bool) {
	pool := a.service().Find(to.Model)
	if pool == nil || !a.MayUse(to) || a.RefuseUnpriced(pool) != nil {
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

// Allows reports whether the model of a pool may take over: the amounts reserved from the budgets
// suffice for it, and it has a price if the run of the request needs one.
func (a *Account) Allows(by *routing.Pool) bool {
	return a.RefuseUnpriced(by) == nil && (!a.isBudgeted || by.Price.Cost(a.most.Quantity) <= a.cost)
}

// Costs reports whether a call for the request may cost money.
func (a *Account) Costs() bool { return a.isMeasured && a.price().Cost(a.most.Quantity) > 0 }

// spent returns the use of the request, as limits and budgets count it: the usage that
// the backend reported, or else an estimate from the bytes sent both ways. For an
// incomplete answer a backend may have reported less than it sent. A request that no
// backend answered used nothing, unless the client did not wait for the answer.
func (a *Account) spent(reported schema.Usage, complete, answered bool) schema.Usage {
	reported = a.detailed(reported, a.answerTokens(), complete)
	switch {
	case reported.Known && complete:
		return reported
	case !answered:
		return schema.Usage{}
	case !estimate.IsCountedInTokens(a.door):
		return reported
	}
	spent := reported
	if spent.Prompt == 0 { // a first report may have only the answer so far
		spent.Prompt = a.most.Prompt + a.again.prompt
	}
	spent.Completion = max(spent.Completion, a.answerTokens())
	spent.Total = max(spent.Total, spent.Prompt+spent.Completion)
	return spent
}

// answerTokens returns the estimate of the answer of the latest call.
func (a *Account) answerTokens() int64 {
	return max(a.answer.Tokens()-a.most.Echoed-a.again.before, 0)
}

// detailed returns the report of a backend about an answer of so many tokens by the estimate,
// with the parts of the total if the report has only that, or only one part of it. All zeros are no report, unless the
// answer is complete and empty.
func (a *Account) detailed(u schema.Usage, answer int64, complete bool) schema.Usage {
	writes := estimate.IsWritten(a.door)
	switch {
	case !u.Known || !estimate.IsCountedInTokens(a.door):
		return u
	case u.Prompt+u.Completion > 0:
		if rest := u.Total - u.Prompt - u.Completion; rest > 0 && u.Completion == 0 && writes {
			u.Completion = rest
		} else if rest > 0 && u.Prompt == 0 {
			u.Prompt = rest
		}
		return u
	case u.Total == 0 && (answer > 0 || !complete || !writes):
		return schema.Usage{}
	case a.isMeasured || !writes:
		u.Completion = min(answer, u.Total)
		u.Prompt = u.Total - u.Completion
	}
	return u
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
