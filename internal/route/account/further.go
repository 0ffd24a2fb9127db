package account

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
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
	isAll    bool // the calls that answered are among them; see SpentAll
}

// Reserved is the reservation for another call of a request.
type Reserved struct {
	tokens int64 // of limits
	budget.Further
}

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
	reserved.tokens = most.Tokens()
	if !a.Caller.Grant.HasBudgets() && a.turn == nil {
		return reserved, nil
	}
	var refusal *budget.Refusal
	if reserved.Further, refusal, err = a.charge.More(a.want(0, most, a.price())); refusal == nil && err == nil {
		return reserved, nil
	}
	a.use.Less(most.Tokens(), now)
	if err != nil {
		return Reserved{}, ledgerUnavailable()
	}
	return Reserved{}, a.noRoom(refusal, now) // the request itself is not refused
}

// Release gives back the reservation of a call that failed.
func (a *Account) Release(reserved Reserved) {
	if reserved == (Reserved{}) {
		return
	}
	a.use.Less(reserved.tokens, time.Now())
	a.charge.Less(reserved.Further)
}

// Resumed notes that another call goes on with the answer in place of one that broke off and
// had reported so much, served by a pool. Of the answer so many tokens were sent. It returns the
// cost of the call that broke off.
func (a *Account) Resumed(reported schema.Usage, by *routing.Pool, sent int64, goesOn bool) (cost prices.Amount) {
	if !a.isMeasured {
		return 0
	}
	used := a.spent(reported, false, true)
	cost = a.lose(used, by)
	a.again.isResumed, a.again.prompt, a.again.before = true, 0, 0
	if goesOn {
		a.again.prompt, a.again.before = sent, a.answer.Tokens()
	}
	return cost
}

// lose adds the use of a call at a pool to that of the calls without an answer, and returns its
// cost.
func (a *Account) lose(used schema.Usage, by *routing.Pool) prices.Amount {
	cost := a.costOf(by, used, true)
	a.lost.used, a.lost.cost = addUsage(a.lost.used, used), a.lost.cost.Plus(cost)
	return cost
}

// ReportLast notes the usage that the latest of several calls reported; clients are told
// less.
func (a *Account) ReportLast(reported schema.Usage) { a.again.last = reported }

// Spend adds the use of a call that gave the client no answer, or only a piece of it, to the sum
// that settles the request, at the price of the model that serves the request now. If its backend
// reported no usage, the use is the estimate of its prompt and its answer: of the prompt of a part
// or, for nil, of the whole request. An estimate counts in limits, budgets and costs, and not in
// the ledger's tokens. Spend returns the cost of the call.
func (a *Account) Spend(used schema.Usage, part *schema.Request, answer [][]byte) (cost prices.Amount) {
	var written estimate.Answer
	for _, segment := range answer {
		written.Add(a.door, segment)
	}
	used = a.detailed(used, written.Tokens(), false)
	if used.Known {
		a.lost.reported = addUsage(a.lost.reported, used)
		a.lost.reported.Known = true
	}
	if !a.isMeasured {
		return 0
	}
	if !used.Known {
		most := a.most
		most.Prompt += a.again.prompt
		if part != nil {
			most = estimate.Most(part, nil, 0)
		}
		used.Prompt, used.Completion = most.Prompt, max(written.Tokens()-most.Echoed, 0)
		used.Total = used.Prompt + used.Completion
	}
	return a.lose(used, a.served)
}

// Diverged is Spend for a call that was to go on with the answer after so many sent tokens, and
// began another one.
func (a *Account) Diverged(reported schema.Usage, sent int64, goesOn bool) prices.Amount {
	before := a.again.prompt
	defer func() { a.again.prompt = before }()
	if a.again.prompt = 0; goesOn {
		a.again.prompt = sent
	}
	return a.Spend(reported, nil, nil)
}

// SpentAll notes that Spend has added all calls, those with an answer included.
func (a *Account) SpentAll() { a.lost.isAll = true }

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
