// Package proxy handles one unified request from its admission to its end: it lets it in
// (package admit), takes it through the steps, chooses an instance, calls it, tries another
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

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/shares"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// Proxy answers unified requests from backends.
type Proxy struct {
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
	// ledger counts what reaches a backend; nil counts nothing.
	ledger *quota.Ledger
	// bodies has the memory for large answers; nil means no limit.
	bodies *shares.Pool
	// log tells the steps of requests at DEBUG; nil tells nothing.
	log *slog.Logger
	// steps stand between admission and routing.
	steps []Step
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
// connection alive, so that proxies between the gateway and the client do not close
// it; 0 means 15 seconds. It must be called before the first request.
func (p *Proxy) CommentAfter(silence time.Duration) { p.silence = cmp.Or(silence, defaultSilence) }

// SetRecorder sets the recorder that counts failovers and shed requests and decides
// which requests are traced. It must be called before the first request.
func (p *Proxy) SetRecorder(recorder *calls.Recorder) { p.recorder = recorder }

// SetLedger makes the proxy count every request that reaches a backend in the quota
// ledger. It must be called before the first request.
func (p *Proxy) SetLedger(ledger *quota.Ledger) { p.ledger = ledger }

// SetBodies makes large answers that are read whole take from the memory for bodies. It
// must be called before the first request.
func (p *Proxy) SetBodies(bodies *shares.Pool) { p.bodies = bodies }

// Use puts steps between admission and routing, in the order of their calls. It must be
// called before the first request.
func (p *Proxy) Use(steps ...Step) { p.steps = append(p.steps, steps...) }

// Do admits a request, answers it through a sink, and settles. It returns nil if the sink
// was given an answer, even one that ends with an error event. It returns ErrBrokenOff if
// the answer broke off in a form that cannot carry an error: then the caller must end the
// connection. With any other error the sink was given no answer, and the caller tells
// the client; that error is a *schema.Error or the cause with which ctx ended.
//
// Do returns to its owner what the request asks for, at its end or earlier. It fills in the
// record, in which the caller has set when the request started.
func (p *Proxy) Do(ctx context.Context, req *Request, to Sink) error {
	r := p.begin(req)
	panicked := true
	defer func() { r.end(panicked) }()
	err := p.checkHops(r.Caller.Hops)
	if err == nil {
		if err = r.Admit(ctx); err == nil {
			err = r.takeSteps(ctx)
		} else if unavailable := r.refusedAlso(err); unavailable != nil {
			err = unavailable
		}
	}
	r.giveBackUnanswered() // before the caller is told what remains
	r.tellRoute(to)
	if err == nil {
		err = r.send(ctx, to)
	} else {
		r.noteEnd(err)
		r.countShed()
		// No attempt answered, so that none has a cost, unless the client did not wait.
		r.Settle(schema.Usage{}, false, r.Record.Gone && r.choice.reached > 0)
	}
	panicked = false
	return err
}

// refusedAlso returns the error with which routing refuses a request that was not admitted,
// nil where it would take it: that no instance can serve a request weighs more than that a
// limit is reached, which passes.
func (r *run) refusedAlso(refusal error) error {
	if !errors.As(refusal, new(*schema.Error)) {
		return nil
	}
	return r.choice.start()
}

// takeSteps takes the request through the steps until one of them answers, or an instance
// does after the last one. What a step answers is counted here.
func (r *run) takeSteps(ctx context.Context) error {
	answer, err := r.next(ctx)
	if err == nil && r.reply.firstByte.IsZero() {
		if err = r.Count(r.proxy.ledger); err == nil {
			r.reply.firstByte = time.Now()
		}
	}
	if err == nil {
		r.answer = answer
	}
	return err
}

// takeStep calls the step that comes next, and routes the request after the last one.
func (r *run) takeStep(ctx context.Context) (Answer, error) {
	if r.step < len(r.proxy.steps) {
		r.step++
		return r.proxy.steps[r.step-1](ctx, r.Request, r.next)
	}
	if err := r.route(ctx); err != nil {
		return nil, err
	}
	return &r.reply, nil
}

// route calls one instance after the other until one answers. Nothing was sent to the
// client yet, so a failure that another instance may not have leads to the next one.
func (r *run) route(ctx context.Context) error {
	if err := r.choice.start(); err != nil {
		return err
	}
	defer r.choice.endRetry()
	err := r.choice.pick(ctx, &r.attempt)
	for err != nil && ctx.Err() == nil && r.choice.mayFallBack() && r.choice.fallBack(err) {
		err = r.choice.pick(ctx, &r.attempt)
	}
	r.choice.noteChoice()
	r.tellChoice(ctx, err)
	if err != nil {
		return err
	}
	// A request is counted once, for the model that serves it, and a count cannot be taken
	// back: where another model may take over, it is counted when the answer has begun.
	countLater := r.choice.hasMoreFallbacks()
	if !countLater {
		if err := r.Count(r.proxy.ledger); err != nil {
			r.attempt.returnUnused()
			r.choice.pool.Queue.Wake()
			return err
		}
	}
	failed := r.callUntilAnswered(ctx)
	if countLater {
		if err := r.Count(r.proxy.ledger); err != nil && failed == nil {
			r.release(breaker.Success)
			return err
		}
	}
	if failed == nil {
		r.answered()
	}
	return failed
}

// callUntilAnswered calls the instance that was acquired, and another one after each
// failure that another one may not have, until one answers. It returns the last failure.
func (r *run) callUntilAnswered(ctx context.Context) error {
	for {
		r.choice.noteCall(r.attempt.instance)
		r.tellCall(ctx)
		failed := r.attempt.call(ctx, &r.reply)
		if failed == nil {
			r.tellAnswer(ctx, nil)
			return nil
		}
		if failed.unsent {
			r.choice.reached--
		}
		r.attempt.noteFailure(ctx, failed)
		r.tellAnswer(ctx, failed)
		r.release(failed.outcome)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if failed.failover && !r.choice.isLastAttempt() && r.choice.pickAnother(&r.attempt) {
			continue
		}
		// Where no instance is left, the caller is told how the last one failed.
		if !r.choice.fallBackAfter(failed, &r.attempt) {
			return failed.err
		}
	}
}
