package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// run is the handling of one request: an instance is chosen, it is called, its reply
// is sent. Its steps come in this order:
//
//	begin         takes the run from the pool; the request is in flight
//	count         counts the request in the ledger, when an instance was acquired
//	answered      the answer has begun; release at once where it is already complete
//	release       ends an attempt (attempt.end) and gives its slot back; once for each
//	returnLimits  gives the limits back where no backend was reached
//	settle        ends the accounts with the usage of the answer, or settleWith with
//	              another one; only the first call has an effect
//	end           always comes last, and does whatever of these was not done
type run struct {
	request
	choice  choice
	attempt attempt
	reply   reply
	raw     rawBody      // the body of an answer that is not a stream of events
	ticket  quota.Ticket // the request in the quota ledger
	settled bool         // see settleWith
}

// begin returns a run for a request, from the pool of runs.
func (p *Proxy) begin(loan Loan, caller *access.Caller, record *calls.Call) *run {
	r := p.runs.Get().(*run)
	r.proxy, r.Loan, r.caller = p, loan, caller
	r.reply.memory = p.bodies.Lease(caller.KeyID, caller.Addr)
	r.choice.request, r.attempt.request = &r.request, &r.request
	r.startRecord(record)
	r.retryBudget().enter()
	return r
}

// answered notes that the answer has begun. Where it is already complete the attempt
// ends and its slot is free: a client that reads slowly does not occupy the backend.
func (r *run) answered() {
	if r.reply.whole {
		r.releaseAt(breaker.Success, r.reply.firstByte)
		return
	}
	r.attempt.permit = r.attempt.instance.Answered(r.attempt.permit, r.reply.firstByte)
}

// release ends the attempt if it has not ended, and wakes a request that waits for a
// slot.
func (r *run) release(outcome breaker.Outcome) { r.releaseAt(outcome, time.Time{}) }

// releaseAt is release for those who know the time.
func (r *run) releaseAt(outcome breaker.Outcome, now time.Time) {
	if r.attempt.end(outcome, now) {
		r.choice.pool.Queue.Wake()
	}
}

// count counts the request in the quota ledger, once for all its attempts, in the
// windows in which it arrived. It is called when an instance was acquired, so that a
// request that is refused before is not counted.
func (r *run) count() error {
	if r.req.Uncounted || !r.proxy.ledger.On() {
		return nil
	}
	err := r.proxy.ledger.Admit(&r.ticket, quota.Subject{
		Tenant: r.caller.Tenant, APIKey: r.caller.KeyID, User: r.req.User, Service: r.req.Service, Model: r.model,
	}, r.record.Started)
	if err != nil {
		return ledgerUnavailable()
	}
	return nil
}

// ledgerUnavailable says that a request cannot be counted and must not pass uncounted.
func ledgerUnavailable() *schema.Error {
	return &schema.Error{
		Message:    "The quota ledger cannot count this request now, and requests must not pass uncounted.",
		Type:       schema.TypeServiceUnavailable,
		Code:       schema.CodeLedgerUnavailable,
		RetryAfter: time.Second,
	}
}

// settle ends the accounts of the request with what the backend has reported; only the
// first call has an effect.
func (r *run) settle(complete bool) {
	r.settleWith(r.reply.usage(), complete, !r.reply.firstByte.IsZero() || r.record.Gone)
}

// settleWith ends the accounts of the request; only the first call has an effect. The
// ledger gets what was reported: a complete answer of a service type that reports no
// tokens uses none, and of an incomplete one it is what was reported so far. A request that
// no backend answered cost nothing.
func (r *run) settleWith(reported schema.Usage, complete, answered bool) {
	a, counted := &r.choice.taken, reported
	counted.Known = counted.Known || complete && !r.record.Service.ReportsTokens()
	if r.settled || !a.counted {
		r.ticket.Settle(counted)
		return
	}
	r.settled = true
	spent := a.spent(reported, complete, answered)
	r.record.Cost = a.costOf(r.choice.price(), spent, answered)
	r.ticket.SettleCost(counted, int64(r.record.Cost))
	a.use.Settle(spent.Total, time.Now())
	a.charge.Settle(spent, int64(r.record.Cost))
}

// end gives back everything that the request holds. After a panic the run is not
// put back into the pool, because the state of its memory is unknown.
func (r *run) end(panicked bool) {
	if panicked {
		r.notePanic()
	}
	r.returnLimits()
	r.settle(false)
	r.choice.taken.use.End()
	r.release(r.reply.outcome)
	r.retryBudget().leave()
	r.endRecord()
	r.Return()
	r.reply.memory.Close()
	if p := r.proxy; !panicked {
		r.reset()
		p.runs.Put(r)
	}
}

// returnLimits gives back what the request took from the rate limits if it reached
// no backend. Further calls have no effect.
func (r *run) returnLimits() {
	if r.choice.reached == 0 {
		now := time.Now()
		r.choice.limits.giveBack(now)
		r.choice.taken.use.GiveBack(now)
		r.choice.taken.charge.GiveBack()
	}
}

// notePanic notes that the handling of the request panicked. That does not count
// against the instance, unless it had failed before.
func (r *run) notePanic() {
	if r.reply.firstByte.IsZero() {
		r.settleWith(schema.Usage{}, false, false)
		r.reply.reset()
	}
	if !r.reply.outcome.Failed() {
		r.reply.outcome = breaker.Cancelled
	}
	if r.record.Code == "" {
		r.record.Code = schema.CodeInternal
	}
}

// reset clears the run and keeps its memory for the next request.
func (r *run) reset() {
	if r.reply.whole && r.reply.events == nil {
		r.reply.from.Free() // nobody else has it
	}
	r.choice.reset()
	r.attempt.reset()
	r.reply.reset()
	// One by one: the larger members above are not copied.
	r.request, r.raw, r.ticket, r.settled = request{}, rawBody{}, quota.Ticket{}, false
}

// tellRoute tells a sink where the request went. The route is on the stack of this
// function, not of Do, because the stack of Do is there for as long as a stream lasts.
func (r *run) tellRoute(to Sink) {
	route := Route{
		Model: r.model, Instance: r.attempt.instance, Attempts: len(r.choice.excluded.called),
		Limit: r.choice.limitDecision(r.attempt.instance, r.reply.firstByte), KeyRequests: r.choice.taken.use.Requests, KeyTokens: r.choice.taken.use.Tokens,
	}
	if r.isRenamed() {
		route.Asked = string(r.req.Model)
	}
	to.Route(route)
}
