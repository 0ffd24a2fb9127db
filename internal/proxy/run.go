package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// run is the handling of one request, in the order of time: an instance is chosen,
// it is called, its reply is sent.
type run struct {
	request
	choice  choice
	attempt attempt
	reply   reply
	ticket  quota.Ticket // the request's place in the quota ledger
}

// begin begins the handling of a request.
func (p *Proxy) begin(loan Loan, caller *schema.Caller, record *calls.Call) *run {
	r := p.runs.Get().(*run)
	r.proxy, r.Loan, r.caller = p, loan, caller
	r.choice.request, r.attempt.request = &r.request, &r.request
	r.startRecord(record)
	r.budget().enter()
	return r
}

// answered ends the attempt where the backend has done its part: how fast the
// client reads is no concern of the backend's slots.
func (r *run) answered() {
	if r.reply.whole {
		r.release(breaker.Success)
		return
	}
	r.attempt.permit = r.attempt.instance.Answered(r.attempt.permit, r.reply.firstByte)
}

// release ends the attempt if it has not ended, and lets one of the requests that
// wait have its slot.
func (r *run) release(outcome breaker.Outcome) {
	if r.attempt.end(outcome) {
		r.choice.pool.Queue.Wake()
	}
}

// settle adds what the answer costs to the ledger; only the first time counts. A
// complete answer of a service type that reports no tokens costs none. Of one that
// is not complete, what the backend reported until then is all that is known.
func (r *run) settle(complete bool) {
	usage := r.reply.usage()
	usage.Known = usage.Known || complete && !r.record.Service.ReportsTokens()
	r.ticket.Settle(usage)
}

// end gives back all that the request holds. A panic says nothing about the
// instance, unless it had failed before; the memory of such a request is not used
// again, because nobody knows what state it is in.
func (r *run) end(panicked bool) {
	if panicked {
		r.notePanic()
	}
	r.returnLimits()
	r.settle(false)
	r.release(r.reply.outcome)
	r.budget().leave()
	r.endRecord()
	r.Return()
	if p := r.proxy; !panicked {
		r.reset()
		p.runs.Put(r)
	}
}

// returnLimits gives back what the request took from the rate limits if it reached
// no backend. Doing so again changes nothing.
func (r *run) returnLimits() {
	if len(r.choice.excluded.called) == 0 {
		r.choice.limits.giveBack(time.Now())
	}
}

// notePanic notes that the handling of the request panicked.
func (r *run) notePanic() {
	if r.reply.firstByte.IsZero() {
		r.ticket.Settle(schema.Usage{})
		r.reply.reset()
	}
	if !r.reply.outcome.Failed() {
		r.reply.outcome = breaker.Cancelled
	}
	if r.record.Code == "" {
		r.record.Code = schema.CodeInternal
	}
}

// reset forgets everything but the memory.
func (r *run) reset() {
	r.choice.reset()
	r.attempt.reset()
	r.reply.reset()
	*r = run{choice: r.choice, attempt: r.attempt, reply: r.reply}
}

// route tells where the request went.
func (r *run) route() Route {
	route := Route{
		Model: r.model, Instance: r.attempt.instance, Attempts: len(r.choice.excluded.called),
		Limit: r.choice.standing(r.attempt.instance),
	}
	if r.model == "" {
		route.Asked = string(r.req.Model)
	}
	return route
}
