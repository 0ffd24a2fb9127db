package account

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// OverLimit says that a rate limit is reached, and names it, such as service/chat or
// model/m.
func OverLimit(d ratelimit.Decision, of string) *schema.Error {
	known := schema.CodedError(schema.CodeRateLimitExceeded,
		"call.rate_limit", "limit", d.Limit, "wait", d.RetryAfter)
	known.Of, known.RetryAfter, known.Spread = of, max(d.RetryAfter, time.Millisecond), true
	return known
}

// heldRetryAfter is the wait that callers are told while others have reserved the rest of
// a budget.
const heldRetryAfter = 800 * time.Millisecond

// ledgerUnavailable says that a request cannot be counted and must not pass uncounted.
func ledgerUnavailable() *schema.Error {
	known := schema.CodedError(schema.CodeLedgerUnavailable, "call.uncounted")
	known.RetryAfter = time.Second
	return known
}

// budgetDetails are the details of the error of a budget that has no room for a request.
type budgetDetails struct {
	Budget budgetView `json:"budget"`
	// Used is the spent amount, and Reserved the amount that running requests may still
	// spend.
	Used     jsontext.Value `json:"used"`
	Reserved jsontext.Value `json:"reserved"`
	// Wanted is the amount that the request would reserve.
	Wanted jsontext.Value `json:"wanted"`
	Reset  *time.Time     `json:"reset"`
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
	if a.end.Refusal = a.noRoom(refusal, now); refusal.Window == quota.BudgetRun {
		if err := a.turn.Confirm(); err != nil { // the run begins, so that it can be raised
			a.end.Refusal = err
		}
	}
	return a.end.Refusal
}

// noRoom tells that a budget or the run of the request has no room for it.
func (a *Account) noRoom(refusal *budget.Refusal, now time.Time) *schema.Error {
	if a.turn != nil && refusal.Window == quota.BudgetRun {
		return a.turn.Refused(refusal)
	}
	return noRoom(refusal, a.Table.Currency, now)
}

// noRoom tells that a budget is used up, or has not enough left for the request; or that there
// would be enough if others had not reserved it, which passes.
func noRoom(r *budget.Refusal, currency string, now time.Time) *schema.Error {
	window, unit := r.WindowName(), r.UnitName()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	told := number
	var unitSaid any = say.New(say.Code("budget." + unit))
	if r.Unit == budget.Cost {
		number = func(n int64) string { return prices.Amount(n).String() }
		told, unitSaid = func(n int64) string { return prices.Amount(n).Money() }, currency
	}
	details := budgetDetails{
		Budget: budgetView{r.Account, window, unit, jsontext.Value(number(r.Limit))},
		Used:   jsontext.Value(number(r.Used)), Reserved: jsontext.Value(number(r.Reserved)),
		Wanted: jsontext.Value(number(r.Wanted[r.Unit])),
	}
	if !r.Reset.IsZero() {
		details.Reset = &r.Reset
	}
	values := []any{"limit", told(r.Limit), "unit", unitSaid, "window", say.New(windowCodes[window]),
		"used", told(r.Used), "usedUnit", unitSaid}
	var known *schema.Error
	if r.Held {
		values = append(values, "reserved", told(r.Reserved), "reservedUnit", unitSaid)
		known = schema.NewError(schema.CodeBudgetReserved, ofOwner("call.budget_held", r.Account, values...))
		known.RetryAfter, known.Spread = heldRetryAfter, true
	} else {
		values = append(values, "wanted", told(r.Wanted[r.Unit]), "wantedUnit", unitSaid)
		known = schema.NewError(schema.CodeBudgetExceeded, ofOwner("call.budget_out", r.Account, values...))
		known.NoRetry = true
		if !r.Reset.IsZero() {
			known.RetryAfter = max(r.Reset.Sub(now), time.Second)
		}
	}
	known.Details, known.Of = details, r.Account
	return known
}

// windowCodes are the sentences for the time of a budget's window.
var windowCodes = map[string]say.Code{"DAY": "budget.today", "MONTH": "budget.month", "TOTAL": "budget.total"}

// keyLimited says that a limit of a key or a tenant is reached.
func keyLimited(r *allowance.Refusal) *schema.Error {
	unit := say.Code("unit.parallel")
	switch r.Unit {
	case allowance.Requests:
		unit = "unit.requests"
	case allowance.Tokens:
		unit = "unit.tokens"
	}
	return refusedFor(r, ofOwner("call.limit", r.Account.Name, "limit", r.State.Limit, "unit", say.New(unit),
		"wait", r.State.RetryAfter))
}

// refusedFor returns the error of a limit of a key or a tenant, with a message.
func refusedFor(r *allowance.Refusal, said say.Sentence) *schema.Error {
	known := schema.NewError(schema.CodeKeyRateLimited, said)
	known.RetryAfter, known.Spread, known.Of = max(r.State.RetryAfter, time.Millisecond), true, r.Account.Name
	return known
}

// ofOwner returns one of the two sentences that a code stands for: about the owner of an
// account such as tenant/acme, or of one such as key/team-a.
func ofOwner(code say.Code, account string, values ...any) say.Sentence {
	if tenant, isTenant := allowance.TenantOf(account); isTenant {
		return say.New(code+"_tenant", append(values, "tenant", tenant)...)
	}
	return say.New(code+"_key", values...)
}
