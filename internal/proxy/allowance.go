package proxy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/budget"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/estimate"
	"github.com/patchbay-ai/patchbay/internal/prices"
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
// one of them is reached.
func (c *choice) takeAllowance(ctx context.Context, now time.Time) error {
	a, grant := &c.taken, c.caller.Grant
	if a.counted = grant.CountsTokens() || c.mayCost(); a.counted {
		var unbounded int64
		if grant != nil {
			unbounded = grant.ReserveTokens
		}
		a.door, a.most = c.req.Door, estimate.Most(c.req, c.recalled(), unbounded)
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
	own, dearest := c.costs()
	refusal, err := a.reserve(ctx, grant, dearest, c.record.Started)
	if refusal != nil && refusal.Unit == budget.Cost && own < dearest {
		// There is not enough for a model that may take over, so it does not.
		refusal, err = a.reserve(ctx, grant, own, c.record.Started)
	}
	switch {
	case errors.Is(err, budget.ErrUnavailable):
		return ledgerUnavailable()
	case err != nil:
		return err
	case refusal != nil:
		refusal.Count()
		return overBudget(refusal, now)
	}
	return nil
}

// recalled returns what the gateway itself adds to the conversation.
func (c *choice) recalled() [][]byte {
	if client, ok := c.client.(dialect.Recaller); ok {
		return client.Recalled(c.req)
	}
	return nil
}

// reserve reserves what the request may use of the budgets, with this cost.
func (a *taken) reserve(ctx context.Context, grant *access.Grant, cost prices.Amount, at time.Time) (*budget.Refusal, error) {
	a.isBudgeted, a.cost = true, cost
	return a.charge.Reserve(ctx, grant.Budgets, budget.Amounts{1, a.most.Tokens(), int64(cost)}, at)
}

// allows tells whether what was reserved is enough for a model of this price.
func (a *taken) allows(price *prices.Price) bool {
	return !a.isBudgeted || price.Cost(a.most.Quantity) <= a.cost
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

// budgetDetails are the details of the error of a budget that has no room for a request.
type budgetDetails struct {
	Budget budgetView `json:"budget"`
	// Used is what was spent, and Reserved what requests may yet spend that have not ended.
	Used     jsontext.Value `json:"used"`
	Reserved jsontext.Value `json:"reserved"`
	Reset    *time.Time     `json:"reset"`
}

type budgetView struct {
	Of     string         `json:"of"`
	Window string         `json:"window"`
	Unit   string         `json:"unit"`
	Limit  jsontext.Value `json:"limit"`
}

// overBudget says that a budget is used up, or has not enough left for the request; or
// that there would be enough if others had not reserved it, which passes.
func overBudget(r *budget.Refusal, now time.Time) *schema.Error {
	window, unit := r.WindowName(), r.UnitName()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if r.Unit == budget.Cost {
		number = func(n int64) string { return prices.Amount(n).String() }
	}
	details := budgetDetails{
		Budget: budgetView{r.Account, window, unit, jsontext.Value(number(r.Limit))},
		Used:   jsontext.Value(number(r.Used)), Reserved: jsontext.Value(number(r.Reserved)),
	}
	if !r.Reset.IsZero() {
		details.Reset = &r.Reset
	}
	budgetWords := fmt.Sprintf("budget of %s (%s %s, %s)", ownerOf(r.Account), number(r.Limit), unit, window)
	var known *schema.Error
	if r.Held {
		known = schema.NewError(schema.CodeBudgetReserved, fmt.Sprintf("What is left of the %s is reserved for requests that have not ended, or kept for other gateways; try again shortly. %s are used and %s reserved.",
			budgetWords, number(r.Used), number(r.Reserved)))
		known.RetryAfter, known.Spread = defaultRetryAfter, true
	} else {
		known = schema.NewError(schema.CodeBudgetExceeded, fmt.Sprintf("The %s is used up, or what is left of it is less than this request may take; %s are used.", budgetWords, number(r.Used)))
		known.NoRetry = true
		if !r.Reset.IsZero() {
			known.RetryAfter = max(r.Reset.Sub(now), time.Second)
		}
	}
	known.Details = details
	return known
}

// keyLimited says that a limit of a key or a tenant is reached.
func keyLimited(r *allowance.Refusal) *schema.Error {
	what := "requests at a time"
	switch r.Unit {
	case allowance.Requests:
		what = "requests a minute"
	case allowance.Tokens:
		what = "tokens a minute"
	}
	message := fmt.Sprintf("The limit of %s, %d %s, is reached; try again in %s.", ownerOf(r.Account.Name), r.State.Limit, what, r.State.RetryAfter.Round(time.Millisecond))
	known := schema.NewError(schema.CodeKeyRateLimited, message)
	known.RetryAfter, known.Spread = max(r.State.RetryAfter, time.Millisecond), true
	return known
}

// ownerOf says, for a message, whose an account such as tenant/acme or key/team-a is.
func ownerOf(account string) string {
	if tenant, isTenant := allowance.TenantOf(account); isTenant {
		return "the tenant " + tenant
	}
	return "this API key"
}
