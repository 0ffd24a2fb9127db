// Package proxy handles one unified request from its admission to its end: it lets it in
// (package account), takes it through the steps, chooses an instance, calls it, tries another
// one if the call failed in a way that allows it, sends the answer to the client through a
// Sink, and settles exactly once.
//
// Do in proxy.go is the way of a request. Routing is a choice (which instance), an
// attempt (one call) and a reply (the answer as it is read), which a run holds.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// Proxy answers unified requests from backends.
type Proxy struct {
	account.Desk
	hop          string // the name of this gateway in the CDN-Loop header
	current      *routing.Current
	client       *transport.Client
	retryBudgets [schema.ServiceTypeCount]retryBudget
	runs         sync.Pool
	buffers      sync.Pool     // of events
	seed         maphash.Seed  // for the digests of requests
	silence      time.Duration // see CommentAfter
	// recorder counts failovers and requests that are shed; nil counts nothing.
	recorder *calls.Recorder
	// bodies has the memory for large answers; nil means no limit.
	bodies *memory.Room
	// log tells the steps of requests at DEBUG; nil tells nothing.
	log    *slog.Logger
	enders enders
	counts counts
}

// defaultSilence is the silence in a stream after which a comment is sent. It is long
// because some clients give up on streams with many comments in a row.
const defaultSilence = 15 * time.Second

// New returns a proxy that routes by the current table and calls over the client.
func New(current *routing.Current, client *transport.Client) *Proxy {
	return &Proxy{
		hop: newHop(), current: current, client: client, seed: maphash.MakeSeed(), silence: defaultSilence,
		runs:    sync.Pool{New: newRun},
		buffers: sync.Pool{New: newEventBuffer},
	}
}

// CommentAfter sets the silence in a stream after which a comment is sent to keep the
// connection alive: proxies between the gateway and the client must not close it. 0
// means 15 seconds. It must be called before the first request.
func (p *Proxy) CommentAfter(silence time.Duration) { p.silence = cmp.Or(silence, defaultSilence) }

// SetRecorder sets the recorder that counts failovers and shed requests and decides
// which requests are traced. It must be called before the first request.
func (p *Proxy) SetRecorder(recorder *calls.Recorder) { p.recorder = recorder }

// SetBodies makes large answers that are read whole take from the memory for bodies. It
// must be called before the first request.
func (p *Proxy) SetBodies(bodies *memory.Room) { p.bodies = bodies }

// Do admits a request, answers it through a sink, and settles. It returns nil if the sink
// was given an answer, even one that ends with an error event. It returns ErrBrokenOff if
// the answer broke off in a form that cannot carry an error: then the caller must end the
// connection. With any other error the sink was given no answer, and the caller tells the
// client; that error is a *schema.Error or the cause with which ctx ended.
//
// Do returns the memory of the request to its owner, at its end or earlier. It fills in the
// record; the caller has set the start of the request there.
func (p *Proxy) Do(ctx context.Context, req *Request, to Sink) error {
	r := p.begin(req)
	r.client = to
	panicked := true
	defer func() { r.end(panicked) }()
	err := p.checkHops(r.Caller.Hops)
	if err == nil {
		err = r.readHeaders()
		r.Record.Class, r.Record.Target = r.Class, r.Target
	}
	if err == nil {
		err = r.open(ctx)
	}
	r.giveBackUnanswered() // before the caller learns the remaining limits
	r.tellRoute(to)
	if err == nil {
		if led, isLed := r.answer.(Led); isLed {
			err = r.sendLed(ctx, led, to)
		} else {
			err = r.send(ctx, to)
		}
	} else {
		r.noteEnd(err)
		r.noteStopped(ctx)
		r.countShed()
		r.keepFallen()
		// No attempt has answered. None has a cost then, unless it was ended while the backend
		// had the request.
		r.Settle(schema.Usage{}, false, r.isCut)
	}
	panicked = false
	return err
}

// open opens the account of the request: its answer comes from a step, or from an
// instance after the last step. An answer of a step is counted here.
func (r *run) open(ctx context.Context) error {
	answer, err := r.Open(ctx, r.last)
	if err != nil {
		// The lack of an instance weighs more than a reached limit, which passes.
		if !r.IsOpen() && errors.As(err, new(*schema.Error)) {
			err = cmp.Or(r.choice.start(ctx), err)
		}
		return err
	}
	if err := r.Count(); err != nil {
		closeShared(answer)
		return err
	}
	if r.reply.FirstByte.IsZero() {
		r.reply.FirstByte = time.Now()
	}
	r.answer = answer
	return nil
}

// routed routes a request that has passed all steps.
func (r *run) routed(ctx context.Context) (account.Answer, error) {
	if err := r.route(ctx); err != nil {
		return nil, err
	}
	return &r.reply, nil
}

// run is the handling of one request: an instance is chosen, it is called, its reply
// is sent. Its steps come in this order:
//
//	begin               takes the run from the pool; the request is in flight
//	open                opens the account (package account): limits, budgets, steps
//	Count               counts the request in the ledger, when a call is made
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
	reply   reply.Reply    // of an instance
	answer  account.Answer // the answer to send: the reply, or the result of a step
	raw     rawBody        // the body of an answer that is not a stream of events
	broke   *reply.Fault   // why the answer broke off, where no other instance goes on with it
	// last is routed and notifies is notify, made once for all requests of the run.
	last     func(context.Context) (account.Answer, error)
	notifies account.Notify
	// isCut means that the last call was ended with the request, or given up, while the backend
	// had it.
	isCut bool
	// gathered are the pieces of the request, nil for one that is not split.
	gathered []*part
	// parts are the runs of the pieces and of second calls. They end with the request,
	// because its answer shares their memory.
	parts []*run
	// joint is the part of an answer by the instance that goes on with it, nil where
	// none does.
	joint *resume.Joint
	// broken is the call with a broken answer after the search for another instance found
	// none to go on; nil for all others.
	broken *brokenCall
	// client gets the answer; nil for a part of another request.
	client Sink
}

func newRun() any {
	r := new(run)
	r.last, r.notifies = r.routed, r.notify
	return r
}

// begin returns a run for a request, from the pool of runs.
func (p *Proxy) begin(req *Request) *run {
	r := p.runs.Get().(*run)
	r.proxy, r.Request = p, req
	if r.Table == nil {
		r.Table = p.current.Load()
	}
	r.Desk = &p.Desk
	r.Find()
	r.Notify = r.notifies
	r.Record.Running.Note(r.Model, "")
	r.reply.Memory = p.bodies.Lease(r.Caller.KeyID, r.Caller.Addr)
	r.choice.request, r.attempt.request = &r.request, &r.request
	r.choice.excluded.Spare = r.isSpare()
	r.startRecord()
	r.retryBudget().enter()
	return r
}

// answered notes that the answer has begun. Where it is already complete the attempt
// ends and its slot is free: a client that reads slowly does not occupy the backend.
func (r *run) answered(at time.Time) {
	switch {
	case r.reply.Whole:
		r.releaseAt(breaker.Success, at)
	case r.onlyLoads():
		r.release(breaker.Cancelled)
	default:
		r.attempt.permit = r.attempt.instance.Answered(r.attempt.permit, at)
	}
}

// release ends the attempt if it has not ended, and wakes a request that waits for a
// slot.
func (r *run) release(outcome breaker.Outcome) { r.releaseAt(outcome, time.Time{}) }

// releaseAt is release for callers that know the time.
func (r *run) releaseAt(outcome breaker.Outcome, now time.Time) {
	if r.attempt.end(outcome, r.lastUsage(), now) {
		r.choice.pool.Wake()
	}
}

// settle ends the accounts of the request with the usage that the backend has
// reported; only the first call has an effect.
func (r *run) settle(complete bool) {
	if r.joint != nil {
		r.ReportLast(r.lastUsage())
	}
	r.Settle(r.usage(), complete, !r.reply.FirstByte.IsZero() || r.Record.Gone)
}

// charge counts a part of the cost for the instance that caused it: the rest counts for the one that
// answers.
func (r *run) charge(i *backend.Instance, cost prices.Amount) {
	if i != nil {
		r.Record.Charged = r.Record.Charged.Plus(cost)
		r.proxy.recorder.Registry().Charge(i.Series, int64(cost))
	}
}

// usage returns the tokens that the answer, or the backend before there is one, has reported.
func (r *run) usage() schema.Usage {
	switch {
	case r.broken != nil:
		return r.broken.told
	case r.answer != nil:
		return r.answer.Usage()
	}
	return r.reply.Usage()
}

// lastUsage returns the usage that the current or the last call has reported.
func (r *run) lastUsage() schema.Usage {
	switch {
	case r.broken != nil:
		return r.broken.last
	case r.joint != nil:
		return r.joint.Raw()
	}
	return r.reply.Usage()
}

// closeShared ends the request's part in a shared answer.
func closeShared(answer account.Answer) {
	if shared, ok := answer.(Shared); ok {
		shared.Close()
	}
}

// end gives back everything that the request holds. After a panic the run is not
// put back into the pool, because the state of its memory is unknown.
func (r *run) end(panicked bool) {
	r.giveBackUnanswered()
	if panicked {
		r.notePanic()
	}
	r.settle(false)
	r.release(r.reply.Outcome)
	for _, part := range r.parts {
		part.endPart(panicked)
	}
	closeShared(r.answer)
	r.retryBudget().leave()
	r.endRecord()
	r.Close()
	r.reply.Memory.Close()
	if p := r.proxy; !panicked {
		r.reset()
		p.runs.Put(r)
	}
}

// giveBackUnanswered gives the request's share of limits and budgets back if it reached no
// backend and no step answered it. Further calls have no effect.
func (r *run) giveBackUnanswered() {
	if r.choice.reached == 0 && r.answer == nil {
		r.GiveBack()
	}
}

// notePanic notes that the handling of the request panicked. That does not count
// against the instance, unless it had failed before.
func (r *run) notePanic() {
	if r.reply.FirstByte.IsZero() {
		r.Settle(schema.Usage{}, false, false)
		r.reply.Reset()
	}
	if !r.reply.Outcome.Failed() {
		r.reply.Outcome = breaker.Cancelled
	}
	if r.Record.Code == "" {
		r.Record.Code = schema.CodeInternal
	}
}

// reset clears the run and keeps its memory for the next request.
func (r *run) reset() {
	r.reply.Free()
	r.choice.reset()
	r.attempt.reset()
	r.reply.Reset()
	// One by one: the larger members above are not copied.
	r.request, r.answer, r.raw, r.broke, r.isCut = request{}, nil, rawBody{}, nil, false
	r.joint, r.broken, r.client, r.gathered, r.parts = nil, nil, nil, nil, nil
}

// tellRoute tells a sink where the request went. The route is on the stack of this
// function, not of Do, because the stack of Do is there for as long as a stream lasts.
func (r *run) tellRoute(to Sink) {
	route := Route{
		Model: r.Model, Instance: r.attempt.instance, Attempts: r.Record.Attempts, Cache: r.Record.Cache,
		Limit: r.choice.limitDecision(r.attempt.instance, r.reply.FirstByte),
		Held:  r.Record.Held,
		Queue: r.outlook,
	}
	route.Answerers = answerers(r.gathered)
	route.KeyRequests, route.KeyTokens = r.KeyLimits()
	if r.IsRenamed() {
		route.Asked = string(r.Asks.Model)
	}
	to.Route(route)
}
