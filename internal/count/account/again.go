package account

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// furtherCalls is what limits, budgets and costs know of a request for which more than one
// call gave a part of the answer. A nil one knows nothing.
type furtherCalls struct {
	// last is what the latest call reported.
	last schema.Usage
	// prompt is how much of the answer is part of the prompt of the latest call, and before
	// how much of it was sent before that call, both in tokens as they are estimated.
	prompt, before int64
}

func (f *furtherCalls) inPrompt() int64 {
	if f == nil {
		return 0
	}
	return f.prompt
}

func (f *furtherCalls) sentBefore() int64 {
	if f == nil {
		return 0
	}
	return f.before
}

// lastOf returns what the latest call reported, given what was reported of all together.
func (f *furtherCalls) lastOf(reported schema.Usage) schema.Usage {
	if f == nil {
		return reported
	}
	return f.last
}

// ReserveAgain reserves what another call for the request may use, which goes on with an
// answer of which so many tokens were sent, or begins it anew if goesOn is false. It returns
// how much that is, or an error if a limit or a budget has no room for it.
func (r *Account) ReserveAgain(sent int64, goesOn bool) (reserved budget.Amounts, err error) {
	a, now := &r.taken, time.Now()
	if !a.counted || r.Caller.Grant == nil {
		return reserved, nil
	}
	most := a.most
	if goesOn {
		most.Prompt += sent
		most.Completion = max(most.Completion-sent, 1)
	}
	if refusal := a.use.More(most.Tokens(), now); refusal != nil {
		return reserved, keyLimited(refusal)
	}
	want := budget.Amounts{0, most.Tokens(), int64(r.Price.Cost(most.Quantity))}
	if !r.Caller.Grant.HasBudgets() {
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
	return reserved, noRoom(refusal, r.Table.Currency, now) // the request itself is not refused
}

// ReturnAgain gives back what ReserveAgain reserved for a call that failed.
func (r *Account) ReturnAgain(reserved budget.Amounts) {
	if reserved == (budget.Amounts{}) {
		return
	}
	r.taken.use.Less(reserved[budget.Tokens], time.Now())
	r.taken.charge.Less(reserved)
}

// Resumed notes that another call goes on with the answer in place of one that broke off and
// had reported so much, at a model of this price. Of the answer so many tokens were sent.
func (r *Account) Resumed(reported schema.Usage, price *prices.Price, sent int64, goesOn bool) {
	a := &r.taken
	if !a.counted {
		return
	}
	used := a.spent(reported, false, true)
	if a.again == nil {
		a.again = &furtherCalls{}
	}
	f := a.again
	r.lost.used = addUsage(r.lost.used, used)
	r.lost.cost = r.lost.cost.Plus(a.costOf(price, used, true))
	f.prompt, f.before = 0, 0
	if goesOn {
		f.prompt, f.before = sent, a.answer.Tokens()
	}
}

// ReportLast tells what the latest of several calls reported, of which clients are told less.
func (r *Account) ReportLast(reported schema.Usage) {
	if r.taken.again != nil {
		r.taken.again.last = reported
	}
}
