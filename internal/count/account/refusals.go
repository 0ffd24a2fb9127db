package account

import (
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// OverLimit says that a rate limit is reached, and names it, such as service/chat or
// model/m.
func OverLimit(d ratelimit.Decision, of string) *schema.Error {
	return &schema.Error{
		Of: of,
		Message: fmt.Sprintf("The rate limit of %d requests is reached; the next one is allowed in %s.", d.Limit,
			d.RetryAfter.Round(time.Millisecond)),
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
	// Used is the spent amount, and Reserved the amount that running requests may still
	// spend.
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
func (a *Account) overBudget(refusal *budget.Refusal, now time.Time) *schema.Error {
	refusal.Count()
	return noRoom(refusal, a.Table.Currency, now)
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
		known = schema.NewError(schema.CodeBudgetReserved,
			fmt.Sprintf("What is left of the %s is reserved for requests that have not ended, or kept for other "+
				"gateways; try again shortly. %s are used and %s reserved.",
				budgetWords, told(r.Used), told(r.Reserved)))
		known.RetryAfter, known.Spread = heldRetryAfter, true
	} else {
		known = schema.NewError(schema.CodeBudgetExceeded,
			fmt.Sprintf("The %s is used up, or what is left of it is less than this request may take; %s are used.",
				budgetWords, told(r.Used)))
		known.NoRetry = true
		if !r.Reset.IsZero() {
			known.RetryAfter = max(r.Reset.Sub(now), time.Second)
		}
	}
	known.Details, known.Of = details, r.Account
	return known
}

// windowWords names the time of a budget's window.
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
	return refusedFor(r, fmt.Sprintf("The limit of %s, %d %s, is reached; try again in %s.",
		ownerOf(r.Account.Name), r.State.Limit, what, r.State.RetryAfter.Round(time.Millisecond)))
}

// refusedFor returns the error of a limit of a key or a tenant, with a message.
func refusedFor(r *allowance.Refusal, message string) *schema.Error {
	known := schema.NewError(schema.CodeKeyRateLimited, message)
	known.RetryAfter, known.Spread, known.Of = max(r.State.RetryAfter, time.Millisecond), true, r.Account.Name
	return known
}

// ownerOf names, for a message, the owner of an account such as tenant/acme or
// key/team-a.
func ownerOf(account string) string {
	if tenant, isTenant := allowance.TenantOf(account); isTenant {
		return "the tenant " + tenant
	}
	return "this API key"
}
