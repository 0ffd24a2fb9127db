package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// run is the handling of one request: an instance is chosen, it is called, its reply
// is sent. Its steps come in this order:
//
//	begin               takes the run from the pool; the request is in flight
//	Admit               takes from the limits and reserves of the budgets (package admit)
//	Count               counts the request in the ledger, when an instance was acquired
//	answered            the answer has begun; release at once where it is already complete
//	release             ends an attempt (attempt.end) and gives its slot back; once for each
//	giveBackUnanswered  gives the limits back where no backend was reached
//	settle              ends the accounts with the usage of the answer; only the first
//	                    call has an effect
//	end                 always comes last, and does whatever of these was not done
type run struct {
	request
	choice  choice
	attempt attempt
	reply   reply   // of an instance
	answer  Answer  // what is sent: the reply, or what a step made of it or in its place
	raw     rawBody // the body of an answer that is not a stream of events
	step    int     // how many steps were taken
	next    Next    // takeStep, made once for all requests of the run
}

func newRun() any {
	r := new(run)
	r.next = r.takeStep
	return r
}

// begin returns a run for a request, from the pool of runs.
func (p *Proxy) begin(req *Request) *run {
	r := p.runs.Get().(*run)
	r.proxy, r.Request = p, req
	if r.Table == nil {
		r.Table = p.current.Load()
	}
	r.Find()
	r.reply.memory = p.bodies.Lease(r.Caller.KeyID, r.Caller.Addr)
	r.choice.request, r.attempt.request = &r.request, &r.request
	r.startRecord()
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

// settle ends the accounts of the request with what the backend has reported; only the
// first call has an effect.
func (r *run) settle(complete bool) {
	r.Settle(r.usage(), complete, !r.reply.firstByte.IsZero() || r.Record.Gone)
}

// usage returns the tokens that the answer, or the backend before there is one, has reported.
func (r *run) usage() schema.Usage {
	if r.answer != nil {
		return r.answer.Usage()
	}
	return r.reply.Usage()
}

// end gives back everything that the request holds. After a panic the run is not
// put back into the pool, because the state of its memory is unknown.
func (r *run) end(panicked bool) {
	if panicked {
		r.notePanic()
	}
	r.giveBackUnanswered()
	r.settle(false)
	r.release(r.reply.outcome)
	r.retryBudget().leave()
	r.endRecord()
	r.End()
	r.reply.memory.Close()
	if p := r.proxy; !panicked {
		r.reset()
		p.runs.Put(r)
	}
}

// giveBackUnanswered gives back what the request took from limits and budgets if it reached
// no backend and no step answered it. Further calls have no effect.
func (r *run) giveBackUnanswered() {
	if r.choice.reached == 0 && r.answer == nil {
		r.GiveBack()
	}
}

// notePanic notes that the handling of the request panicked. That does not count
// against the instance, unless it had failed before.
func (r *run) notePanic() {
	if r.reply.firstByte.IsZero() {
		r.Settle(schema.Usage{}, false, false)
		r.reply.reset()
	}
	if !r.reply.outcome.Failed() {
		r.reply.outcome = breaker.Cancelled
	}
	if r.Record.Code == "" {
		r.Record.Code = schema.CodeInternal
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
	r.request, r.answer, r.raw, r.step = request{}, nil, rawBody{}, 0
}

// tellRoute tells a sink where the request went. The route is on the stack of this
// function, not of Do, because the stack of Do is there for as long as a stream lasts.
func (r *run) tellRoute(to Sink) {
	route := Route{
		Model: r.Model, Instance: r.attempt.instance, Attempts: len(r.choice.excluded.called), Cache: r.Record.Cache,
		Limit: r.choice.limitDecision(r.attempt.instance, r.reply.firstByte),
	}
	route.KeyRequests, route.KeyTokens = r.KeyLimits()
	if r.IsRenamed() {
		route.Asked = string(r.Asks.Model)
	}
	to.Route(route)
}
