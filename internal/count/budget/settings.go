// Package budget decides how much a key or a tenant may use up: requests, tokens and money
// in a day, in a month and in all. A request reserves its highest cost before it is sent,
// and is settled with its real cost. Without that, requests which run at the same time
// could pass a budget together. A ledger of its own (package quota) counts the spent
// amounts; its journal survives the process, and gateways share the amounts by a Store.
package budget

import (
	"cmp"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
)

// Budgets are the budgets of one key, or of all keys of one tenant together. Days and
// months follow the calendar, in UTC.
type Budgets struct {
	Day   Budget `json:"day,omitzero"`
	Month Budget `json:"month,omitzero"`
	Total Budget `json:"total,omitzero"`
}

// Budget is how much may be used up. 0 sets no budget and leaves it to wider settings;
// Unlimited requests or tokens set none, whatever the wider settings say.
type Budget struct {
	Requests int64         `json:"requests,omitzero" minimum:"-1" maximum:"1000000000000000"`
	Tokens   int64         `json:"tokens,omitzero" minimum:"-1" maximum:"1000000000000000"`
	Cost     prices.Amount `json:"cost,omitzero"`
}

// Unlimited is the value of a budget that does not exist even where wider settings have
// one.
const Unlimited = -1

// JournalDir is the directory of the journal of budgets in the data directory.
const JournalDir = "budget"

// RunsJournalDir is the directory of the journal of runs in the data directory.
const RunsJournalDir = "runs"

const most = 1_000_000_000_000_000

// windowCount is the number of windows that budgets have. A run has one.
const windowCount = 3

var windows = [windowCount]quota.Window{quota.BudgetDay, quota.BudgetMonth, quota.BudgetTotal}

func (b *Budgets) all() [windowCount]*Budget { return [...]*Budget{&b.Day, &b.Month, &b.Total} }

// Or returns the budgets, with the wider settings where b says nothing.
func (b Budgets) Or(wider Budgets) Budgets {
	for i, own := range b.all() {
		other := wider.all()[i]
		own.Requests = cmp.Or(own.Requests, other.Requests)
		own.Tokens = cmp.Or(own.Tokens, other.Tokens)
		own.Cost = cmp.Or(own.Cost, other.Cost)
	}
	return b
}

// Lesser returns the lesser of each budget, of those that both have.
func (b Budgets) Lesser(other Budgets) Budgets {
	for i, own := range b.all() {
		theirs := other.all()[i]
		own.Requests = lesser(own.Requests, theirs.Requests)
		own.Tokens = lesser(own.Tokens, theirs.Tokens)
		own.Cost = lesser(own.Cost, theirs.Cost)
	}
	return b
}

// lesser returns the lesser of two amounts; one that is not positive sets no bound.
func lesser[T ~int64](a, b T) T {
	if a <= 0 || b > 0 && b < a {
		return cmp.Or(max(b, 0), a)
	}
	return a
}

// Check reports every budget that has a value it may not have.
func (b Budgets) Check(report say.Report) {
	for i, name := range [...]string{"day", "month", "total"} {
		budget := b.all()[i]
		for unit, value := range map[string]int64{"requests": budget.Requests, "tokens": budget.Tokens} {
			if value < Unlimited || value > most {
				report(name+"."+unit, say.New("field.budget", "most", "1000000000000000"))
			}
		}
	}
}

// isSet reports whether there is any budget.
func (b Budgets) isSet() bool {
	for _, one := range b.all() {
		if one.Requests > 0 || one.Tokens > 0 || one.Cost > 0 {
			return true
		}
	}
	return false
}

// Amounts are requests, tokens, and money in 10^-12 of the currency's unit, and the permit to
// reserve less than a request may use.
type Amounts [units]int64

// The places of Amounts.
const (
	Requests = iota
	Tokens
	Cost
	// overdraft is the permit of a request that reserved its likely use. An account has one, so that
	// it is exceeded by at most one answer.
	overdraft

	units
)

// Plus returns the sum of amounts, at most the greatest number.
func (a Amounts) Plus(b Amounts) Amounts { return a.plus(b) }

func (a Amounts) plus(b Amounts) Amounts {
	for i := range a {
		a[i] = int64(prices.Amount(a[i]).Plus(prices.Amount(b[i])))
	}
	return a
}

// minus returns the rest of amounts, 0 where it would be less.
func (a Amounts) minus(b Amounts) Amounts {
	for i := range a {
		a[i] = max(0, a[i]-b[i])
	}
	return a
}

func (a Amounts) greater(b Amounts) Amounts {
	for i := range a {
		a[i] = max(a[i], b[i])
	}
	return a
}

func (a Amounts) lesser(b Amounts) Amounts {
	for i := range a {
		a[i] = min(a[i], b[i])
	}
	return a
}

func (b *Budget) limits() Amounts { return Amounts{b.Requests, b.Tokens, int64(b.Cost)} }
