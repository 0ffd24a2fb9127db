package budget

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// maxAccounts is how many accounts one request counts for: its key and its tenant.
const maxAccounts = 2

// Charge is what one request reserved and spent. The zero Charge reserved nothing. It must
// not be used concurrently.
type Charge struct {
	parts    [maxAccounts]part
	reserved Amounts
	at       time.Time
}

type part struct {
	account *Account // nil where there are no budgets
	spans   [windowCount]*span
	ticket  quota.Ticket
}

// Reserve reserves what a request may cost, in all accounts or in none; nil accounts have
// no budgets. It returns the budget that has no room for it, or ErrUnavailable.
func (c *Charge) Reserve(accounts [maxAccounts]*Account, want Amounts, at time.Time) (*Refusal, error) {
	c.reserved, c.at = want, at
	for i, account := range accounts {
		if account == nil {
			continue
		}
		if !account.book.mayCount() {
			c.GiveBack()
			return nil, ErrUnavailable
		}
		spans, refused := account.reserve(want, at)
		if refused != nil {
			account.noteRefused(refused)
			c.GiveBack()
			return refused, nil
		}
		c.parts[i].account, c.parts[i].spans = account, spans
		refused, err := account.agree(&c.parts[i].spans, want)
		if refused != nil { // agree has given it back
			c.parts[i].account = nil
		}
		if refused != nil || err != nil {
			account.noteRefused(refused)
			c.GiveBack()
			return refused, err
		}
	}
	return nil, nil //nolint:nilnil // neither refused nor failed
}

// Settle replaces the reservation by what the request cost. When it returns, a crash of the
// process cannot undo it. Only the first call has an effect. The request itself is counted
// here and not before, because a count cannot be taken back and a request that does not
// reach its backend is given back.
func (c *Charge) Settle(usage schema.Usage, cost int64) {
	usage.Known = true // what was not reported is estimated
	for i := range c.parts {
		p := &c.parts[i]
		if p.account == nil {
			continue
		}
		if p.account.book.options.Ledger.Admit(&p.ticket, p.account.subject, c.at) == nil {
			p.ticket.SettleCost(usage, cost)
		}
		p.account.settle(&p.spans, c.reserved, Amounts{1, usage.Total, cost})
		p.account = nil
	}
}

// GiveBack gives the reservation back, because the request reaches no backend. It has no
// effect after Settle.
func (c *Charge) GiveBack() {
	for i := range c.parts {
		p := &c.parts[i]
		if p.account == nil {
			continue
		}
		p.account.release(&p.spans, c.reserved)
		p.account = nil
	}
}
