package budget

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// maxAccounts is how many accounts one request counts for: its key, its tenant and the run
// that it belongs to.
const (
	maxAccounts = 3
	ofRun       = 2
)

// Charge is the reservation of one request, and later its spending. The zero Charge
// reserved nothing. It must not be used concurrently, but for Count.
type Charge struct {
	// Run is the account of the run that the request belongs to, nil where there is none. It
	// is set before Reserve.
	Run *Account

	parts    [maxAccounts]part
	at       time.Time
	counting sync.Mutex // held by Count
}

type part struct {
	account  *Account // nil if there are no budgets
	spans    accountSpans
	reserved Amounts
	ticket   quota.Ticket
	// isCounted says that the request is counted, whether or not it succeeds.
	isCounted bool
}

// Gateways that reserve at the same moment see each other's reservations and may all give
// way, although there is room for some of them. So a request that found the room reserved
// asks again a few times, after random waits; the longest possible wait doubles each time.
const (
	retries     = 3
	longestWait = 40 * time.Millisecond // before the first retry
)

// Want is the use that a call reserves of an account: Most or, if requests may reserve their likely use,
// Full, and Likely if that has no room. Full is the use of a call to the end of what its model can write,
// which Most assumes to be less if the request sets no limit. Likely is the least of them.
type Want struct{ Most, Full, Likely Amounts }

// Exactly returns the want of a call whose use is known.
func Exactly(a Amounts) Want { return Want{a, a, a} }

// Reserve reserves the possible cost of a request, in all accounts or in none; nil
// accounts have no budgets. It returns the budget that has no room for it,
// ErrUnavailable, or the cause that ended ctx.
func (c *Charge) Reserve(
	ctx context.Context, owners [ofRun]*Account, want Want, at time.Time,
) (*Refusal, error) {
	accounts := [maxAccounts]*Account{owners[0], owners[1], c.Run}
	for try := 0; ; try++ {
		refused, err := c.reserveOnce(accounts, want, at)
		if err != nil || refused == nil {
			return nil, err
		}
		// Nobody is refused for good by an answer that is older than a beat.
		if !refused.Held && refused.state.refresh() {
			continue
		}
		if !refused.Held || try == retries || !tell(accounts) {
			return refused, nil
		}
		wait := rand.N(longestWait << try) //nolint:gosec // nobody gains by guessing it
		if err := refused.state.book.options.pause(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// tell tells other gateways the amounts that a request gave back because reservations
// refused it, and learns the amounts that they have given back. It reports whether a
// retry may find room because of that.
func tell(accounts [maxAccounts]*Account) bool {
	for _, account := range accounts {
		if account != nil && !account.exchange() {
			return false
		}
	}
	return true
}

// reserveOnce is Reserve without retries.
func (c *Charge) reserveOnce(accounts [maxAccounts]*Account, want Want, at time.Time) (*Refusal, error) {
	c.at = at
	for i, account := range accounts {
		if account == nil {
			continue
		}
		if !account.book.mayCount() {
			c.GiveBack()
			return nil, ErrUnavailable
		}
		spans := account.open(at)
		p := &c.parts[i]
		p.account, p.spans = account, spans
		if _, refused, err := p.reserve(want); refused != nil || err != nil {
			c.GiveBack()
			return usedUpFirst(refused, accounts[i+1:], want, at), err
		}
	}
	return nil, nil //nolint:nilnil // neither refused nor failed
}

// reserve reserves the most that a call may use or, if that has no room and the account allows it,
// its likely use. It returns the reserved amounts.
func (p *part) reserve(want Want) (reserved Amounts, refused *Refusal, err error) {
	if reserved = want.Most; p.account.book.options.Likely {
		reserved = want.Full
	}
	refused, err = p.account.reserve(&p.spans, reserved)
	if refused != nil && p.account.isLikely(want) {
		reserved = want.Likely
		reserved[overdraft] = max(0, 1-p.reserved[overdraft])
		asked := refused
		if refused, err = p.account.reserve(&p.spans, reserved); refused != nil && refused.Unit == overdraft {
			asked.Held = true // another request has the permit
			asked.Wanted, refused = want.Likely, asked
		}
	}
	if refused == nil && err == nil {
		p.reserved = p.reserved.plus(reserved)
	}
	return reserved, refused, err
}

// usedUpFirst returns the refusal, or the refusal of another account's used up budget
// where the first budget is only held: a client must not wait in vain.
func usedUpFirst(refused *Refusal, others []*Account, want Want, at time.Time) *Refusal {
	if refused == nil || !refused.Held {
		return refused
	}
	for _, account := range others {
		if account == nil {
			continue
		}
		least := want.Most
		if account.isLikely(want) {
			least = want.Likely
		}
		spans := account.lockSpans(at)
		other := account.refuse(&spans, least)
		account.mu.Unlock()
		if other != nil && !other.Held {
			return other
		}
	}
	return refused
}

// More reserves more for a request that has reserved before, because another call is made
// for it: in all its accounts or in none. The request itself is counted once. It returns the
// budget that has no room for it, or ErrUnavailable; it does not wait until others have
// given something back.
func (c *Charge) More(want Want) (reserved Further, refused *Refusal, err error) {
	want.Most[Requests], want.Full[Requests], want.Likely[Requests] = 0, 0, 0
	for i := range c.parts {
		p := &c.parts[i]
		if p.account == nil {
			continue
		}
		if reserved[i], refused, err = p.reserve(want); refused != nil || err != nil {
			reserved[i] = Amounts{}
			c.Less(reserved)
			return Further{}, refused, err
		}
	}
	return reserved, nil, nil
}

// Further is a reservation of More, of each account.
type Further [maxAccounts]Amounts

// Less gives back a reservation of More, because that call spends nothing.
func (c *Charge) Less(reserved Further) {
	for i := range c.parts {
		if p := &c.parts[i]; p.account != nil {
			p.account.reduce(&p.spans, reserved[i])
			p.reserved = p.reserved.minus(reserved[i])
		}
	}
}

// Count counts the request, because it leaves for a backend now. A count cannot be taken back,
// and a crash of the process cannot undo it. Further calls have no effect. The pieces of a
// request leave at the same time, and one may leave while More reserves for another call.
func (c *Charge) Count() {
	c.counting.Lock()
	defer c.counting.Unlock()
	for i := range c.parts {
		if p := &c.parts[i]; p.account != nil {
			p.count(c.at)
		}
	}
}

// count counts the request unless it is counted.
func (p *part) count(at time.Time) {
	if !p.isCounted {
		p.isCounted = p.account.book.options.Ledger.Admit(&p.ticket, p.account.subject, p.account.countedAt(at)) == nil
	}
}

// Settle replaces the reservation by the cost of the request. When it returns, a crash of
// the process cannot undo it. Only the first call has an effect.
func (c *Charge) Settle(usage schema.Usage, cost int64) { c.end(true, usage, cost) }

// GiveBack gives the reservation back, because the request reaches no backend. It has no
// effect after Settle. One that was counted stays counted.
func (c *Charge) GiveBack() { c.end(false, schema.Usage{}, 0) }

// end replaces the reservation by the spent amounts. A request that is used was counted, or
// is counted now.
func (c *Charge) end(isUsed bool, usage schema.Usage, cost int64) {
	usage.Known = true // unreported parts are estimated
	for i := range c.parts {
		p := &c.parts[i]
		if p.account == nil {
			continue
		}
		var spent Amounts
		if isUsed {
			p.count(c.at)
		}
		if p.isCounted {
			p.ticket.SettleCost(usage, cost)
		}
		if isUsed || p.isCounted {
			spent = Amounts{1, usage.Total, cost}
		}
		p.account.settle(&p.spans, p.reserved, spent)
		*p = part{}
	}
}
