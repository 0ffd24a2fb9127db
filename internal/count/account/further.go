package account

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// furtherCalls holds the figures for limits, budgets and costs of a request that needed
// more than one call for its answer.
type furtherCalls struct {
	isResumed bool
	// last is the report of the latest call.
	last schema.Usage
	// prompt is how much of the answer is part of the prompt of the latest call, and before
	// how much of it was sent before that call, both in tokens as they are estimated.
	prompt, before int64
}

// lost is the use of calls that gave the client no answer, such as one that was
// answered while another part of the same request failed. They cost money all the same.
type lost struct {
	reported schema.Usage // as backends reported it
	used     schema.Usage // the same, with estimates where backends reported nothing
	cost     prices.Amount
}

// Reserved is the reservation for another call of a request.
type Reserved = budget.Amounts

// Reserve reserves the possible use of another call for the request. The call goes on with an
// answer after so many sent tokens, or begins it anew if goesOn is false. It returns an error
// if a limit or a budget has no room for it.
func (a *Account) Reserve(sent int64, goesOn bool) (reserved Reserved, err error) {
	if !a.isMeasured || a.Caller.Grant == nil && a.turn == nil {
		return reserved, nil
	}
	now, most := time.Now(), a.most
	if goesOn {
		most.Prompt += sent
		most.Completion = max(most.Completion-sent, 1)
	}
	if refusal := a.use.More(most.Tokens(), now); refusal != nil {
		return reserved, keyLimited(refusal)
	}
	want := Reserved{0, most.Tokens(), int64(a.price().Cost(most.Quantity))}
	if !a.Caller.Grant.HasBudgets() && a.turn == nil {
		return want, nil
	}
	refusal, err := a.charge.More(want)
	if refusal == nil && err == nil {
		return want, nil
	}
	a.use.Less(most.Tokens(), now)
	if err != nil {
		return reserved, ledgerUnavailable()
	}
	return reserved, a.noRoom(refusal, want, now) // the request itself is not refused
}

// Release gives back the reservation of a call that failed.
func (a *Account) Release(reserved Reserved) {
	if reserved == (Reserved{}) {
		return
	}
	a.use.Less(reserved[budget.Tokens], time.Now())
	a.charge.Less(reserved)
}

// Resumed notes that another call goes on with the answer in place of one that broke off and
// had reported so much, served by a pool. Of the answer so many tokens were sent.
func (a *Account) Resumed(reported schema.Usage, by *routing.Pool, sent int64, goesOn bool) {
	if !a.isMeasured {
		return
	}
	used := a.spent(reported, false, true)
	a.lost.used = addUsage(a.lost.used, used)
	a.lost.cost = a.lost.cost.Plus(a.costOf(by, used, true))
	a.again.isResumed, a.again.prompt, a.again.before = true, 0, 0
	if goesOn {
		a.again.prompt, a.again.before = sent, a.answer.Tokens()
	}
}

// ReportLast notes the usage that the latest of several calls reported; clients are told
// less.
func (a *Account) ReportLast(reported schema.Usage) { a.again.last = reported }

// Spend adds the use of a call that gave the client no answer to the sum that settles the
// request, at the price of the model that serves the request now. If its backend reported no
// usage, the use is the estimate of its prompt: of the prompt of a part or, for nil, of the
// whole request. An estimate counts in limits, budgets and costs, and not in the ledger's
// tokens.
func (a *Account) Spend(used schema.Usage, part *schema.Request) {
	if used.Known {
		a.lost.reported = addUsage(a.lost.reported, used)
		a.lost.reported.Known = true
	}
	if !a.isMeasured {
		return
	}
	if !used.Known {
		used.Prompt = a.most.Prompt
		if part != nil {
			used.Prompt = estimate.Most(part, nil, 0).Prompt
		}
		used.Total = used.Prompt
	}
	a.lost.used = addUsage(a.lost.used, used)
	a.lost.cost = a.lost.cost.Plus(a.costOf(a.served, used, true))
}

// addUsage adds tokens and seconds to a usage.
func addUsage(to, more schema.Usage) schema.Usage {
	to.Prompt += more.Prompt
	to.Completion += more.Completion
	to.Total += more.Total
	to.Cached += more.Cached
	to.Written += more.Written
	to.Seconds += more.Seconds
	return to
}
