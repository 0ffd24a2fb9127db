package account

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
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
	// again is what is known of further calls for the request; nil where there is one call.
	again *furtherCalls
}

// takeAllowance counts the request in the limits of its key and its tenant, or in none if
// one of them is reached, and reserves what it may use of their budgets.
func (r *Account) takeAllowance(ctx context.Context, now time.Time) error {
	a, grant := &r.taken, r.Caller.Grant
	if r.Asks.Uncounted {
		return r.visit(now)
	}
	if a.counted = grant != nil && grant.CountsTokens() || r.mayCost(); a.counted {
		var unbounded int64
		if grant != nil {
			unbounded = grant.ReserveTokens
		}
		a.door, a.most = r.Asks.Door, estimate.Most(r.Asks, r.Recalled(), unbounded)
	}
	if grant == nil {
		return nil
	}
	if refusal := a.take(grant, r.Class, now); refusal != nil {
		return keyLimited(refusal)
	}
	if !grant.HasBudgets() {
		return nil
	}
	return r.reserve(ctx, grant, now)
}

// take counts the request in the limits of its key and its tenant. A line of a batch leaves
// others a part of them.
func (a *taken) take(grant *access.Grant, class schema.Class, now time.Time) *allowance.Refusal {
	if class == schema.Spare {
		return a.use.TakeSpare(grant.Accounts, a.most.Tokens(), now)
	}
	return a.use.Take(grant.Accounts, a.most.Tokens(), now)
}

// visit counts a request that is no use of a model in the limits of requests alone: it takes
// time of a backend like any other.
func (r *Account) visit(now time.Time) error {
	if r.Caller.Grant == nil {
		return nil
	}
	if refusal := r.taken.use.Take(r.Caller.Grant.Accounts, allowance.NoTokens, now); refusal != nil {
		return keyLimited(refusal)
	}
	return nil
}

// Recalled returns what the gateway itself adds to the conversation.
func (r *Account) Recalled() [][]byte {
	if r.Client != nil && r.Client.Recalled != nil {
		return r.Client.Recalled(r.Asks)
	}
	return nil
}

// reserve reserves what the request may use of the budgets: with the price of the dearest
// model that may serve it and for which there is enough. Models that cost more do not.
func (r *Account) reserve(ctx context.Context, grant *access.Grant, now time.Time) error {
	a, own := &r.taken, r.ownCost()
	a.isBudgeted = true
	var asked *budget.Refusal // for the model that was asked for
	for more, most := true, prices.Amount(math.MaxInt64); more; most = a.cost - 1 {
		if a.cost, more = r.dearest(most); !more {
			break
		}
		refusal, err := a.charge.Reserve(ctx, grant.Budgets, budget.Amounts{1, a.most.Tokens(), int64(a.cost)}, r.Record.Started)
		switch {
		case errors.Is(err, budget.ErrUnavailable):
			return ledgerUnavailable()
		case err != nil:
			return err
		case refusal == nil && a.cost < own:
			r.barred = func() error { return r.overBudget(asked, now) }
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
		return r.unknownModel()
	}
	return r.overBudget(asked, now)
}

// ownCost returns what the request may cost at the model that was asked for or, where no
// instance serves that, at the first one that takes over.
func (r *Account) ownCost() prices.Amount {
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

// dearest returns what the request may cost at the dearest model that may serve it for at most
// an amount, and false if there is none.
func (r *Account) dearest(most prices.Amount) (cost prices.Amount, found bool) {
	consider := func(price *prices.Price) {
		if c := price.Cost(r.taken.most.Quantity); c <= most && (!found || c > cost) {
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
func (r *Account) priceOf(to routing.Fallback) (*prices.Price, bool) {
	pool := r.service().Find(to.Model)
	if pool == nil || !r.MayUse(to) {
		return nil, false
	}
	return pool.Price, true
}

// mayCost reports whether the model, or one that may take over from it, has a price.
func (r *Account) mayCost() bool {
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
func (r *Account) Allows(price *prices.Price) bool {
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
		spent = schema.Usage{Prompt: a.most.Prompt + a.again.inPrompt()}
	}
	spent.Completion = max(spent.Completion, a.answer.Tokens()-a.most.Echoed-a.again.sentBefore())
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

// unknownModel says that no instance serves the model that the request asks for.
func (r *Account) unknownModel() *schema.Error {
	return UnknownModel(r.service(), r.Asks.Service, string(r.Asks.Model), r.Caller.Grant)
}

// namesFor returns the names of a service type, nil where it is not configured, that the bearer
// of a grant may use, and whether there are others. An alias may be used by its own name or by
// that of its model.
func namesFor(service *routing.Service, serviceType schema.ServiceType, grant *access.Grant) (names []string, hasOthers bool) {
	names = service.Names()
	all := len(names)
	names = slices.DeleteFunc(names, func(name string) bool {
		return !grant.MayUse(serviceType, name) && !grant.MayUse(serviceType, service.Find(name).Model)
	})
	return names, len(names) < all
}

// UnknownModel says that no instance serves the model, and which configured names are similar,
// of those that the bearer of a grant may use; nil may use all.
func UnknownModel(service *routing.Service, serviceType schema.ServiceType, name string, grant *access.Grant) *schema.Error {
	known, hasOthers := namesFor(service, serviceType, grant)
	err := &schema.Error{
		Message: fmt.Sprintf("No instance serves the model %q for %s.", name, serviceType),
		Type:    schema.TypeServiceUnavailable,
		Code:    schema.CodeServiceUnavailable,
		NoRetry: true, UnknownModel: name,
	}
	const shown, few = 5, 8 // all are listed where they are few
	near := schema.Nearest(name, known, shown)
	switch {
	case len(known) == 0 && hasOthers:
		err.Message += fmt.Sprintf(" This API key may use none of the models of %s that are there.", serviceType)
	case len(known) == 0 && service.Discovers():
		err.Message += fmt.Sprintf(" The instances of %s find their models by asking their backends and have found none; the gateway's log says why.", serviceType)
	case len(known) == 0:
		err.Message += fmt.Sprintf(" No instances are configured for %s.", serviceType)
	case len(near) > 0:
		err.Message += " Did you mean " + quotedList(near) + "?"
	case len(known) <= few:
		near = schema.Closest(name, known, few)
		err.Message += " Configured are " + quotedList(near) + "."
	default:
		near = schema.Closest(name, known, shown)
		err.Message += " Configured are, for example, " + quotedList(near) + "."
	}
	err.Details = map[string]any{"model": name, "nearest": near}
	return err
}

// OverLimit says that a rate limit is reached, and whose: that of service/chat or of model/m.
func OverLimit(d ratelimit.Decision, of string) *schema.Error {
	return &schema.Error{
		Of:         of,
		Message:    fmt.Sprintf("The rate limit of %d requests is reached; the next one is allowed in %s.", d.Limit, d.RetryAfter.Round(time.Millisecond)),
		Type:       schema.TypeRateLimit,
		Code:       schema.CodeRateLimitExceeded,
		RetryAfter: max(d.RetryAfter, time.Millisecond),
		Spread:     true,
	}
}

// heldRetryAfter is the wait that callers are told while others have reserved the rest of
// a budget.
const heldRetryAfter = 800 * time.Millisecond

// ledgerUnavailable says that a request cannot be counted and must not pass uncounted.
func ledgerUnavailable() *schema.Error {
	return &schema.Error{
		Message:    "The quota ledger cannot count this request now, and requests must not pass uncounted.",
		Type:       schema.TypeServiceUnavailable,
		Code:       schema.CodeLedgerUnavailable,
		RetryAfter: time.Second,
	}
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

// overBudget counts and tells that a request is refused because of a budget.
func (r *Account) overBudget(refusal *budget.Refusal, now time.Time) *schema.Error {
	refusal.Count()
	return noRoom(refusal, r.Table.Currency, now)
}

// noRoom tells that a budget is used up, or has not enough left for the request; or that there
// would be enough if others had not reserved it, which passes.
func noRoom(r *budget.Refusal, currency string, now time.Time) *schema.Error {
	window, unit := r.WindowName(), r.UnitName()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	told := func(n int64) string { return number(n) + " " + unit }
	if r.Unit == budget.Cost {
		number = func(n int64) string { return prices.Amount(n).String() }
		told = func(n int64) string { return prices.Amount(n).Money() + " " + currency }
	}
	details := budgetDetails{
		Budget: budgetView{r.Account, window, unit, jsontext.Value(number(r.Limit))},
		Used:   jsontext.Value(number(r.Used)), Reserved: jsontext.Value(number(r.Reserved)),
	}
	if !r.Reset.IsZero() {
		details.Reset = &r.Reset
	}
	budgetWords := fmt.Sprintf("budget of %s, %s %s,", ownerOf(r.Account), told(r.Limit), windowWords[window])
	var known *schema.Error
	if r.Held {
		known = schema.NewError(schema.CodeBudgetReserved, fmt.Sprintf("What is left of the %s is reserved for requests that have not ended, or kept for other gateways; try again shortly. %s are used and %s reserved.",
			budgetWords, told(r.Used), told(r.Reserved)))
		known.RetryAfter, known.Spread = heldRetryAfter, true
	} else {
		known = schema.NewError(schema.CodeBudgetExceeded, fmt.Sprintf("The %s is used up, or what is left of it is less than this request may take; %s are used.", budgetWords, told(r.Used)))
		known.NoRetry = true
		if !r.Reset.IsZero() {
			known.RetryAfter = max(r.Reset.Sub(now), time.Second)
		}
	}
	known.Details, known.Of = details, r.Account
	return known
}

// windowWords say of which time a budget is.
var windowWords = map[string]string{"DAY": "today", "MONTH": "this month", "TOTAL": "in all"}

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
	known.RetryAfter, known.Spread, known.Of = max(r.State.RetryAfter, time.Millisecond), true, r.Account.Name
	return known
}

// ownerOf says, for a message, whose an account such as tenant/acme or key/team-a is.
func ownerOf(account string) string {
	if tenant, isTenant := allowance.TenantOf(account); isTenant {
		return "the tenant " + tenant
	}
	return "this API key"
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}
