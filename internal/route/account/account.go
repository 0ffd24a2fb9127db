// Package account keeps the account of a request: the amounts it takes from limits and budgets
// at admission, the steps it passes, and the totals counted at its end. It reads the compiled
// table and looks at no instance: package proxy routes the admitted requests.
//
// Everything that uses a model has an Account and no other way in: requests of all doors,
// responses of the Realtime API, messages of a WebSocket, lines of batches, and requests that
// share a call. The ways of an account are
//
//	Open     counts it in the limits, reserves of the budgets and runs the steps
//	Owe      opens it without a reservation, for an answer that was refused and is made
//	Reserve  reserves more, for another call of the same request
//	Count    counts it in the ledger, when it is certain that it is answered
//	Settle   ends it with the use of the request, or
//	GiveBack ends it as if it had not been opened, because nobody answers
//	Close    is deferred: it gives back an account that has not ended, and returns the request
//
// Only the first of Settle and GiveBack has an effect, and only the first Count.
package account

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// Lender owns the memory of a request.
type Lender interface {
	// TakeBack is called once, when the request is not read any more.
	TakeBack()
}

// Account is one request on its way through the gateway, with everything that it took when it
// was let in. Every step of its way shares it. It must not be used concurrently, but
// for Count and Leaves.
type Account struct {
	// Desk has the ledger and the steps; nil has neither.
	Desk *Desk
	// Asks is the request of the client. It is lent: its owner neither changes it nor uses
	// its memory again until Return, after which it is nil.
	Asks  *schema.Request
	Owner Lender
	// Client is the dialect of a client that does not speak the unified one, nil where the
	// request is unified or cannot be translated.
	Client *dialect.Client
	Caller *access.Caller
	// Class is how urgent the request is while it waits; see Classify.
	Class schema.Class
	// Target is within what time the client wants the first token, 0 where it does not say; see
	// Aim.
	Target time.Duration
	// NoStore says that the client wants nothing of the answer to be kept.
	NoStore bool
	// Notify sends the client notices while it waits for a model. Package proxy sets it.
	Notify Notify
	Record *calls.Record
	// Table is the configuration in force when the request had been read.
	Table *routing.Table

	// Pool is the pool of the requested model, nil where no instance serves it. Model is the
	// configured name of the model that serves the request, empty until it is known.
	Pool  *routing.Pool
	Model string
	// served is the pool that serves the request, at its price; nil where nothing is paid.
	served *routing.Pool

	stage stage
	steps []Step // not taken yet
	last  func(ctx context.Context) (Answer, error)

	limits limits
	use    allowance.Use // of the limits of the key and its tenant
	// isMeasured says that the use of the request matters to a limit or has a price. Then most
	// is the upper bound of its use, and answer measures the bytes sent to the client; otherwise
	// answer has at most the beginning of the answer.
	isMeasured bool
	door       schema.Door
	most       estimate.Use
	// likely is how many tokens the answer is likely to have at most.
	likely int64
	answer estimate.Answer
	charge budget.Charge
	// turn is the request in its run, nil where it belongs to none, and end how it ended.
	turn Turn
	end  End
	// isBudgeted says that cost was reserved of the budgets of money. No model takes over
	// that may cost more.
	isBudgeted bool
	cost       prices.Amount
	// overLimit and tooDear are why the model that was asked for may not serve the request,
	// although one that takes over from it may; nil if nothing is.
	overLimit *schema.Error
	tooDear   *budget.Refusal
	// unpaid is why no model may serve the request, although a step may answer it: for lack of
	// money. It is nil if nothing was refused.
	unpaid *budget.Refusal
	// again describes further calls for the request. lost is the use of calls that gave the
	// client no answer.
	again furtherCalls
	lost  lost

	counting  sync.Mutex   // held by Count, which the pieces of a request may call
	isOwed    bool         // see Owe
	isCounted bool         // see Count
	ticket    quota.Ticket // the request in the ledger, if it is counted there
}

// Notify begins to send notices to a client after a time, 0 for none, until the function that it
// returns is called.
type Notify func(after time.Duration) (end func())

// stage is how far an account is.
type stage uint8

const (
	unopened stage = iota
	opening        // some limits may have counted it
	open           // all have
	ended          // it is settled or given back
)

// Desk is where accounts are opened: it has the ledger that counts them, and the steps that
// each of them passes. The zero Desk has neither.
type Desk struct {
	ledger atomic.Pointer[quota.Ledger]
	steps  atomic.Pointer[[]Step]
	// governor watches the runs of agents; nil where nobody does.
	governor  atomic.Pointer[Governor]
	answerers answerers
}

// SetLedger makes a ledger count every request from now on; nil counts none.
func (d *Desk) SetLedger(ledger *quota.Ledger) { d.ledger.Store(ledger) }

// Use puts steps between admission and routing, in this order. They replace the earlier
// steps, for requests from now on.
func (d *Desk) Use(steps ...Step) { d.steps.Store(&steps) }

// Step runs between admission and routing, such as a cache or a guard. It may answer a request
// by itself, refuse it with a *schema.Error, or call Next of the account, once, and return the
// answer of that, as it is or wrapped in an Answer of its own. A request that a step answers is
// limited, counted and recorded like any other. A step must not keep the account.
type Step func(ctx context.Context, a *Account) (Answer, error)

// Answer is an answer that has begun. It is read part by part, by one goroutine.
type Answer interface {
	// Form returns the form of the answer, which the client learns before the first
	// part.
	Form() Form
	// Next returns the next part, which is valid until the following call, and io.EOF
	// after the last part of a complete answer.
	Next() ([]byte, error)
	// IsComplete reports whether the part that Next returned last completes the answer in
	// the eyes of the client.
	IsComplete() bool
	// Usage returns the tokens that are known so far.
	Usage() schema.Usage
}

// Form is the form of an answer.
type Form struct {
	ContentType string
	// Length is the length of all parts together, -1 where it is not known because the
	// answer is streamed.
	Length int
	// Events says that the parts are events. They are server-sent events, with the mark of
	// their end, where Framed says so, and else the data of such events.
	Events, Framed bool
}

// Open counts the request in all limits, reserves its possible use of the budgets, and takes
// it through the steps. After the last step it calls last for the answer, unless there is no money
// for one: then only a step answers the request. After an error the
// caller must still end the account: IsOpen is false then if a limit or a budget refused the
// request.
func (a *Account) Open(ctx context.Context, last func(context.Context) (Answer, error)) (Answer, error) {
	if a.Desk != nil {
		if steps := a.Desk.steps.Load(); steps != nil {
			a.steps = *steps
		}
	}
	if err := a.admit(ctx); err != nil {
		return nil, err
	}
	a.last = last
	if a.unpaid != nil {
		a.last = func(context.Context) (Answer, error) {
			a.GiveBack()
			return nil, a.overBudget(a.unpaid, time.Now())
		}
	}
	return a.Next(ctx)
}

// IsUnpaid reports whether the request can be answered only if that costs nothing.
func (a *Account) IsUnpaid() bool { return a.unpaid != nil }

// Owe opens the account of an answer that is made already although Open refused it. It passes no
// steps, reserves nothing, and no limit, budget or run refuses it; Settle counts what was made.
func (a *Account) Owe(ctx context.Context) {
	a.isOwed, a.stage = true, open
	_ = a.enterRun(ctx) // the run is not found then
	a.takeMost()
	var budgets [2]*budget.Account
	if grant := a.Caller.Grant; grant != nil {
		_ = a.use.Take(grant.Accounts, allowance.NoTokens, time.Now())
		budgets = grant.Budgets
	}
	_, _ = a.charge.Reserve(ctx, budgets, budget.Want{}, a.Record.Started) // which has room for nothing
	_ = a.confirmRun()                                                     // the run keeps what was used
}

// IsOwed reports whether Owe opened the account.
func (a *Account) IsOwed() bool { return a.isOwed }

// Next calls the step that follows or, after the last one, whatever answers the request.
func (a *Account) Next(ctx context.Context) (Answer, error) {
	if len(a.steps) == 0 {
		return a.last(ctx)
	}
	step := a.steps[0]
	a.steps = a.steps[1:]
	return step(ctx, a)
}

// admit counts the request in all limits and reserves its possible use of the budgets.
func (a *Account) admit(ctx context.Context) error {
	if err := a.RefuseUnknown(); err != nil {
		return err
	}
	now := time.Now()
	a.stage, a.door = opening, a.Asks.Door
	if err := a.takeAllowance(ctx, now); err != nil {
		return err
	}
	if err := a.takeLimits(now); err != nil {
		return err
	}
	if a.unpaid == nil { // otherwise the request is refused unless a step answers it, and begins no run
		if err := a.confirmRun(); err != nil {
			return err
		}
	}
	a.stage = open
	a.Record.Limited = a.Record.At(now)
	return nil
}

// ServeBy names the pool that serves the request. The request pays its price; nil means
// that no pool serves it.
func (a *Account) ServeBy(pool *routing.Pool) {
	a.Model, a.served = "", pool
	if pool != nil {
		a.Model = pool.Model
	}
}

// Served returns the pool that serves the request, nil where none does.
func (a *Account) Served() *routing.Pool { return a.served }

// price returns the price of the model that serves the request, nil for nothing.
func (a *Account) price() *prices.Price {
	if a.served == nil {
		return nil
	}
	return a.served.Price
}

// IsOpen reports whether all limits have counted the request, and it has not ended.
func (a *Account) IsOpen() bool { return a.stage == open }

// Visit is Open for a request that asks for something that is kept, such as a response that
// was made before. It counts as a request in the limits of its key, its tenant and its service
// type. It uses no tokens, passes no steps, and neither a budget nor the ledger counts it. If it
// is refused, no limit has counted it.
func (a *Account) Visit() *schema.Error {
	now := time.Now()
	a.stage = opening
	refusal := a.takeRequest(now)
	if refusal == nil {
		refusal = a.takeLimits(now)
	}
	if refusal != nil {
		a.GiveBack()
	}
	a.stage = ended // there is nothing to settle
	return refusal
}

// Count counts the request in the ledger for the model that serves it, in the windows of its
// arrival, once it is certain that the request is answered or a call is made for it. Only the
// first call that returns no error has an effect.
func (a *Account) Count() error {
	a.counting.Lock()
	defer a.counting.Unlock()
	if a.isCounted {
		return nil
	}
	if a.Counts() {
		err := a.Desk.ledger.Load().Admit(&a.ticket, quota.Subject{
			Tenant: a.Caller.Tenant, APIKey: a.Caller.KeyID, User: a.user(), Service: a.Asks.Service, Model: a.Model,
		}, a.Record.Started)
		if err != nil {
			return ledgerUnavailable()
		}
	}
	a.isCounted = true
	return nil
}

// Counts reports whether the ledger counts the request.
func (a *Account) Counts() bool {
	return a.Desk != nil && !a.Asks.Uncounted && a.Desk.ledger.Load().On()
}

// user returns the user of the request: the one in a trusted header, or else the one in the
// body.
func (a *Account) user() []byte {
	if a.Caller.User != "" {
		return []byte(a.Caller.User)
	}
	return a.Asks.User
}

// Leaves counts the request in the budgets, because it leaves for a backend now.
func (a *Account) Leaves() { a.charge.Count() }

// Settle ends an open account with the usage that the backend reported. The ledger gets that
// usage: a complete answer of a service type that reports no tokens uses none, and an incomplete
// answer uses the tokens reported so far. A report of zeros for an answer that is not empty is
// no report. A request that no backend answered cost nothing.
func (a *Account) Settle(reported schema.Usage, complete, answered bool) {
	if a.stage != open {
		return
	}
	a.stage = ended
	answered = answered && !a.lost.isAll
	counted := a.detailed(reported, a.answerTokens(), complete)
	counted.Known = counted.Known || complete && !reported.Known && !a.Record.Service.ReportsTokens()
	if a.lost.reported.Known {
		counted = addUsage(counted, a.lost.reported)
		counted.Known = true
	}
	a.end.Input, a.end.Output = reported.Prompt, reported.Completion
	if !a.isMeasured {
		a.ticket.Settle(counted)
		a.charge.Settle(schema.Usage{}, 0)
		return
	}
	if a.again.isResumed {
		reported = a.again.last
	}
	spent := a.spent(reported, complete, answered)
	a.Record.Cost = a.costOf(a.served, spent, answered).Plus(a.lost.cost)
	a.end.Input, a.end.Output = spent.Prompt, spent.Completion
	if answered {
		a.rememberAnswer(spent.Completion)
	}
	spent = addUsage(spent, a.lost.used)
	a.ticket.SettleCost(counted, int64(a.Record.Cost))
	a.use.Settle(spent.Total, time.Now())
	a.charge.Settle(spent, int64(a.Record.Cost))
}

// GiveBack ends an open or half opened account and gives back all that it took, because
// nobody answers the request.
func (a *Account) GiveBack() {
	if a.stage != opening && a.stage != open {
		return
	}
	a.stage = ended
	now := time.Now()
	a.limits.giveBack(now)
	a.use.GiveBack(now)
	a.charge.GiveBack()
	a.ticket.Settle(schema.Usage{})
}

// Close gives the account back unless it has ended, frees the slot of the request among the
// concurrent requests of its key, and returns the request to its owner. Further calls have no
// effect.
func (a *Account) Close() {
	a.GiveBack()
	if a.Caller.Grant != nil {
		a.use.End()
	}
	a.leaveRun()
	a.Return()
}

// Return returns the request of the client to its owner. Only the first call has an effect.
func (a *Account) Return() {
	owner := a.Owner
	a.Asks, a.Client, a.Owner = nil, nil, nil
	if owner != nil {
		owner.TakeBack()
	}
}

// IsMeasured reports whether the length of the answer matters to a limit or has a price.
func (a *Account) IsMeasured() bool { return a.isMeasured }

// Measure adds a part of the answer to the estimate of its use.
func (a *Account) Measure(part []byte) { a.answer.Add(a.door, part) }
