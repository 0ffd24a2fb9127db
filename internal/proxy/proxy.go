// Package proxy takes one unified request from its routing to its end: find a
// pool, pick an instance, call it, try another one if that is allowed, and
// settle exactly once.
package proxy

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/calls"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// Proxy answers unified requests from backends.
type Proxy struct {
	hop     string // the name of this gateway among those that a request passes
	current *routing.Current
	client  *transport.Client
	budgets [schema.ServiceTypeCount]budget
	replies sync.Pool
	seed    maphash.Seed // of the digests of requests
	// recorder counts failovers and requests that are shed; nil counts nothing.
	recorder *calls.Recorder
	// ledger counts what reaches a backend; nil counts nothing.
	ledger *quota.Ledger
}

// New returns a proxy that routes by the current table and calls over the client.
func New(current *routing.Current, client *transport.Client) *Proxy {
	return &Proxy{hop: newHop(), current: current, client: client, replies: sync.Pool{New: func() any { return new(Reply) }}, seed: maphash.MakeSeed()}
}

// Do answers a request. On success the caller reads the reply and closes it; on
// failure the error is a *schema.Error, or the context's own when the client
// left. The Reply is returned in both cases, tells what was tried, and must be
// closed. Until then the record is the proxy's to fill in; the caller has set when
// the request started.
//
// The steps, top to bottom: find the pool, see that an instance can take the
// request and that its dialect can express it, take part in the limits, acquire an
// instance, write the request in its dialect, count it in the ledger, call the
// instance. A failure that another instance may not have leads to the next one, as
// long as nothing was sent to the client.
func (p *Proxy) Do(ctx context.Context, req *schema.Request, caller *schema.Caller, record *calls.Call) (*Reply, error) {
	r := p.begin(req, caller, record)
	panicked := true
	defer func() {
		if panicked {
			r.discard()
		}
	}()
	err := r.answer(ctx)
	panicked = false
	if err != nil {
		r.ticket.Settle(schema.Usage{}) // no attempt answered, so none tells its cost
	}
	r.noteEnd(err)
	return r, err
}

func (r *Reply) answer(ctx context.Context) error {
	if err := r.proxy.checkHops(r.caller.Hops); err != nil {
		return err
	}
	if err := r.follow(); err != nil {
		return err
	}
	if err := r.choice.admit(); err != nil {
		return err
	}
	r.record.Limited = r.record.At(r.last.now)
	err := r.attempts(ctx, r.table.Limits.MaxAttempts)
	if r.Attempts() == 0 {
		r.limits.giveBack(time.Now())
	}
	return err
}

// begin returns the reply to a request, which Close gives back.
func (p *Proxy) begin(req *schema.Request, caller *schema.Caller, record *calls.Call) *Reply {
	r := p.replies.Get().(*Reply)
	r.proxy, r.req, r.caller = p, req, caller
	r.choice.request, r.attempt.request = &r.request, &r.request
	r.startRecord(record)
	r.budget().enter()
	return r
}

// attempts tries one instance after the other until one answers.
func (r *Reply) attempts(ctx context.Context, most int) error {
	defer r.endRetry()
	if err := r.pick(ctx, &r.attempt); err != nil {
		return err
	}
	if err := r.count(); err != nil {
		r.giveUp()
		r.pool.Queue.Wake()
		return err
	}
	for {
		r.excluded.called = append(r.excluded.called, r.Instance)
		failed := r.try(ctx)
		if failed == nil {
			return nil
		}
		gone := ctx.Err() != nil
		if gone {
			failed.outcome = breaker.Cancelled // whatever broke then, the instance did not do it
		}
		if failed.outcome.Failed() && r.failedBefore() && r.caller.Retry {
			failed.outcome = breaker.Cancelled // it was counted the first time
		}
		r.record.Try().Code, r.record.Try().Cause = failed.err.Code, failed.err.Cause
		r.release(failed.outcome)
		if gone {
			return context.Cause(ctx)
		}
		if failed.elsewhere {
			r.Instance.Troubled()
		}
		if failed.overload > 0 {
			r.Instance.Overloaded(time.Now().Add(failed.overload))
		}
		// The failure says more than the lack of another instance.
		if !failed.elsewhere || r.Attempts() >= most || !r.pickAnother(&r.attempt) {
			return failed.err
		}
	}
}
