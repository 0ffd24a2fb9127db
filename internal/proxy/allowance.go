package proxy

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/budget"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// taken is what a request took from the limits of its key and its tenant.
type taken struct {
	use allowance.Use
	// counted says that what the request uses matters to a limit or has a price. Then
	// prompt is the estimate of the tokens that it sends, answer that of those that it was
	// sent, and units what it asks for that is not counted in tokens.
	counted bool
	prompt  int64
	answer  textMeter
	units   prices.Quantity
	charge  budget.Charge
}

// assumedSound is how many seconds a sound that is to be transcribed is taken to have until
// the backend reports its length, or for good if it does not.
const assumedSound = 60

// take counts the request in the limits of its key and its tenant, or in none if one of
// them is reached.
func (a *taken) take(r *request, price *prices.Price, now time.Time) error {
	grant := r.caller.Grant
	if a.counted = !r.req.Uncounted && (grant.CountsTokens() || price != nil); a.counted {
		a.prompt = r.req.EstimatePrompt()
		a.units.Images, a.units.Characters = r.req.RequestedUnits()
		if r.req.Service == schema.STT {
			a.units.Seconds = assumedSound
		}
	}
	if grant == nil {
		return nil
	}
	var answer int64
	if a.counted {
		var said bool
		if answer, said = r.req.MostAnswered(); !said {
			answer = grant.ReserveTokens
		}
	}
	if refusal := a.use.Take(grant.Accounts, a.prompt+answer, now); refusal != nil {
		return keyLimited(refusal)
	}
	if !grant.HasBudgets() || r.req.Uncounted {
		return nil
	}
	most := a.units
	most.Prompt, most.Completion = a.prompt, answer
	refusal, err := a.charge.Reserve(grant.Budgets, budget.Amounts{1, a.prompt + answer, int64(price.Cost(most))}, r.record.Started)
	switch {
	case err != nil:
		return ledgerUnavailable()
	case refusal != nil:
		return overBudget(refusal, now)
	}
	return nil
}

// spent returns what the request used, as limits and budgets count it: what the backend
// reported, or else an estimate of what was sent both ways. A request that no backend
// answered used nothing, unless the client did not wait for the answer.
func (a *taken) spent(usage schema.Usage, answered bool) schema.Usage {
	if usage.Known {
		return usage
	}
	if !answered {
		return schema.Usage{}
	}
	answer := a.answer.tokens()
	return schema.Usage{Prompt: a.prompt, Completion: answer, Total: a.prompt + answer}
}

// budgetDetails are the details of the error of a budget that is used up.
type budgetDetails struct {
	Budget budgetView `json:"budget"`
	// Used is what was spent and is reserved for requests that run.
	Used  jsontext.Value `json:"used"`
	Reset *time.Time     `json:"reset"`
}

type budgetView struct {
	Of     string         `json:"of"`
	Window string         `json:"window"`
	Unit   string         `json:"unit"`
	Limit  jsontext.Value `json:"limit"`
}

// overBudget says that a budget is used up, or has not enough left for the request.
func overBudget(r *budget.Refusal, now time.Time) *schema.Error {
	window, unit := r.WindowName(), r.UnitName()
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	if r.Unit == budget.Cost {
		number = func(n int64) string { return prices.Amount(n).String() }
	}
	details := budgetDetails{Budget: budgetView{r.Account, window, unit, jsontext.Value(number(r.Limit))}, Used: jsontext.Value(number(r.Used))}
	known := schema.NewError(schema.CodeBudgetExceeded, fmt.Sprintf("The budget of %s (%s %s, %s) is used up, or what is left of it is less than this request may take; %s are used or reserved.",
		ownerOf(r.Account), number(r.Limit), unit, window, number(r.Used)))
	if !r.Reset.IsZero() {
		details.Reset = &r.Reset
		known.RetryAfter = max(r.Reset.Sub(now), time.Second)
	}
	known.Details, known.NoRetry = details, true
	return known
}

// cost returns what the request cost, by what the backend reported or else by estimates.
func (a *taken) cost(price *prices.Price, usage schema.Usage, answered bool) prices.Amount {
	if price == nil || !answered {
		return 0
	}
	used := a.units
	used.Prompt, used.Cached, used.Completion = usage.Prompt, usage.Cached, usage.Completion
	if usage.Total > 0 || usage.Seconds > 0 {
		used.Seconds = usage.Seconds
	}
	if !usage.Known {
		used.Prompt, used.Completion = a.prompt, a.answer.tokens()
	}
	return price.Cost(used)
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

// textMeter estimates the tokens of an answer from the JSON texts that a client is sent:
// those that hold what a model wrote.
type textMeter struct {
	texts int // how many there were
	bytes int
}

// textNames are the members that hold what a model wrote, in all forms of answers.
var textNames = [...]string{"content", "text", "arguments", "partial_json", "thinking", "delta"}

// add adds a part of an answer.
func (m *textMeter) add(part []byte) {
	for {
		at := bytes.Index(part, []byte(`":`))
		if at < 0 {
			return
		}
		name := part[:at]
		part = bytes.TrimLeft(part[at+2:], " ")
		if len(part) == 0 || part[0] != '"' || !endsWithName(name) {
			continue
		}
		length := textEnd(part[1:])
		if length > 0 {
			m.texts++
			m.bytes += length
		}
		part = part[1+length:]
	}
}

func endsWithName(text []byte) bool {
	for _, name := range textNames {
		if bytes.HasSuffix(text, []byte(name)) { // also reasoning_content and the like
			return true
		}
	}
	return false
}

// textEnd returns the length of a JSON text without its quotes.
func textEnd(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return len(text)
}

// tokens is at least one for each text: streams have about one token in each event.
func (m *textMeter) tokens() int64 { return max(int64(m.texts), schema.EstimateText(m.bytes)) }
