package admit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/budget"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// UnknownModel says that no instance serves the model, and which configured names
// are similar.
func UnknownModel(service *routing.Service, serviceType schema.ServiceType, name string) *schema.Error {
	known := service.Names()
	err := &schema.Error{
		Message: fmt.Sprintf("No instance serves the model %q for %s.", name, serviceType),
		Type:    schema.TypeServiceUnavailable,
		Code:    schema.CodeServiceUnavailable,
		NoRetry: true,
	}
	const shown = 5
	near := schema.Nearest(name, known, shown)
	switch {
	case len(known) == 0 && service.Discovers():
		err.Message += fmt.Sprintf(" The instances of %s find their models by asking their backends and have found none; the gateway's log says why.", serviceType)
	case len(known) == 0:
		err.Message += fmt.Sprintf(" No instances are configured for %s.", serviceType)
	case len(near) > 0:
		err.Message += " Did you mean " + quotedList(near) + "?"
	default:
		near = known[:min(shown, len(known))]
		err.Message += " Configured are, for example, " + quotedList(near) + "."
	}
	err.Details = map[string]any{"model": name, "nearest": near}
	return err
}

// OverLimit says that a rate limit is reached.
func OverLimit(d ratelimit.Decision) *schema.Error {
	return &schema.Error{
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

// overBudget counts and tells that a budget is used up, or has not enough left for the request; or
// that there would be enough if others had not reserved it, which passes.
func overBudget(r *budget.Refusal, now time.Time) *schema.Error {
	r.Count()
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
		known.RetryAfter, known.Spread = heldRetryAfter, true
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

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}
