package account

import (
	"cmp"
	"context"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Governor finds the run of an agent that a request belongs to.
type Governor interface {
	// Enter returns the request as a turn of its run, nil where it belongs to none, or the
	// error that refuses it. It may wait.
	Enter(ctx context.Context, a *Account) (Turn, error)
}

// Turn is a request in its run.
type Turn interface {
	// Account is the account of the run, of which the request reserves.
	Account() *budget.Account
	// Answers returns the latest answers of the run, nil if there are none.
	Answers() *Answers
	// Refused returns the error of a request that wants more than the account of the run has.
	Refused(refusal *budget.Refusal) *schema.Error
	// RefuseUnpriced returns the error of a request that a model without a price may not serve, nil if
	// one may.
	RefuseUnpriced(model string) *schema.Error
	// Confirm lets the request in after all limits did, or refuses it: others may have ended the run
	// meanwhile, or there may be no room for a run that begins.
	Confirm() *schema.Error
	// Leave ends the turn. It is called once for each turn that was entered.
	Leave(end End)
}

// End is how a turn ended.
type End struct {
	// Refusal is the error of a run or a budget without room, nil where there was room.
	Refusal *schema.Error
	// Model is the model that served the request. Input and Output are the tokens of its prompt and
	// of its answer.
	Model         string
	Input, Output int64
}

// SetGovernor makes a governor see every request from now on.
func (d *Desk) SetGovernor(g Governor) { d.governor.Store(&g) }

// enterRun finds the run that the request belongs to.
func (a *Account) enterRun(ctx context.Context) (err error) {
	if a.Desk == nil {
		return nil
	}
	governor := a.Desk.governor.Load()
	if governor == nil {
		return nil
	}
	if a.turn, err = (*governor).Enter(ctx, a); err == nil && a.turn != nil {
		a.charge.Run = a.turn.Account()
	}
	return err
}

// UnpricedModel returns the model that was asked for if it has no price or, if no instance serves
// that, the first model that takes over if none of them has one; and else nothing.
func (a *Account) UnpricedModel() (model string) {
	if a.Pool != nil {
		if a.Pool.Price == nil {
			model = a.Pool.Model
		}
		return model
	}
	for _, to := range a.takeovers() {
		switch price, mayServe := a.priceOf(to); {
		case price != nil:
			return ""
		case mayServe:
			model = cmp.Or(model, to.Model)
		}
	}
	return model
}

// RefuseUnpriced returns an error if the model of a pool has no price and the run of the request
// needs one.
func (a *Account) RefuseUnpriced(by *routing.Pool) *schema.Error {
	if by.Price != nil || a.turn == nil {
		return nil
	}
	return a.turn.RefuseUnpriced(by.Model)
}

// takeRun reserves one request of the run, for a request that is no use of a model.
func (a *Account) takeRun(ctx context.Context, now time.Time) error {
	if a.turn == nil {
		return nil
	}
	refusal, err := a.charge.Reserve(ctx, [2]*budget.Account{}, budget.Exactly(budget.Amounts{1}), a.Record.Started)
	switch {
	case err != nil:
		return a.unreserved(err)
	case refusal != nil:
		return a.overBudget(refusal, now)
	}
	return nil
}

// confirmRun begins the run of the request, now that no limit refuses it, and refuses the request if
// the run has ended meanwhile or has no room.
func (a *Account) confirmRun() error {
	if a.turn == nil {
		return nil
	}
	if refusal := a.turn.Confirm(); refusal != nil {
		return refusal
	}
	return nil
}

// leaveRun ends the turn of the request.
func (a *Account) leaveRun() {
	if a.turn == nil {
		return
	}
	a.end.Model = a.Model
	a.turn.Leave(a.end)
	a.turn = nil
}
